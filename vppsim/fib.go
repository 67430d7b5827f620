// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"net/netip"
	"slices"

	"go.fd.io/govpp/binapi/fib_types"
)

// The sources of a FIB entry with VPP's numbers. The number is what
// ip_route_v2_dump filters by; the strength is the order in entryAt.
const (
	sourceSpecial      uint8 = 1
	sourceInterface    uint8 = 4
	sourceAPI          uint8 = 8
	sourceCLI          uint8 = 9 // Config's default routes
	sourceRecursive    uint8 = 18
	sourceDefaultRoute uint8 = 20
	sourceCnat         uint8 = 23 // given out at run time
)

// fib is the tables of both families. The index of a table in its slice is
// VPP's FIB index; the place of a removed one is nil.
type fib struct {
	v4, v6 []*table
}

type table struct {
	id   uint32
	v6   bool
	name string
	api  map[netip.Prefix]*route // by masked prefix
	cli  map[netip.Prefix]*route
}

// route is what one source has for a prefix.
type route struct {
	shown netip.Prefix // with the host bits it was first added with
	paths []fib_types.FibPath
}

// fibEntry is what is in the table for a prefix: the strongest source's.
type fibEntry struct {
	prefix netip.Prefix
	paths  []fib_types.FibPath
	source uint8
	vip    *vip // what cnat has put in front of the paths
}

func newTable(id uint32, v6 bool, name string) *table {
	return &table{id: id, v6: v6, name: name, api: map[netip.Prefix]*route{}, cli: map[netip.Prefix]*route{}}
}

func newFIB() fib {
	return fib{v4: []*table{newTable(0, false, "ipv4-VRF:0")}, v6: []*table{newTable(0, true, "ipv6-VRF:0")}}
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
// is said about them (R1).
func (f *fib) addDefaultRoute(swIf uint32, v6 bool) {
	addr := netip.IPv4Unspecified()
	if v6 {
		addr = netip.IPv6Unspecified()
	}
	p := netip.PrefixFrom(addr, 0)
	(*f.tables(v6))[0].cli[p] = &route{shown: p, paths: attached(swIf, v6)}
}

// Special prefixes of every table. Those of the first kind cannot be
// overridden; a path to 240.0.0.1 is a way to drop packets (R2).
//
//nolint:gochecknoglobals // constants, but for the language
var (
	specialDrops = []netip.Prefix{netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("240.0.0.0/4")}
	linkLocal6   = netip.MustParsePrefix("fe80::/10")
	defaultDrops = []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("0.0.0.0/32"),
		netip.MustParsePrefix("255.255.255.255/32"), netip.MustParsePrefix("::/0"),
	}
)

func protoOf(v6 bool) fib_types.FibPathNhProto {
	if v6 {
		return fib_types.FIB_API_PATH_NH_PROTO_IP6
	}
	return fib_types.FIB_API_PATH_NH_PROTO_IP4
}

func dropPaths(v6 bool) []fib_types.FibPath {
	return []fib_types.FibPath{{Type: fib_types.FIB_API_PATH_TYPE_DROP, SwIfIndex: invalidIndex, Proto: protoOf(v6), Weight: 1}}
}

func attached(swIf uint32, v6 bool) []fib_types.FibPath {
	return []fib_types.FibPath{{SwIfIndex: swIf, Proto: protoOf(v6), Weight: 1}}
}

// entryAt returns the entry of exactly one prefix, which must be masked.
func (in *instance) entryAt(t *table, p netip.Prefix) (fibEntry, bool) {
	v6 := t.v6
	switch {
	case slices.Contains(specialDrops, p):
		return fibEntry{prefix: p, paths: dropPaths(v6), source: sourceSpecial}, true
	case p == linkLocal6:
		return fibEntry{prefix: p, paths: attached(invalidIndex, v6), source: sourceSpecial}, true
	}
	if t.id == 0 && p.IsSingleIP() {
		if v := in.cnat.vips[p.Addr()]; v != nil && !v.noClient {
			if v.exclusive {
				return fibEntry{prefix: p, paths: attached(invalidIndex, v6), source: sourceCnat, vip: v}, true
			}
			// A real address: cnat stands in front of what there is.
			e, ok := in.withoutCnat(t, p)
			if !ok {
				e = in.cover(t, p)
			}
			e.prefix, e.source, e.vip = p, sourceCnat, v
			return e, true
		}
	}
	return in.withoutCnat(t, p)
}

