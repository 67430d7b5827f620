// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_types"

	"calico-vpp-services/vpplink/binapi2606"
	"calico-vpp-services/vpplink/types"
)

// Translation is a translation as VPP really holds it, beyond what a dump says.
type Translation struct {
	// ID is the pool index.
	ID uint32
	// Entry has the LB type and hash of the creation and the IsRealIP and
	// Flags of the last update. The backends are in VPP's order. It is what
	// VPP holds, so it need not be valid.
	Entry types.CnatTranslateEntry
	// Inactive are the backends that VPP cannot forward to, because an
	// endpoint of the path is an interface without address. They are part of
	// Entry.Backends as well.
	Inactive []types.Backend
	// AddressIsReal and AddressNoClient are the flags that the first
	// translation of the address gave it. They are what counts (C2).
	AddressIsReal, AddressNoClient bool
}

// String prints the entry without the id, as goldens want it.
func (t Translation) String() string {
	s := t.Entry.String()
	if t.AddressNoClient {
		s += " no-client"
	} else if t.AddressIsReal != t.Entry.IsRealIP {
		s += fmt.Sprintf(" address-real=%v", t.AddressIsReal)
	}
	return s
}

// Translations returns all translations, sorted by key and then id.
func (s *Sim) Translations() []Translation {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Translation{}
	for _, t := range s.inst.cnat.pool {
		if t != nil {
			out = append(out, t.inspect())
		}
	}
	slices.SortStableFunc(out, func(a, b Translation) int { return a.Entry.Key().Compare(b.Entry.Key()) })
	return out
}

func (t *translation) inspect() Translation {
	out := Translation{
		ID: t.id,
		Entry: types.CnatTranslateEntry{
			Proto:    types.Protocol(t.proto),
			IP:       t.vip.addr,
			Port:     t.vip.port,
			Backends: make([]types.Backend, 0, len(t.paths)),
			IsRealIP: t.real,
			LBType:   types.LBType(t.lb),
			Hash:     types.FlowHash(t.hash),
			Flags:    types.TranslationFlags(t.flags),
		},
	}
	if t.owner != nil {
		out.AddressIsReal, out.AddressNoClient = !t.owner.exclusive, t.owner.noClient
	}
	for _, p := range t.paths {
		b := types.Backend{IP: p.dst.addr, Port: p.dst.port, NoNAT: p.flags&pathNoNAT != 0}
		out.Entry.Backends = append(out.Entry.Backends, b)
		if p.flags&pathActive == 0 {
			out.Inactive = append(out.Inactive, b)
		}
	}
	return out
}

// Load writes entries into VPP as somebody else would have, without being
// counted as calls: the leftovers a client finds when it starts. It keeps the
// order of backends and checks nothing but that there are some.
func (s *Sim) Load(entries []types.CnatTranslateEntry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		if len(e.Backends) == 0 {
			return fmt.Errorf("load: translation %s has no backends", e.Key())
		}
		if _, rv, _ := s.inst.update(apiTranslation(e)); rv != 0 {
			return fmt.Errorf("load: translation %s: return value %d", e.Key(), rv)
		}
	}
	return nil
}

func apiTranslation(e *types.CnatTranslateEntry) *cnat.CnatTranslation {
	out := &cnat.CnatTranslation{
		Vip:            encodeEndpoint(endpoint{addr: e.IP, port: e.Port, swIf: invalidIndex, v6: e.IP.Is6(), resolved: true}),
		IPProto:        ip_types.IPProto(e.Proto),
		Flags:          uint8(e.Flags),
		LbType:         cnat.CnatLbType(e.LBType),
		FlowHashConfig: ip.IPFlowHashConfigV2(e.Hash),
	}
	if e.IsRealIP {
		out.IsRealIP = 1
	}
	for _, b := range e.Backends {
		p := cnat.CnatEndpointTuple{
			DstEp: encodeEndpoint(endpoint{addr: b.IP, port: b.Port, swIf: invalidIndex, v6: b.IP.Is6(), resolved: true}),
			SrcEp: encodeEndpoint(endpoint{swIf: invalidIndex, v6: b.IP.Is6()}),
		}
		if b.NoNAT {
			p.Flags = pathNoNAT
		}
		out.Paths = append(out.Paths, p)
	}
	return out
}

