// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"fmt"
	"net/netip"
	"strings"

	"go.fd.io/govpp/binapi/fib_types"

	"calico-vpp-services/vpplink/binapi2606"
	"calico-vpp-services/vpplink/types"
)

// Packet is a packet that arrives at VPP.
type Packet struct {
	Proto    types.Protocol
	Src, Dst netip.AddrPort
	// InterfaceIndex is where it arrives.
	InterfaceIndex uint32
}

// String prints the packet on one line.
func (p Packet) String() string {
	return fmt.Sprintf("%s %s > %s at %d", p.Proto, p.Src, p.Dst, p.InterfaceIndex)
}

// Outcome is what becomes of a packet.
type Outcome int

// The outcomes.
const (
	Forwarded   Outcome = iota // by the FIB, untouched but for source NAT
	Translated                 // to a backend and forwarded there
	Unreachable                // answered with ICMP unreachable
	Dropped                    // silently
)

// String returns the name of the outcome.
func (o Outcome) String() string {
	return [...]string{"forwarded", "translated", "unreachable", "dropped"}[o]
}

// Verdict is what becomes of a packet, and why.
type Verdict struct {
	Outcome Outcome
	// Src and Dst are those the packet leaves with, or would have left with.
	// The port of a Src that was source NATed is not VPP's choice.
	Src, Dst netip.AddrPort
	// Backend is where a translation sends the packet, also when the way there
	// then turns out to be unreachable; zero if none was found. It differs
	// from Dst when the path is one without NAT.
	Backend netip.AddrPort
	// SNAT says that Src is not the packet's own.
	SNAT bool
	// Pinned says that a session decided, not the translation (S1).
	Pinned bool
	// Local says that the packet is for this node itself.
	Local bool
	// Interface is where the packet leaves, ^0 if nowhere.
	Interface uint32
	// Route is the FIB entry that was followed last; zero if none was.
	Route netip.Prefix
	// Reason explains a packet that was not forwarded.
	Reason string
}

// String prints the verdict on one line.
func (v Verdict) String() string {
	var b strings.Builder
	b.WriteString(v.Outcome.String())
	if v.Backend.IsValid() {
		fmt.Fprintf(&b, " to %s", v.Backend)
	}
	switch {
	case v.Local:
		b.WriteString(" locally")
	case v.Interface != invalidIndex:
		fmt.Fprintf(&b, " by %d", v.Interface)
	}
	if v.SNAT {
		fmt.Fprintf(&b, " from %s", v.Src.Addr())
	}
	if v.Pinned {
		b.WriteString(" (session)")
	}
	if v.Reason != "" {
		b.WriteString(": " + v.Reason)
	}
	return b.String()
}

// Trace tells where the first packet of a new flow would go. It changes
// nothing and looks at no session.
func (s *Sim) Trace(p Packet) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	tr := tracer{in: s.inst, packet: p, verdict: newVerdict(p)}
	tr.run()
	return tr.verdict
}

func newVerdict(p Packet) Verdict {
	return Verdict{Src: p.Src, Dst: p.Dst, Interface: invalidIndex}
}

// tracer takes one packet of a new flow through VPP.
type tracer struct {
	in      *instance
	packet  Packet
	verdict Verdict

	// What a session would have to remember.
	met      bool // a node of cnat
	inFIB    bool // and that was behind a VIP in the FIB
	path     *path
	vip      *vip
	noReturn bool

	leftByFeature bool // the interface it left by has the feature
}

func (tr *tracer) flow() flow {
	return flow{proto: uint8(tr.packet.Proto), src: tr.packet.Src, dst: tr.packet.Dst}
}

func (tr *tracer) end(o Outcome, format string, args ...any) {
	tr.verdict.Outcome = o
	tr.verdict.Reason = fmt.Sprintf(format, args...)
}

// run is the way of a packet: the input feature, the FIB, the output feature.
func (tr *tracer) run() {
	in, v := tr.in, &tr.verdict
	rx := in.iface(tr.packet.InterfaceIndex)
	if rx == nil {
		tr.end(Dropped, "there is no interface %d", tr.packet.InterfaceIndex)
		return
	}
	to := tr.packet.Dst.Addr()
	// C3: without the feature on the interface, cnat is only where the FIB
	// leads to it.
	tr.met = rx.cnat > 0
	// Twice enabled is not enabled: the first round of the nodes makes the
	// session, the second takes that for known, and nothing is translated.
	if rx.cnat == 1 {
		if vip := in.cnat.vips[to]; vip != nil {
			if t := in.cnat.find(vip, tr.packet.Dst.Port(), uint8(tr.packet.Proto)); t != nil {
				if !tr.translate(t) {
					return
				}
				to = v.Backend.Addr()
			}
		}
	}
	e := in.lookup(in.table0(to), to)
	if e.vip != nil && tr.path == nil {
		// C1: the FIB has cnat for the whole address, from every interface.
		if e.vip.returnOnly {
			v.Route = e.prefix
			tr.end(Dropped, "%s takes replies to source NATed flows only", to)
			return
		}
		tr.met, tr.inFIB = true, true
		t := in.cnat.find(e.vip, tr.packet.Dst.Port(), uint8(tr.packet.Proto))
		switch {
		case t != nil && rx.cnat < 2:
			if !tr.translate(t) {
				return
			}
			tr.sourceOfPath()
			to = v.Backend.Addr()
			e = in.lookup(in.table0(to), to)
		case e.vip.exclusive:
			v.Route = e.prefix
			tr.end(Dropped, "%s belongs to cnat, which has nothing for the port", to)
			return
		}
	}
	if tr.forward(e, 0) {
		tr.sourceNAT(rx)
	}
}

