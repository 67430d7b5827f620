// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/ip_types"

	"calico-vpp-services/vpplink/binapi2606"
	"calico-vpp-services/vpplink/types"
)

// pathActive is the flag that VPP's tracker adds to a path it can forward on
// and mixes into the flags that a dump reports (F5).
const pathActive uint8 = 4

// pathNoNAT is NO_NAT as 26.06 has it; 25.10's 1 is a flag without meaning (M2).
const pathNoNAT uint8 = 2

// cnatState is the state of cnat's translations, clients and sessions.
type cnatState struct {
	pool     []*translation // by id; nil is free
	free     []uint32       // ids to be given out again, the last one first (F2)
	byKey    map[slot]uint32
	vips     map[netip.Addr]*vip
	byIndex  []*vip             // VPP's pool of clients
	freeVIPs []uint32           // of byIndex, the last one first
	tracked  map[netip.Addr]int // active paths by address of the backend
	sessions map[flow]*session
	nextTS   uint32
}

func newCnatState() cnatState {
	return cnatState{
		byKey:    map[slot]uint32{},
		vips:     map[netip.Addr]*vip{},
		tracked:  map[netip.Addr]int{},
		sessions: map[flow]*session{},
	}
}

// slot is what a translation is found by: one per address, port and protocol,
// whoever asks (F1).
type slot struct {
	vip   *vip
	port  uint16
	proto uint8
}

// vip is VPP's "client": the address of one or more translations.
//
// C2: the translation that comes first decides the flags, and they stay until
// the last translation and the last session of the address are gone.
type vip struct {
	index        uint32
	addr         netip.Addr
	exclusive    bool // not real: in front of everything else the FIB has for the address
	noClient     bool // not in the FIB
	returnOnly   bool // made for a SNAT address: the FIB entry takes replies only
	translations int
	sessions     int
}

// path is VPP's "endpoint tracker".
type path struct {
	dst, src endpoint
	flags    uint8 // as given, and pathActive
	removed  bool  // no longer part of a translation; sessions may still be pinned to it
}

type translation struct {
	id    uint32
	vip   endpoint
	owner *vip // nil while the VIP's interface has no address
	proto uint8
	real  bool   // as the last update said; what counts is owner's
	flags uint8  // of the last update
	lb    uint8  // of the creation (F3)
	hash  uint32 // of the creation (F3)
	paths []*path
	// writer is the index of the client that wrote last; 0 for Load.
	writer uint32
}

func (t *translation) key() types.Key {
	return types.Key{Proto: types.Protocol(t.proto), IP: t.vip.addr, Port: t.vip.port}
}

func (in *instance) translation(id uint32) *translation {
	if id >= uint32(len(in.cnat.pool)) {
		return nil
	}
	return in.cnat.pool[id]
}

func cnatMethods() []*method {
	update := read[cnat.CnatTranslationUpdate, cnat.CnatTranslationUpdateReply](cnatTranslationUpdate)
	update.write = true
	update.check = checkUpdate
	update.onFail = func(m wireMessage) { m.(*cnat.CnatTranslationUpdateReply).ID = invalidIndex } //nolint:errcheck // its own reply
	return []*method{
		update,
		write[cnat.CnatTranslationDel, cnat.CnatTranslationDelReply](func(c *call, m *cnat.CnatTranslationDel) int32 {
			rv := c.inst.deleteTranslation(m.ID)
			if rv == errNoSuchEntry {
				c.sim.stats.NoSuchTranslation++
			}
			return rv
		}),
		read[cnat.CnatTranslationDump, cnat.CnatTranslationDetails](cnatTranslationDump),
		write[cnat.CnatSessionPurge, cnat.CnatSessionPurgeReply](cnatSessionPurge),
		read[binapi2606.CnatSessionDump, binapi2606.CnatSessionDetails](cnatSessionDump),
	}
}

// Sizes on the wire.
const (
	endpointLen       = 1 + 16 + 4 + 1 + 2
	updatePathsOffset = endpointLen + 4 + 1 + 1 + 1 + 1 + 4 + 4
	updateCountOffset = endpointLen + 4 + 1 + 1 + 1 + 1
	tupleLen          = 2*endpointLen + 1
)

// checkUpdate compares the number of paths with the size of the message before
// anything is allocated for them. VPP drops a message that claims more than it has.
func checkUpdate(body []byte) error {
	if len(body) < updatePathsOffset {
		return fmt.Errorf("%d bytes", len(body))
	}
	n := uint64(binary.BigEndian.Uint32(body[updateCountOffset:]))
	if have := uint64(len(body)-updatePathsOffset) / tupleLen; n > have {
		return fmt.Errorf("%d paths said, %d sent", n, have)
	}
	return nil
}