// SNAT is what cnat knows about source NAT.
type SNAT struct {
	// IP4 and IP6 are the source addresses of the policy that calls without a
	// FIB index work on; invalid if not set.
	IP4, IP6 netip.Addr
	Policy   binapi2606.CnatSnatPolicy
	Flags    binapi2606.CnatSnatPolicyFlags
	// Excluded are the destinations that need no source NAT, sorted.
	Excluded []netip.Prefix
	// IncludeV4, IncludeV6, Pod and Host are the interface tables, sorted.
	IncludeV4, IncludeV6, Pod, Host []uint32
	// Features are the interfaces with the cnat feature on, sorted. It is no
	// part of the policy, but nothing works without it (C3).
	Features []uint32
	// Doubled are those of Features that were enabled more than once: VPP
	// counts, and translates nothing there (measured).
	Doubled []uint32
	// Policies counts the SNAT entries of all FIBs; 0 means that none was ever
	// set and all else but Features and Doubled is zero.
	Policies int
}

// SNAT returns the state of source NAT.
func (s *Sim) SNAT() SNAT {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := SNAT{Policies: len(s.inst.snat.pool)}
	for _, i := range s.inst.interfaces {
		if i.cnat > 0 {
			out.Features = append(out.Features, i.index)
		}
		if i.cnat > 1 {
			out.Doubled = append(out.Doubled, i.index)
		}
	}
	e := s.inst.snat.first()
	if e == nil {
		return out
	}
	out.Policy, out.Flags = e.policy, e.flags
	if e.ip4.resolved {
		out.IP4 = e.ip4.addr
	}
	if e.ip6.resolved {
		out.IP6 = e.ip6.addr
	}
	for p := range e.prefixes {
		out.Excluded = append(out.Excluded, p)
	}
	slices.SortFunc(out.Excluded, netip.Prefix.Compare)
	for i, to := range []*[]uint32{&out.IncludeV4, &out.IncludeV6, &out.Pod, &out.Host} {
		for index := range e.interfaces[i] {
			*to = append(*to, index)
		}
		slices.Sort(*to)
	}
	return out
}

// Route is a route that the API made.
type Route struct {
	Table  uint32
	Prefix netip.Prefix
	Paths  []RoutePath
}

// RoutePath is where a route leads.
type RoutePath struct {
	Type      fib_types.FibPathType
	SwIfIndex uint32 // ^0 if none
	NextHop   netip.Addr
}

// String prints the route on one line.
func (r Route) String() string {
	var b strings.Builder
	if r.Table != 0 {
		fmt.Fprintf(&b, "table %d ", r.Table)
	}
	b.WriteString(r.Prefix.String())
	b.WriteString(" ->")
	for _, p := range r.Paths {
		switch p.Type {
		case fib_types.FIB_API_PATH_TYPE_ICMP_UNREACH:
			b.WriteString(" unreachable")
		case fib_types.FIB_API_PATH_TYPE_ICMP_PROHIBIT:
			b.WriteString(" prohibit")
		case fib_types.FIB_API_PATH_TYPE_DROP:
			b.WriteString(" drop")
		case fib_types.FIB_API_PATH_TYPE_LOCAL:
			b.WriteString(" local")
		default:
			fmt.Fprintf(&b, " %s", p.NextHop)
			if p.SwIfIndex != invalidIndex {
				fmt.Fprintf(&b, "@%d", p.SwIfIndex)
			}
		}
	}
	return b.String()
}

// Routes returns the routes that the API made, sorted by family, table and prefix.
func (s *Sim) Routes() []Route {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []Route{}
	for _, v6 := range []bool{false, true} {
		for _, t := range *s.inst.fib.tables(v6) {
			if t == nil {
				continue
			}
			prefixes := slices.SortedFunc(maps.Keys(t.api), netip.Prefix.Compare)
			for _, p := range prefixes {
				r := Route{Table: t.id, Prefix: p}
				for _, path := range t.api[p].paths {
					r.Paths = append(r.Paths, RoutePath{Type: path.Type, SwIfIndex: path.SwIfIndex, NextHop: nextHop(path, v6)})
				}
				out = append(out, r)
			}
		}
	}
	return out
}

func nextHop(p fib_types.FibPath, v6 bool) netip.Addr {
	af := ip_types.ADDRESS_IP4
	if v6 {
		af = ip_types.ADDRESS_IP6
	}
	return goAddress(ip_types.Address{Af: af, Un: p.Nh.Address})
}

// Tables returns the names of the tables by id, of one family.
func (s *Sim) Tables(v6 bool) map[uint32]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[uint32]string{}
	for _, t := range *s.inst.fib.tables(v6) {
		if t != nil {
			out[t.id] = t.name
		}
	}
	return out
}
