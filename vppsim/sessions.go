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

// session remembers what was decided for the first packet of a flow.
type session struct {
	ts      uint32
	isReply bool
	inFIB   bool  // made behind a VIP in the FIB, not by the feature
	path    *path // nil if the flow was not translated
	vip     *vip  // counts the session of the forward direction, or nil
	reverse flow

	// What a packet is made into.
	outcome           Outcome
	src, dst, backend netip.AddrPort
	snat              bool
}

// Send takes a packet through VPP as Trace does, but with memory: a flow keeps
// the backend that its first packet got, although the translation may be gone
// (S1), and its replies find their way back. A flow that was not translated is
// remembered as well, and stays so for as long as it goes on, although there
// may be a translation by then (measured). What was remembered is what
// cnat_session_dump reports; it ends with Sweep, Expire or cnat_session_purge.
func (s *Sim) Send(p Packet) Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.inst
	tr := tracer{in: in, packet: p, verdict: newVerdict(p)}
	known := in.cnat.sessions[tr.flow()]
	if known != nil && in.seesSession(p, known) {
		tr.resume(known)
		return tr.verdict
	}
	tr.run()
	if tr.met {
		in.cnat.remember(&tr)
	}
	return tr.verdict
}

// seesSession tells whether a packet meets a node that looks sessions up: by
// the feature of its interface, or behind a VIP in the FIB.
func (in *instance) seesSession(p Packet, s *session) bool {
	rx := in.iface(p.InterfaceIndex)
	if rx == nil {
		return false
	}
	return rx.cnat > 0 || s.inFIB && s.isReply || in.lookup(in.table0(p.Dst.Addr()), p.Dst.Addr()).vip != nil
}

// resume takes a packet of a known flow through VPP.
func (tr *tracer) resume(s *session) {
	v := &tr.verdict
	v.Outcome, v.Src, v.Dst, v.Backend, v.SNAT, v.Pinned = s.outcome, s.src, s.dst, s.backend, s.snat, true
	to := s.dst.Addr()
	if s.backend.IsValid() {
		to = s.backend.Addr()
	}
	e := tr.in.lookup(tr.in.table0(to), to)
	if e.vip != nil && e.vip.exclusive && s.path == nil {
		v.Route = e.prefix
		tr.end(Dropped, "%s belongs to cnat, which remembers nothing to do", to)
		return
	}
	tr.forward(e, 0)
}

func (cs *cnatState) remember(tr *tracer) {
	cs.nextTS++
	v, f := tr.verdict, tr.flow()
	back := flow{proto: f.proto, src: v.Dst, dst: v.Src}
	cs.endSession(f)
	s := &session{
		ts: cs.nextTS, inFIB: tr.inFIB, path: tr.path, vip: tr.vip, reverse: back,
		outcome: Forwarded, src: v.Src, dst: v.Dst, backend: v.Backend, snat: v.SNAT,
	}
	if tr.path != nil {
		s.outcome = Translated
	}
	cs.sessions[f] = s
	if tr.vip != nil {
		tr.vip.sessions++ // C2: keeps the flags of the address
	}
	// Behind the FIB the session of the replies is made at once, otherwise by
	// the output feature.
	if tr.noReturn || !tr.inFIB && !tr.leftByFeature || tr.inFIB && tr.path == nil {
		return
	}
	// Another flow's session for the same replies is lost, not the other flow.
	cs.forget(back)
	cs.sessions[back] = &session{
		ts: cs.nextTS, isReply: true, inFIB: tr.inFIB, path: tr.path, reverse: f,
		outcome: s.outcome, src: f.dst, dst: f.src, snat: f.dst != back.src,
	}
}

// endSession removes a session and the one of the other direction.
func (cs *cnatState) endSession(f flow) {
	if s := cs.forget(f); s != nil {
		if r := cs.sessions[s.reverse]; r != nil && r.ts == s.ts {
			cs.forget(s.reverse)
		}
	}
}

// forget removes one session.
func (cs *cnatState) forget(f flow) *session {
	s := cs.sessions[f]
	delete(cs.sessions, f)
	if s != nil && s.vip != nil {
		s.vip.sessions--
		cs.release(s.vip)
	}
	return s
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

// Expire ends all sessions, as time does when no packets come (S4).
func (s *Sim) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inst.cnat.endAll()
}

func (cs *cnatState) endAll() {
	for f := range cs.sessions {
		cs.forget(f)
	}
}

func cnatSessionDump(c *call, _ *binapi2606.CnatSessionDump) {
	cs := &c.inst.cnat
	flows := make([]flow, 0, len(cs.sessions))
	for f := range cs.sessions {
		flows = append(flows, f)
	}
	slices.SortFunc(flows, func(a, b flow) int {
		sa, sb := cs.sessions[a], cs.sessions[b]
		if sa.ts == sb.ts && sb.isReply {
			return -1
		}
		return cmp.Or(cmp.Compare(sa.ts, sb.ts), 1)
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
			if s.inFIB {
				d.Flags |= binapi2606.CnatSessionHasClient
			}
		}
		c.reply(d)
	}
}