func (in *instance) withoutCnat(t *table, p netip.Prefix) (fibEntry, bool) {
	if t.id == 0 {
		if e, ok := in.interfaceEntry(p); ok {
			return e, true
		}
	}
	if r := t.api[p]; r != nil {
		return fibEntry{prefix: r.shown, paths: r.paths, source: sourceAPI}, true
	}
	if r := t.cli[p]; r != nil {
		return fibEntry{prefix: r.shown, paths: r.paths, source: sourceCLI}, true
	}
	if t.id == 0 && p.IsSingleIP() && in.cnat.tracked[p.Addr()] > 0 {
		// VPP watches how each backend is reached; that makes an entry.
		return fibEntry{prefix: p, paths: in.cover(t, p).paths, source: sourceRecursive}, true
	}
	if slices.Contains(defaultDrops, p) {
		return fibEntry{prefix: p, paths: dropPaths(t.v6), source: sourceDefaultRoute}, true
	}
	return fibEntry{}, false
}

// interfaceEntry is the entry that the addresses of the interfaces make: the
// attached prefix, the address itself, and in IPv4 network and broadcast address.
func (in *instance) interfaceEntry(p netip.Prefix) (fibEntry, bool) {
	for _, i := range in.interfaces {
		for _, a := range i.Addresses {
			if a.Addr().Is6() != p.Addr().Is6() {
				continue
			}
			for _, e := range i.entriesOf(a) {
				if e.prefix.Masked() == p {
					return e, true
				}
			}
		}
	}
	return fibEntry{}, false
}

func (i *iface) entriesOf(a netip.Prefix) []fibEntry {
	v6 := a.Addr().Is6()
	local := attached(i.index, v6)
	local[0].Type = fib_types.FIB_API_PATH_TYPE_LOCAL
	local[0].Nh.Address = apiAddress(a.Addr()).Un
	out := []fibEntry{{prefix: netip.PrefixFrom(a.Addr(), a.Addr().BitLen()), paths: local, source: sourceInterface}}
	if a.IsSingleIP() {
		return out
	}
	shown := a // VPP shows the host bits in IPv4 only
	if v6 {
		shown = a.Masked()
	}
	out = append(out, fibEntry{prefix: shown, paths: attached(i.index, v6), source: sourceInterface})
	if !v6 && a.Bits() < 31 {
		for _, addr := range []netip.Addr{a.Masked().Addr(), lastAddr(a)} {
			out = append(out, fibEntry{prefix: netip.PrefixFrom(addr, 32), paths: dropPaths(v6), source: sourceInterface})
		}
	}
	return out
}

// lastAddr is the broadcast address of an IPv4 prefix.
func lastAddr(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(b)
}

// lookup returns the entry for an address: the one of the longest prefix.
func (in *instance) lookup(t *table, addr netip.Addr) fibEntry {
	e := in.longest(t, addr, addr.BitLen())
	return e
}

// cover returns the entry that a prefix has above itself.
func (in *instance) cover(t *table, p netip.Prefix) fibEntry {
	e := in.longest(t, p.Addr(), p.Bits()-1)
	return e
}

func (in *instance) longest(t *table, addr netip.Addr, bits int) fibEntry {
	for ; bits >= 0; bits-- {
		p, err := addr.Prefix(bits)
		if err != nil {
			break
		}
		if e, ok := in.entryAt(t, p); ok {
			return e
		}
	}
	return fibEntry{paths: dropPaths(t.v6)}
}

// entries returns the whole table, sorted by prefix.
func (in *instance) entries(t *table) []fibEntry {
	set := map[netip.Prefix]bool{}
	add := func(p netip.Prefix) {
		if p.Addr().Is6() == t.v6 {
			set[p.Masked()] = true
		}
	}
	for _, p := range slices.Concat(specialDrops, defaultDrops, []netip.Prefix{linkLocal6}) {
		add(p)
	}
	for p := range t.api {
		add(p)
	}
	for p := range t.cli {
		add(p)
	}
	if t.id == 0 {
		for a := range in.cnat.vips {
			add(netip.PrefixFrom(a, a.BitLen()))
		}
		for a := range in.cnat.tracked {
			add(netip.PrefixFrom(a, a.BitLen()))
		}
		for _, i := range in.interfaces {
			for _, a := range i.Addresses {
				for _, e := range i.entriesOf(a) {
					add(e.prefix)
				}
			}
		}
	}
	prefixes := make([]netip.Prefix, 0, len(set))
	for p := range set {
		prefixes = append(prefixes, p)
	}
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	out := make([]fibEntry, 0, len(prefixes))
	for _, p := range prefixes {
		// A VIP that is not in the FIB has no entry.
		if e, ok := in.entryAt(t, p); ok {
			out = append(out, e)
		}
	}
	return out
}