// table0 is the table that cnat and this trace work in.
func (in *instance) table0(a netip.Addr) *table { return (*in.fib.tables(a.Is6()))[0] }

// translate takes the packet to a backend of t.
func (tr *tracer) translate(t *translation) bool {
	p := t.choose(tr.flow())
	if p == nil {
		tr.end(Dropped, "translation %s has no active path", t.key())
		return false
	}
	tr.path, tr.vip = p, t.owner
	tr.noReturn = t.flags&uint8(types.FlagNoReturnSession) != 0
	v := &tr.verdict
	port := p.dst.port
	if port == 0 {
		port = tr.packet.Dst.Port()
	}
	v.Outcome = Translated
	v.Backend = netip.AddrPortFrom(p.dst.addr, port)
	if p.flags&pathNoNAT == 0 {
		v.Dst = v.Backend
	}
	return true
}

// sourceOfPath applies the source endpoint of a path, which only translations
// behind the FIB do (C3).
func (tr *tracer) sourceOfPath() {
	if src := tr.path.src; !src.addr.IsUnspecified() {
		port := src.port
		if port == 0 {
			port = tr.packet.Src.Port()
		}
		tr.verdict.Src, tr.verdict.SNAT = netip.AddrPortFrom(src.addr, port), true
	}
}

// forward follows a FIB entry. It returns true if the packet leaves by an
// interface.
func (tr *tracer) forward(e fibEntry, depth int) bool {
	v := &tr.verdict
	v.Route = e.prefix
	if len(e.paths) == 0 || depth > 8 {
		tr.end(Dropped, "no route")
		return false
	}
	p := e.paths[0]
	if n := uint64(len(e.paths)); n > 1 {
		p = e.paths[flowHash(tr.flow(), 0)%n]
	}
	switch p.Type {
	case fib_types.FIB_API_PATH_TYPE_DROP:
		tr.end(Dropped, "route %s drops", e.prefix)
		return false
	case fib_types.FIB_API_PATH_TYPE_ICMP_UNREACH, fib_types.FIB_API_PATH_TYPE_ICMP_PROHIBIT:
		tr.end(Unreachable, "route %s", e.prefix)
		return false
	case fib_types.FIB_API_PATH_TYPE_LOCAL:
		v.Local = true
		return false
	}
	if p.SwIfIndex == invalidIndex {
		hop := nextHop(p, p.Proto == fib_types.FIB_API_PATH_NH_PROTO_IP6)
		if hop.IsUnspecified() {
			tr.end(Dropped, "route %s leads nowhere", e.prefix)
			return false
		}
		return tr.forward(tr.in.lookup(tr.in.table0(hop), hop), depth+1)
	}
	out := tr.in.iface(p.SwIfIndex)
	if out == nil || out.Down {
		tr.end(Dropped, "interface %d is down", p.SwIfIndex)
		return false
	}
	v.Interface = p.SwIfIndex
	return true
}

// sourceNAT is the output feature: what the policy says, if the packet came and
// leaves by interfaces with the feature.
func (tr *tracer) sourceNAT(rx *iface) {
	v := &tr.verdict
	tx := tr.in.iface(v.Interface)
	v6 := v.Dst.Addr().Is6()
	policy := tr.in.snat.get(v6, 0)
	tr.leftByFeature = rx.cnat == 1 && tx.cnat > 0
	if rx.cnat != 1 || tx.cnat == 0 || policy == nil || !policy.wants(rx.index, tx.index, v.Src.Addr(), v.Dst.Addr()) {
		return
	}
	ep := policy.ip4
	if v6 {
		ep = policy.ip6
	}
	if !ep.addr.IsValid() || ep.addr.IsUnspecified() {
		tr.end(Dropped, "source NAT is due, but there is no address for it")
		return
	}
	v.Src, v.SNAT = netip.AddrPortFrom(ep.addr, 1024+uint16(flowHash(tr.flow(), 0)%64000)), true
}

// wants tells whether a new flow gets a new source address.
func (e *snatEntry) wants(rx, tx uint32, src, dst netip.Addr) bool {
	include, own := tableIncludeV4, e.ip4.addr
	if dst.Is6() {
		include, own = tableIncludeV6, e.ip6.addr
	}
	outgoing := e.interfaces[include][rx] && !e.excluded(dst)
	switch e.policy {
	case binapi2606.CnatPolicyIfPfx:
		return outgoing
	case binapi2606.CnatPolicyK8s:
		pod := e.interfaces[tablePod]
		switch {
		case e.interfaces[tableHost][tx]:
			return false
		case outgoing:
			return true
		case !pod[rx] && !pod[tx]:
			return src != own
		}
		return src == dst // a pod that reaches itself through a VIP (C4)
	}
	// "None" is the policy of a new entry and means that nothing is spared.
	return e.policy == binapi2606.CnatPolicyNone || e.policy == binapi2606.CnatPolicyDNAT
}

func (e *snatEntry) excluded(dst netip.Addr) bool {
	for p := range e.prefixes {
		if p.Contains(dst) {
			return true
		}
	}
	return false
}