func cnatTranslationUpdate(c *call, m *cnat.CnatTranslationUpdate) {
	before := c.inst.lookAt(&m.Translation)
	id, rv, abort := c.inst.update(&m.Translation)
	if abort != "" {
		c.sim.crash(abort)
		return
	}
	c.retval = rv
	if t := c.inst.translation(id); rv == 0 && t != nil {
		if t.writer == c.client.index && t.writer != 0 && before.same(t) {
			c.sim.stats.Needless++
		}
		t.writer = c.client.index
	}
	c.reply(&cnat.CnatTranslationUpdateReply{Retval: rv, ID: id})
}

// look is what an update can change of a translation, and what it asked for
// beyond that.
type look struct {
	there bool
	real  bool
	flags uint8
	lb    uint8
	hash  uint32
	paths []*path
}

// lookAt returns how the translation that m is about looks before m.
func (in *instance) lookAt(m *cnat.CnatTranslation) look {
	where, rv := in.decodeEndpoint(m.Vip)
	v := in.cnat.vips[where.addr]
	if rv != 0 || v == nil {
		return look{}
	}
	t := in.cnat.find(v, where.port, uint8(m.IPProto))
	if t == nil {
		return look{}
	}
	return look{true, t.real, t.flags, uint8(m.LbType), uint32(m.FlowHashConfig), slices.Clone(t.paths)}
}

// same tells whether t looks as before and has all that was asked for.
func (l *look) same(t *translation) bool {
	return l.there && l.real == t.real && l.flags == t.flags && l.lb == t.lb && l.hash == t.hash && slices.Equal(l.paths, t.paths)
}

// update creates a translation or replaces the paths of the one that has the
// key. F7: neither LB type nor the families nor duplicate paths are checked.
func (in *instance) update(m *cnat.CnatTranslation) (id uint32, rv int32, abort string) {
	if !knownProto(uint8(m.IPProto)) {
		return invalidIndex, errInvalidProtocol, ""
	}
	if len(m.Paths) == 0 {
		// F6: VPP takes the vector of no paths for one of 2^32-1 and dies of it.
		return 0, 0, "cnat_translation_update without paths (F6)"
	}
	paths := make([]path, len(m.Paths))
	for i, p := range m.Paths {
		if paths[i].src, rv = in.decodeEndpoint(p.SrcEp); rv != 0 {
			return invalidIndex, rv, ""
		}
		if paths[i].dst, rv = in.decodeEndpoint(p.DstEp); rv != 0 {
			return invalidIndex, rv, ""
		}
		paths[i].flags = p.Flags
	}
	where, rv := in.decodeEndpoint(m.Vip)
	if rv != 0 {
		return invalidIndex, rv, ""
	}
	in.resolve(&where)

	cs := &in.cnat
	var t *translation
	var owner *vip
	if where.resolved {
		owner = cs.claim(vip{addr: where.addr, exclusive: m.IsRealIP == 0, noClient: m.Flags&uint8(types.FlagNoClient) != 0})
		t = cs.find(owner, where.port, uint8(m.IPProto))
	} else if where.swIf < uint32(len(cs.byIndex)) {
		// VPP looks a VIP that is an interface without address up by interface
		// index where it keeps client indexes, and so finds somebody else's
		// translation.
		t = cs.find(cs.byIndex[where.swIf], where.port, uint8(m.IPProto))
	}
	if t == nil {
		t = &translation{
			id:    cs.allocate(),
			vip:   where,
			owner: owner,
			proto: uint8(m.IPProto),
			lb:    uint8(m.LbType),
			hash:  uint32(m.FlowHashConfig),
		}
		cs.pool[t.id] = t
		if owner != nil {
			owner.translations++
			cs.byKey[slot{owner, where.port, t.proto}] = t.id
		}
	}
	t.flags, t.real = m.Flags, m.IsRealIP != 0
	in.replacePaths(t, paths)
	return t.id, 0, ""
}

func (cs *cnatState) find(owner *vip, port uint16, proto uint8) *translation {
	if id, ok := cs.byKey[slot{owner, port, proto}]; ok {
		return cs.pool[id]
	}
	return nil
}

