// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"net/netip"
	"slices"

	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/interface_types"
	"go.fd.io/govpp/binapi/ip_types"

	"calico-vpp-services/vpplink/binapi2606"
)

// The interface tables of a SNAT policy.
const (
	tableIncludeV4 = iota
	tableIncludeV6
	tablePod
	tableHost
	numTables
)

// snatEntry is one SNAT policy: the addresses for the flows of a FIB.
type snatEntry struct {
	ip4, ip6   endpoint
	fwd4, fwd6 uint32 // FIB indexes
	ret4, ret6 uint32
	flags      binapi2606.CnatSnatPolicyFlags // of the creation
	policy     binapi2606.CnatSnatPolicy
	prefixes   map[netip.Prefix]bool // not to be source NATed
	interfaces [numTables]map[uint32]bool
}

type snatState struct {
	pool     []*snatEntry
	free     []*snatEntry          // removed, to be used again, the last one first
	by4, by6 map[uint32]*snatEntry // by forward FIB index
	// standard is for FIBs without an entry. VPP does not reset it when the
	// entry is removed, so what it points to may be a removed entry.
	standard *snatEntry
}

// get returns the entry for a FIB, or the default one, or nil.
func (ss *snatState) get(v6 bool, fib uint32) *snatEntry {
	by := ss.by4
	if v6 {
		by = ss.by6
	}
	if e := by[fib]; e != nil {
		return e
	}
	return ss.standard
}

// first is the entry that all calls without a FIB index work on.
func (ss *snatState) first() *snatEntry {
	if e := ss.get(false, 0); e != nil {
		return e
	}
	return ss.get(true, 0)
}

func snatMethods() []*method {
	return []*method{
		write[cnat.CnatSetSnatAddresses, cnat.CnatSetSnatAddressesReply](func(c *call, m *cnat.CnatSetSnatAddresses) int32 {
			return c.inst.setSNAT(&binapi2606.CnatSetSnatAddressesV2{
				SnatIP4: m.SnatIP4, SnatIP6: m.SnatIP6, SwIfIndex: m.SwIfIndex,
			})
		}),
		write[binapi2606.CnatSetSnatAddressesV2, binapi2606.CnatSetSnatAddressesV2Reply](
			func(c *call, m *binapi2606.CnatSetSnatAddressesV2) int32 { return c.inst.setSNAT(m) }),
		read[cnat.CnatGetSnatAddresses, cnat.CnatGetSnatAddressesReply](cnatGetSnatAddresses),
		read[binapi2606.CnatSnatAddressesDump, binapi2606.CnatSnatAddressesDetails](cnatSnatAddressesDump),
		write[binapi2606.CnatSetSnatPolicy, binapi2606.CnatSetSnatPolicyReply](cnatSetSnatPolicy),
		write[cnat.CnatSnatPolicyAddDelExcludePfx, cnat.CnatSnatPolicyAddDelExcludePfxReply](cnatSnatPolicyAddDelExcludePfx),
		write[cnat.CnatSnatPolicyAddDelIf, cnat.CnatSnatPolicyAddDelIfReply](cnatSnatPolicyAddDelIf),
		write[binapi2606.FeatureCnatEnableDisable, binapi2606.FeatureCnatEnableDisableReply](featureCnatEnableDisable),
	}
}

// setSNAT makes, changes or removes the entry of a FIB. Flags and default are
// taken when it is made.
func (in *instance) setSNAT(m *binapi2606.CnatSetSnatAddressesV2) int32 {
	ss := &in.snat
	byIf := uint32(m.SwIfIndex) != invalidIndex
	set4 := m.SnatIP4 != ip_types.IP4Address{}
	set6 := m.SnatIP6 != ip_types.IP6Address{}
	e := ss.get(false, m.FwdFibIndex)
	if e == nil {
		e = ss.get(true, m.FwdFibIndex)
	}
	if !byIf && !set4 && !set6 {
		if e == nil {
			return errFeatureDisabled
		}
		in.removeSNAT(e, m.FwdFibIndex)
		return 0
	}
	if e == nil {
		e = ss.add(m.Flags)
		if m.Flags&binapi2606.CnatSnatPolicyUseAsDefault != 0 {
			ss.standard = e
		}
	}
	if ss.by4 == nil {
		ss.by4, ss.by6 = map[uint32]*snatEntry{}, map[uint32]*snatEntry{}
	}
	if byIf || set4 {
		e.fwd4, e.ret4 = m.FwdFibIndex, m.RetFibIndex
		e.ip4 = endpoint{addr: netip.AddrFrom4(m.SnatIP4), swIf: uint32(m.SwIfIndex)}
		ss.by4[m.FwdFibIndex] = e
		in.announceSNAT(e, &e.ip4)
	}
	if byIf || set6 {
		e.fwd6, e.ret6 = m.FwdFibIndex, m.RetFibIndex
		e.ip6 = endpoint{addr: netip.AddrFrom16(m.SnatIP6), swIf: uint32(m.SwIfIndex), v6: true}
		ss.by6[m.FwdFibIndex] = e
		in.announceSNAT(e, &e.ip6)
	}
	return 0
}

