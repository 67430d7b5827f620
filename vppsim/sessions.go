// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"net/netip"

	"calico-vpp-services/vpplink/binapi2606"
)

// flow is the identity of a flow in one direction.
type flow struct {
	proto    uint8
	src, dst netip.AddrPort
}

// session pins a flow to a backend.
type session struct {
	ts   uint32
	path *path
	vip  *vip
	to   netip.AddrPort
}

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
}

func cnatSessionDump(c *call, _ *binapi2606.CnatSessionDump) {}