// claim returns the VIP object of an address, which keeps the flags of whoever
// came first (C2).
func (cs *cnatState) claim(as vip) *vip {
	if v := cs.vips[as.addr]; v != nil {
		return v
	}
	if n := len(cs.freeVIPs); n > 0 {
		as.index = cs.freeVIPs[n-1]
		cs.freeVIPs = cs.freeVIPs[:n-1]
	} else {
		as.index = uint32(len(cs.byIndex))
		cs.byIndex = append(cs.byIndex, nil)
	}
	cs.byIndex[as.index] = &as
	cs.vips[as.addr] = &as
	return &as
}

// release forgets an address that nothing refers to.
func (cs *cnatState) release(v *vip) {
	if v == nil || v.translations > 0 || v.sessions > 0 || cs.vips[v.addr] != v {
		return
	}
	delete(cs.vips, v.addr)
	cs.byIndex[v.index] = nil
	cs.freeVIPs = append(cs.freeVIPs, v.index)
}

// allocate returns a pool index: the one freed last, if there is one (F2).
func (cs *cnatState) allocate() uint32 {
	if n := len(cs.free); n > 0 {
		id := cs.free[n-1]
		cs.free = cs.free[:n-1]
		return id
	}
	cs.pool = append(cs.pool, nil)
	return uint32(len(cs.pool) - 1)
}

// replacePaths gives t the paths wanted, in their order. A path that stays is
// kept as it is: F3, its flags are not refreshed.
func (in *instance) replacePaths(t *translation, wanted []path) {
	type pair struct{ dst, src endpoint }
	first := make(map[pair]int, len(wanted))
	for i, w := range wanted {
		if _, ok := first[pair{w.dst, w.src}]; !ok {
			first[pair{w.dst, w.src}] = i
		}
	}
	kept := make([]*path, len(wanted))
	for _, have := range t.paths {
		if i, ok := first[pair{have.dst.asAsked(), have.src.asAsked()}]; ok {
			kept[i] = have
		} else {
			in.cnat.untrack(have)
		}
	}
	t.paths = kept
	for i, w := range wanted {
		if kept[i] != nil {
			continue
		}
		p := &path{dst: w.dst, src: w.src, flags: w.flags &^ pathActive}
		in.resolve(&p.dst)
		in.resolve(&p.src)
		if p.dst.resolved && p.src.resolved {
			p.flags |= pathActive
			in.cnat.tracked[p.dst.addr]++
		}
		kept[i] = p
	}
}

// untrack takes a path out of use. Sessions may still be pinned to it (S1).
func (cs *cnatState) untrack(p *path) {
	p.removed = true
	if p.flags&pathActive == 0 {
		return
	}
	if cs.tracked[p.dst.addr]--; cs.tracked[p.dst.addr] == 0 {
		delete(cs.tracked, p.dst.addr)
	}
}

func (in *instance) deleteTranslation(id uint32) int32 {
	t := in.translation(id)
	if t == nil {
		return errNoSuchEntry // F2
	}
	for _, p := range t.paths {
		in.cnat.untrack(p)
	}
	cs := &in.cnat
	cs.pool[id] = nil
	cs.free = append(cs.free, id)
	if t.owner != nil {
		delete(cs.byKey, slot{t.owner, t.vip.port, t.proto})
		t.owner.translations--
		cs.release(t.owner)
	}
	return 0
}

// cnatSessionPurge does more than its name says: F4, it removes all
// translations as well.
func cnatSessionPurge(c *call, _ *cnat.CnatSessionPurge) int32 {
	cs := &c.inst.cnat
	cs.endAll()
	for id := range cs.pool {
		c.inst.deleteTranslation(uint32(id))
	}
	return 0
}

// cnatTranslationDump reports less than there is: F5, flags, is_real_ip and
// flow hash are zero, and the flags of a path are the tracker's.
func cnatTranslationDump(c *call, _ *cnat.CnatTranslationDump) {
	for _, t := range c.inst.cnat.pool {
		if t == nil {
			continue
		}
		d := &cnat.CnatTranslationDetails{Translation: cnat.CnatTranslation{
			Vip:     encodeEndpoint(t.vip),
			ID:      t.id,
			IPProto: ip_types.IPProto(t.proto),
			LbType:  cnat.CnatLbType(t.lb),
			Paths:   make([]cnat.CnatEndpointTuple, len(t.paths)),
		}}
		for i, p := range t.paths {
			d.Translation.Paths[i] = cnat.CnatEndpointTuple{
				DstEp: encodeEndpoint(p.dst), SrcEp: encodeEndpoint(p.src), Flags: p.flags,
			}
		}
		c.reply(d)
	}
}

// knownProto tells whether VPP has a name for an IP protocol.
func knownProto(p uint8) bool {
	return p <= 143 && !slices.Contains([]uint8{61, 63, 68, 99, 114}, p) || p >= 253
}
