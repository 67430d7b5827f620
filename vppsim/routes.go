// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"fmt"
	"net/netip"
	"slices"

	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_types"
)

// The sources of a FIB entry, strongest first, with VPP's numbers.
const (
	sourceSpecial   uint8 = 1
	sourceInterface uint8 = 4
	sourceAPI       uint8 = 8
	sourceDefault   uint8 = 20
)

// fib is the tables of both families. The index of a table in the slice is
// VPP's FIB index; a freed index stays nil.
type fib struct {
	v4, v6 []*table
}

type table struct {
	id     uint32
	name   string
	routes map[netip.Prefix]*route
}

// route is what the API (or Config) put under a prefix.
type route struct {
	paths  []fib_types.FibPath
	source uint8
}

func newFIB() fib {
	// The default tables are always there and cannot be named by the API.
	return fib{
		v4: []*table{{name: "ipv4-VRF:0", routes: map[netip.Prefix]*route{}}},
		v6: []*table{{name: "ipv6-VRF:0", routes: map[netip.Prefix]*route{}}},
	}
}

func (f *fib) tables(v6 bool) *[]*table {
	if v6 {
		return &f.v6
	}
	return &f.v4
}

// table finds a table by its id.
func (f *fib) table(v6 bool, id uint32) *table {
	for _, t := range *f.tables(v6) {
		if t != nil && t.id == id {
			return t
		}
	}
	return nil
}

// tableID is the id of the table with a FIB index.
func (f *fib) tableID(v6 bool, index uint32) uint32 {
	if ts := *f.tables(v6); index < uint32(len(ts)) && ts[index] != nil {
		return ts[index].id
	}
	return invalidIndex
}

// addDefaultRoute adds the route by which packets leave unless something else
// is said about them.
func (f *fib) addDefaultRoute(swIf uint32, v6 bool) {
	p, proto := netip.PrefixFrom(netip.IPv4Unspecified(), 0), fib_types.FIB_API_PATH_NH_PROTO_IP4
	if v6 {
		p, proto = netip.PrefixFrom(netip.IPv6Unspecified(), 0), fib_types.FIB_API_PATH_NH_PROTO_IP6
	}
	(*f.tables(v6))[0].routes[p] = &route{
		source: sourceInterface,
		paths:  []fib_types.FibPath{{SwIfIndex: swIf, Weight: 1, Proto: proto}},
	}
}

