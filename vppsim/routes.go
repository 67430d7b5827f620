// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_types"
)

func routeMethods() []*method {
	add := read[ip.IPRouteAddDel, ip.IPRouteAddDelReply](ipRouteAddDel)
	add.write = true
	add.onFail = func(m wireMessage) { m.(*ip.IPRouteAddDelReply).StatsIndex = invalidIndex } //nolint:errcheck // its own reply
	return []*method{
		add,
		read[ip.IPRouteDump, ip.IPRouteDetails](ipRouteDump),
		read[ip.IPRouteV2Dump, ip.IPRouteV2Details](ipRouteV2Dump),
		write[ip.IPTableAddDel, ip.IPTableAddDelReply](ipTableAddDel),
		read[ip.IPTableDump, ip.IPTableDetails](ipTableDump),
	}
}

// ipTableAddDel: the default table is left alone without an error, and a table
// that is there keeps the name it was made with. That is what makes the name
// good as a marker of the instance (L3).
func ipTableAddDel(c *call, m *ip.IPTableAddDel) int32 {
	if m.Table.TableID == 0 {
		return 0
	}
	v6 := m.Table.IsIP6
	ts := c.inst.fib.tables(v6)
	t := c.inst.fib.table(v6, m.Table.TableID)
	switch {
	case m.IsAdd && t == nil:
		name := m.Table.Name
		if name == "" {
			family := "ipv4"
			if v6 {
				family = "ipv6"
			}
			name = fmt.Sprintf("%s-VRF:%d", family, m.Table.TableID)
		}
		t = newTable(m.Table.TableID, v6, name)
		if i := slices.Index(*ts, nil); i >= 0 {
			(*ts)[i] = t
		} else {
			*ts = append(*ts, t)
		}
	case !m.IsAdd && t != nil:
		(*ts)[slices.Index(*ts, t)] = nil
	}
	return 0
}

func ipTableDump(c *call, _ *ip.IPTableDump) {
	for _, v6 := range []bool{false, true} {
		for _, t := range *c.inst.fib.tables(v6) {
			if t != nil {
				c.reply(&ip.IPTableDetails{Table: ip.IPTable{TableID: t.id, IsIP6: v6, Name: t.name}})
			}
		}
	}
}

func ipRouteAddDel(c *call, m *ip.IPRouteAddDel) {
	rv, abort := c.inst.changeRoute(m.IsAdd, m.IsMultipath, m.Route)
	if abort != "" {
		c.sim.crash(abort)
		return
	}
	r := &ip.IPRouteAddDelReply{Retval: rv, StatsIndex: invalidIndex}
	if m.IsAdd && rv == 0 {
		r.StatsIndex = 1
	}
	c.reply(r)
}

// changeRoute adds paths to a prefix, removes some, or replaces all.
func (in *instance) changeRoute(isAdd, isMultipath bool, r ip.IPRoute) (rv int32, abort string) {
	addr := goAddress(r.Prefix.Address)
	t := in.fib.table(addr.Is6(), r.TableID)
	if t == nil {
		return errNoSuchFIB, ""
	}
	paths := slices.Clone(r.Paths)
	for i := range paths {
		if rv, abort = in.decodePath(&paths[i]); rv != 0 || abort != "" {
			return rv, abort
		}
	}
	key, err := addr.Prefix(int(r.Prefix.Len))
	if err != nil {
		return errInvalidPrefixLen, ""
	}
	if len(paths) == 0 && (isAdd || isMultipath) {
		return errNoPathsInRoute, ""
	}
	have := t.api[key]
	switch {
	case isAdd && isMultipath && have != nil:
		for _, p := range paths {
			if !slices.ContainsFunc(have.paths, samePath(p)) {
				have.paths = append(have.paths, p)
			}
		}
	case isAdd && have != nil:
		have.paths = paths
	case isAdd:
		// VPP shows the host bits that the first add came with ever after.
		have = &route{shown: netip.PrefixFrom(addr, key.Bits()), paths: paths}
		t.api[key] = have
	case have == nil:
		return 0, "" // removing the absent is no error
	case isMultipath:
		for _, p := range paths {
			have.paths = slices.DeleteFunc(have.paths, samePath(p))
		}
	default:
		have.paths = nil
	}
	if len(have.paths) == 0 {
		delete(t.api, key)
		return 0, ""
	}
	slices.SortStableFunc(have.paths, comparePaths)
	return 0, ""
}

// special paths have neither next hop nor interface.
func special(t fib_types.FibPathType) bool {
	return t == fib_types.FIB_API_PATH_TYPE_DROP ||
		t == fib_types.FIB_API_PATH_TYPE_ICMP_UNREACH || t == fib_types.FIB_API_PATH_TYPE_ICMP_PROHIBIT
}