// announceSNAT resolves a source address and, unless the entry is without
// client, puts it into the FIB as one that takes return traffic only: new flows
// to it are dropped, the node's own address included.
func (in *instance) announceSNAT(e *snatEntry, ep *endpoint) {
	in.resolve(ep)
	if !ep.resolved || e.flags&binapi2606.CnatSnatPolicyNoClient != 0 {
		return
	}
	in.cnat.claim(vip{addr: ep.addr, exclusive: true, returnOnly: true})
}

func (in *instance) removeSNAT(e *snatEntry, fib uint32) {
	ss := &in.snat
	if e.flags&binapi2606.CnatSnatPolicyNoClient == 0 {
		for _, ep := range []endpoint{e.ip4, e.ip6} {
			if ep.resolved {
				in.cnat.release(in.cnat.vips[ep.addr])
			}
		}
	}
	delete(ss.by4, fib)
	delete(ss.by6, fib)
	if i := slices.Index(ss.pool, e); i >= 0 {
		ss.pool = slices.Delete(ss.pool, i, i+1)
		ss.free = append(ss.free, e)
	}
}

// add makes a new entry, in the place of the one removed last if there is one.
func (ss *snatState) add(flags binapi2606.CnatSnatPolicyFlags) *snatEntry {
	e := &snatEntry{}
	if n := len(ss.free); n > 0 {
		e = ss.free[n-1]
		ss.free = ss.free[:n-1]
	}
	*e = snatEntry{flags: flags}
	ss.pool = append(ss.pool, e)
	return e
}

func cnatGetSnatAddresses(c *call, _ *cnat.CnatGetSnatAddresses) {
	r := &cnat.CnatGetSnatAddressesReply{}
	if e := c.inst.snat.first(); e == nil {
		r.Retval = errFeatureDisabled
	} else {
		r.SnatIP4, r.SnatIP6 = e.addresses()
		r.SwIfIndex = interface_types.InterfaceIndex(e.ip6.swIf)
	}
	c.reply(r)
}

func (e *snatEntry) addresses() (ip_types.IP4Address, ip_types.IP6Address) {
	var v4 ip_types.IP4Address
	var v6 ip_types.IP6Address
	if e.ip4.addr.Is4() {
		v4 = e.ip4.addr.As4()
	}
	if e.ip6.addr.Is6() {
		v6 = e.ip6.addr.As16()
	}
	return v4, v6
}

func cnatSnatAddressesDump(c *call, _ *binapi2606.CnatSnatAddressesDump) {
	for _, e := range c.inst.snat.pool {
		d := &binapi2606.CnatSnatAddressesDetails{
			// VPP sends what happens to be in the buffer here.
			Retval:      -559038737,
			FwdTableID4: c.inst.fib.tableID(false, e.fwd4),
			FwdTableID6: c.inst.fib.tableID(true, e.fwd6),
			RetTableID4: c.inst.fib.tableID(false, e.ret4),
			RetTableID6: c.inst.fib.tableID(true, e.ret6),
			SwIfIndex:   interface_types.InterfaceIndex(e.ip6.swIf),
		}
		d.SnatIP4, d.SnatIP6 = e.addresses()
		c.reply(d)
	}
}

func cnatSetSnatPolicy(c *call, m *binapi2606.CnatSetSnatPolicy) int32 {
	e := c.inst.snat.first()
	if m.Policy > binapi2606.CnatPolicyDNAT+1 {
		return errInvalidValue
	}
	if e == nil {
		c.sim.crash("cnat_set_snat_policy before any SNAT address")
		return 0
	}
	e.policy = m.Policy
	return 0
}

func cnatSnatPolicyAddDelExcludePfx(c *call, m *cnat.CnatSnatPolicyAddDelExcludePfx) int32 {
	e := c.inst.snat.first()
	if e == nil {
		c.sim.crash("cnat_snat_policy_add_del_exclude_pfx before any SNAT address")
		return 0
	}
	p, err := goAddress(m.Prefix.Address).Prefix(int(m.Prefix.Len))
	if err != nil {
		return 0 // VPP takes a length that cannot be, to no effect
	}
	if e.prefixes == nil {
		e.prefixes = map[netip.Prefix]bool{}
	}
	if m.IsAdd != 0 {
		e.prefixes[p] = true
	} else {
		delete(e.prefixes, p) // absent: no error
	}
	return 0
}

func cnatSnatPolicyAddDelIf(c *call, m *cnat.CnatSnatPolicyAddDelIf) int32 {
	if c.inst.iface(uint32(m.SwIfIndex)) == nil {
		return errInvalidSwIfIndex
	}
	if m.Table >= numTables {
		return errInvalidValue
	}
	e := c.inst.snat.first()
	if e == nil {
		return errFeatureDisabled
	}
	set := &e.interfaces[m.Table]
	if *set == nil {
		*set = map[uint32]bool{}
	}
	if m.IsAdd != 0 {
		(*set)[uint32(m.SwIfIndex)] = true
	} else {
		delete(*set, uint32(m.SwIfIndex))
	}
	return 0
}

// featureCnatEnableDisable counts, as VPP does: what was enabled twice needs two
// disables, and does not work in between (see tracer.run).
func featureCnatEnableDisable(c *call, m *binapi2606.FeatureCnatEnableDisable) int32 {
	i := c.inst.iface(uint32(m.SwIfIndex))
	if i == nil {
		return errInvalidSwIfIndex
	}
	switch {
	case m.EnableDisable:
		i.cnat++
	case i.cnat > 0:
		i.cnat--
	}
	return 0
}