func routeMethods() []*method {
	add := read[ip.IPRouteAddDel, ip.IPRouteAddDelReply](func(c *call, m *ip.IPRouteAddDel) {
		c.routeAddDel(m.IsAdd, m.IsMultipath, m.Route)
	})
	add.write = true
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
	ts := c.inst.fib.tables(m.Table.IsIP6)
	t := c.inst.fib.table(m.Table.IsIP6, m.Table.TableID)
	switch {
	case m.IsAdd && t == nil:
		name := m.Table.Name
		if name == "" {
			family := "ipv4"
			if m.Table.IsIP6 {
				family = "ipv6"
			}
			name = fmt.Sprintf("%s-VRF:%d", family, m.Table.TableID)
		}
		t = &table{id: m.Table.TableID, name: name, routes: map[netip.Prefix]*route{}}
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

func (c *call) routeAddDel(isAdd, isMultipath bool, r ip.IPRoute) {
	rv, abort := c.inst.changeRoute(isAdd, isMultipath, r)
	if abort != "" {
		c.sim.crash(abort)
		return
	}
	stats := invalidIndex
	if isAdd && rv == 0 {
		stats = 1
	}
	c.reply(&ip.IPRouteAddDelReply{Retval: rv, StatsIndex: stats})
}

// changeRoute adds or removes the paths of a prefix, or replaces them.
func (in *instance) changeRoute(isAdd, isMultipath bool, r ip.IPRoute) (rv int32, abort string) {
	addr := goAddress(r.Prefix.Address)
	t := in.fib.table(addr.Is6(), r.TableID)
	if t == nil {
		return errNoSuchFIB, ""
	}
	for i := range r.Paths {
		if rv, abort = in.checkPath(&r.Paths[i]); rv != 0 || abort != "" {
			return rv, abort
		}
	}
	p, err := addr.Prefix(int(r.Prefix.Len))
	if err != nil {
		return errInvalidPrefixLen, ""
	}
	if len(r.Paths) == 0 && (isAdd || isMultipath) {
		return errNoPathsInRoute, ""
	}
	have := t.routes[p]
	if have != nil && have.source != sourceAPI {
		have = nil // another source's; the API's entry hides it
	}
	switch {
	case isAdd && isMultipath && have != nil:
		for _, path := range r.Paths {
			if !slices.ContainsFunc(have.paths, func(h fib_types.FibPath) bool { return samePath(h, path) }) {
				have.paths = append(have.paths, path)
			}
		}
	case isAdd:
		t.routes[p] = &route{paths: slices.Clone(r.Paths), source: sourceAPI}
	case have == nil:
		// Removing the absent is no error.
	case isMultipath:
		have.paths = slices.DeleteFunc(have.paths, func(h fib_types.FibPath) bool {
			return slices.ContainsFunc(r.Paths, func(p fib_types.FibPath) bool { return samePath(h, p) })
		})
		if len(have.paths) == 0 {
			delete(t.routes, p)
		}
	default:
		delete(t.routes, p)
	}
	return 0, ""
}

func samePath(a, b fib_types.FibPath) bool {
	return a.Type == b.Type && a.SwIfIndex == b.SwIfIndex && a.Nh.Address == b.Nh.Address && a.TableID == b.TableID && a.Preference == b.Preference
}

// checkPath does to a path what VPP does while it reads it.
func (in *instance) checkPath(p *fib_types.FibPath) (rv int32, abort string) {
	if p.Weight == 0 {
		p.Weight = 1
	}
	switch p.Type {
	case fib_types.FIB_API_PATH_TYPE_DROP, fib_types.FIB_API_PATH_TYPE_ICMP_UNREACH, fib_types.FIB_API_PATH_TYPE_ICMP_PROHIBIT:
		p.SwIfIndex = invalidIndex
		return 0, ""
	case fib_types.FIB_API_PATH_TYPE_LOCAL:
		return 0, ""
	case fib_types.FIB_API_PATH_TYPE_NORMAL:
		if p.SwIfIndex != invalidIndex {
			if in.iface(p.SwIfIndex) == nil {
				return errNoMatchingIntf, ""
			}
			return 0, ""
		}
		if in.fib.table(p.Proto == fib_types.FIB_API_PATH_NH_PROTO_IP6, p.TableID) == nil {
			return errNoSuchFIB, ""
		}
		return 0, ""
	case fib_types.FIB_API_PATH_TYPE_CLASSIFY:
		return errNoSuchTable, ""
	}
	return 0, fmt.Sprintf("ip_route_add_del with a path of type %d (F10)", p.Type)
}

func ipRouteDump(c *call, m *ip.IPRouteDump) {
	c.inst.fib.walk(m.Table.IsIP6, m.Table.TableID, func(p netip.Prefix, r *route) {
		c.reply(&ip.IPRouteDetails{Route: ip.IPRoute{
			TableID: m.Table.TableID, StatsIndex: 1, Prefix: apiPrefix(p), Paths: r.paths,
		}})
	})
}

func ipRouteV2Dump(c *call, m *ip.IPRouteV2Dump) {
	c.inst.fib.walk(m.Table.IsIP6, m.Table.TableID, func(p netip.Prefix, r *route) {
		if m.Src == 0 || m.Src == r.source {
			c.reply(&ip.IPRouteV2Details{Route: ip.IPRouteV2{
				TableID: m.Table.TableID, StatsIndex: 1, Prefix: apiPrefix(p), Src: r.source, Paths: r.paths,
			}})
		}
	})
}

// walk visits the routes of a table, sorted by prefix.
func (f *fib) walk(v6 bool, id uint32, visit func(netip.Prefix, *route)) {
	t := f.table(v6, id)
	if t == nil {
		return
	}
	prefixes := make([]netip.Prefix, 0, len(t.routes))
	for p := range t.routes {
		prefixes = append(prefixes, p)
	}
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	for _, p := range prefixes {
		visit(p, t.routes[p])
	}
}

func apiPrefix(p netip.Prefix) ip_types.Prefix {
	return ip_types.Prefix{Address: apiAddress(p.Addr()), Len: uint8(p.Bits())}
}