// comparePaths orders the paths of a route. To VPP all special paths are equal.
func comparePaths(a, b fib_types.FibPath) int {
	if sa, sb := special(a.Type), special(b.Type); sa || sb {
		switch {
		case sa && sb:
			return 0
		case sa:
			return 1
		}
		return -1
	}
	return cmp.Or(
		cmp.Compare(a.Type, b.Type),
		bytes.Compare(a.Nh.Address.XXX_UnionData[:], b.Nh.Address.XXX_UnionData[:]),
		cmp.Compare(a.SwIfIndex, b.SwIfIndex),
		cmp.Compare(a.TableID, b.TableID),
	)
}

func samePath(a fib_types.FibPath) func(fib_types.FibPath) bool {
	return func(b fib_types.FibPath) bool { return comparePaths(a, b) == 0 }
}

// decodePath does to a path what VPP does while it reads it. F10: not all that
// can be written in a path is expected, and some of that kills VPP. All cases
// below were tried on a real one.
func (in *instance) decodePath(p *fib_types.FibPath) (rv int32, abort string) {
	abort = fmt.Sprintf("ip_route_add_del with a path of type %d, protocol %d, interface %d (F10)", p.Type, p.Proto, int32(p.SwIfIndex))
	if p.Weight == 0 {
		p.Weight = 1
	}
	isIP := p.Proto <= fib_types.FIB_API_PATH_NH_PROTO_IP6
	if p.Proto > fib_types.FIB_API_PATH_NH_PROTO_BIER {
		return -1, ""
	}
	switch p.Type {
	case fib_types.FIB_API_PATH_TYPE_DROP:
		p.SwIfIndex = invalidIndex
		return 0, ""
	case fib_types.FIB_API_PATH_TYPE_ICMP_UNREACH, fib_types.FIB_API_PATH_TYPE_ICMP_PROHIBIT:
		p.SwIfIndex = invalidIndex
		if isIP {
			return 0, ""
		}
	case fib_types.FIB_API_PATH_TYPE_LOCAL:
		if isIP && (p.SwIfIndex == invalidIndex || in.iface(p.SwIfIndex) != nil) {
			return 0, ""
		}
	case fib_types.FIB_API_PATH_TYPE_NORMAL, fib_types.FIB_API_PATH_TYPE_SOURCE_LOOKUP:
		p.Type = fib_types.FIB_API_PATH_TYPE_NORMAL
		switch {
		case p.Proto == fib_types.FIB_API_PATH_NH_PROTO_BIER:
			return errNoSuchFIB, ""
		case !isIP:
		case p.SwIfIndex != invalidIndex && in.iface(p.SwIfIndex) == nil:
			return errNoMatchingIntf, ""
		case p.SwIfIndex == invalidIndex && in.fib.table(p.Proto == fib_types.FIB_API_PATH_NH_PROTO_IP6, p.TableID) == nil:
			return errNoSuchFIB, ""
		default:
			return 0, ""
		}
	case fib_types.FIB_API_PATH_TYPE_DVR, fib_types.FIB_API_PATH_TYPE_INTERFACE_RX:
		if p.SwIfIndex != invalidIndex {
			return 0, ""
		}
	case fib_types.FIB_API_PATH_TYPE_CLASSIFY:
		return errNoSuchTable, ""
	case fib_types.FIB_API_PATH_TYPE_UDP_ENCAP, fib_types.FIB_API_PATH_TYPE_BIER_IMP:
	default:
		if p.Proto != fib_types.FIB_API_PATH_NH_PROTO_MPLS {
			// A type VPP does not know becomes a path to local0.
			p.Type, p.SwIfIndex = fib_types.FIB_API_PATH_TYPE_NORMAL, 0
			return 0, ""
		}
	}
	return 0, abort
}

func ipRouteDump(c *call, m *ip.IPRouteDump) {
	t := c.inst.fib.table(m.Table.IsIP6, m.Table.TableID)
	if t == nil {
		return
	}
	for _, e := range c.inst.entries(t) {
		c.reply(&ip.IPRouteDetails{Route: ip.IPRoute{
			TableID: t.id, StatsIndex: 1, Prefix: apiPrefix(e.prefix), Paths: e.paths,
		}})
	}
}

// ipRouteV2Dump filters by the strongest source of an entry, so a route of the
// API under an address that cnat has put into the FIB is not found by "API".
func ipRouteV2Dump(c *call, m *ip.IPRouteV2Dump) {
	t := c.inst.fib.table(m.Table.IsIP6, m.Table.TableID)
	if t == nil {
		return
	}
	for _, e := range c.inst.entries(t) {
		if m.Src == 0 || m.Src == e.source {
			c.reply(&ip.IPRouteV2Details{Route: ip.IPRouteV2{
				TableID: t.id, StatsIndex: 1, Prefix: apiPrefix(e.prefix), Src: e.source, Paths: e.paths,
			}})
		}
	}
}

func apiPrefix(p netip.Prefix) ip_types.Prefix {
	return ip_types.Prefix{Address: apiAddress(p.Addr()), Len: uint8(p.Bits())}
}
