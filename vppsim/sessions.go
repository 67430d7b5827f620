// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"cmp"
	"math/bits"
	"net/netip"
	"slices"

	"go.fd.io/govpp/binapi/ip_types"

	"calico-vpp-services/vpplink/binapi2606"
)

// flow is the identity of a flow in one direction.
type flow struct {
	proto    uint8
	src, dst netip.AddrPort
}

// session remembers what was decided for the first packet of a flow. There is
// one per direction.
type session struct {
	ts      uint32
	isReply bool
	path    *path // nil if the flow was source NATed only
	vip     *vip  // counts the session of the forward direction, or nil
	verdict Verdict
	reverse flow
}

// Send takes a packet through VPP as Trace does, but with memory: a flow keeps
// the backend that its first packet got, although the translation may be gone
// (S1), and its replies find their way back. What was remembered is what
// cnat_session_dump reports; it ends with Sweep or cnat_session_purge.
func (s *Sim) Send(p Packet) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.inst
	f := flow{proto: uint8(p.Proto), src: p.Src, dst: p.Dst}
	if known := in.cnat.sessions[f]; known != nil && in.seesSession(p, known) {
		v := known.verdict
		v.Pinned = true
		if known.isReply {
			v.Interface, v.Route, v.Local, v.Reason = invalidIndex, netip.Prefix{}, false, ""
			tr := tracer{in: in, packet: p, verdict: v}
			tr.forward(in.lookup(in.table0(v.Dst.Addr()), v.Dst.Addr()), 0)
			return tr.verdict
		}
		return v
	}
	tr := tracer{in: in, packet: p, verdict: newVerdict(p)}
	tr.run()
	if tr.path != nil || tr.verdict.SNAT {
		in.cnat.remember(f, &tr)
	}
	return tr.verdict
}

// seesSession tells whether a packet meets the node that looks sessions up: by
// the feature of its interface, or by a VIP in the FIB.
func (in *instance) seesSession(p Packet, s *session) bool {
	rx := in.iface(p.InterfaceIndex)
	if rx == nil {
		return false
	}
	return rx.cnat > 0 || s.vip != nil && !s.vip.noClient
}

func (cs *cnatState) remember(f flow, tr *tracer) {
	cs.nextTS++
	v := tr.verdict
	back := flow{proto: f.proto, src: v.Dst, dst: v.Src}
	reply := Verdict{Outcome: Translated, Src: f.dst, Dst: f.src, Interface: invalidIndex}
	cs.endSession(f)
	cs.endSession(back)
	cs.sessions[f] = &session{ts: cs.nextTS, path: tr.path, vip: tr.vip, verdict: v, reverse: back}
	if back != f {
		cs.sessions[back] = &session{ts: cs.nextTS, path: tr.path, isReply: true, verdict: reply, reverse: f}
	}
	if tr.vip != nil {
		tr.vip.sessions++ // C2: keeps the flags of the address
	}
}

// endSession removes a session and the one of the other direction.
func (cs *cnatState) endSession(f flow) {
	s := cs.sessions[f]
	if s == nil {
		return
	}
	delete(cs.sessions, f)
	if s.vip != nil {
		s.vip.sessions--
		cs.release(s.vip)
	}
	if r := cs.sessions[s.reverse]; r != nil && r.ts == s.ts {
		cs.endSession(s.reverse)
	}
}

// Sweep is one complete round of VPP's session scanner: it ends the sessions
// of backends that are no longer part of a translation (S1) and returns how
// many flows that were. How long VPP takes until then is a matter of its
// configuration (S2).
func (s *Sim) Sweep() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	cs := &s.inst.cnat
	n := 0
	for f, session := range cs.sessions {
		if session.path != nil && session.path.removed && !session.isReply {
			cs.endSession(f)
			n++
		}
	}
	return n
}

func cnatSessionDump(c *call, _ *binapi2606.CnatSessionDump) {
	cs := &c.inst.cnat
	flows := make([]flow, 0, len(cs.sessions))
	for f := range cs.sessions {
		flows = append(flows, f)
	}
	slices.SortFunc(flows, func(a, b flow) int {
		return cmp.Or(cmp.Compare(cs.sessions[a].ts, cs.sessions[b].ts), a.src.Compare(b.src), a.dst.Compare(b.dst))
	})
	for _, f := range flows {
		s := cs.sessions[f]
		d := &binapi2606.CnatSessionDetails{
			Tuple: binapi2606.Cnat5tuple{
				Addr: [2]ip_types.Address{apiAddress(f.src.Addr()), apiAddress(f.dst.Addr())},
				// VPP has the ports in network order and "converts" them, so they
				// arrive with their bytes swapped (measured).
				Port:    [2]uint16{bits.ReverseBytes16(f.src.Port()), bits.ReverseBytes16(f.dst.Port())},
				IPProto: ip_types.IPProto(f.proto),
			},
			TsIndex: s.ts,
		}
		if s.isReply {
			d.Flags = binapi2606.CnatSessionIsReturn
		}
		c.reply(d)
	}
}
