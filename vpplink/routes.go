// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vpplink

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_types"
)

// AddUnreachable adds a route that refuses what goes to p with an ICMP
// unreachable, so that a connect fails at once (vpp-facts R1). Translations of
// addresses in p are matched before the FIB, and go on. It may be repeated.
//
// The path type is one of the few that VPP does not die of with the wrong
// companions (F10); it is fixed here.
func (s *Session) AddUnreachable(ctx context.Context, p netip.Prefix) error {
	return s.unreachable(ctx, p, true)
}

// DelUnreachable takes the route away; that there is none is success.
func (s *Session) DelUnreachable(ctx context.Context, p netip.Prefix) error {
	return absentIsFine(s.unreachable(ctx, p, false))
}

func (s *Session) unreachable(ctx context.Context, p netip.Prefix, add bool) error {
	if !p.IsValid() || p.Addr().Is4In6() || p != p.Masked() || p.Bits() == 0 {
		return fmt.Errorf("unreachable route %s: %w: wanted address/length without host bits, and not the default route", p, ErrInvalidEntry)
	}
	path := fib_types.FibPath{SwIfIndex: uint32(noInterface), Weight: 1, Type: fib_types.FIB_API_PATH_TYPE_ICMP_UNREACH}
	if p.Addr().Is6() {
		path.Proto = fib_types.FIB_API_PATH_NH_PROTO_IP6
	}
	return callRetval(ctx, s, &ip.IPRouteAddDel{IsAdd: add, Route: ip.IPRoute{
		Prefix: ip_types.Prefix{Address: toAddress(p.Addr()), Len: uint8(p.Bits())},
		NPaths: 1, Paths: []fib_types.FibPath{path},
	}}, fmt.Sprintf("unreachable route %s", p), func(r *ip.IPRouteAddDelReply) int32 { return r.Retval })
}

// Routes is what the routes of VPP's default tables tell.
type Routes struct {
	// Unreachable are the prefixes of routes that only refuse, whoever made
	// them, sorted.
	Unreachable []netip.Prefix
	// Local are VPP's own addresses, sorted.
	Local []netip.Addr
	// Connected are the prefixes of links, where hosts are reached without a
	// gateway, sorted. Those of one address are left out.
	Connected []netip.Prefix
}

// Routes reads VPP's default tables.
func (s *Session) Routes(ctx context.Context) (Routes, error) {
	var out Routes
	for _, v6 := range []bool{false, true} {
		err := dump(ctx, s, &ip.IPRouteDump{Table: ip.IPTable{IsIP6: v6}}, func(d *ip.IPRouteDetails) { out.add(&d.Route) })
		if err != nil {
			return Routes{}, fmt.Errorf("routes: %w", err)
		}
	}
	slices.SortFunc(out.Unreachable, netip.Prefix.Compare)
	slices.SortFunc(out.Connected, netip.Prefix.Compare)
	slices.SortFunc(out.Local, netip.Addr.Compare)
	out.Local = slices.Compact(out.Local)
	return out, nil
}

func (r *Routes) add(d *ip.IPRoute) {
	if len(d.Paths) != 1 {
		return
	}
	path := &d.Paths[0]
	prefix := netip.PrefixFrom(fromAddress(d.Prefix.Address), int(d.Prefix.Len))
	switch {
	case path.Type == fib_types.FIB_API_PATH_TYPE_ICMP_UNREACH:
		r.Unreachable = append(r.Unreachable, prefix.Masked())
	case path.Type == fib_types.FIB_API_PATH_TYPE_LOCAL:
		r.Local = append(r.Local, prefix.Addr())
	case path.Type == fib_types.FIB_API_PATH_TYPE_NORMAL && path.SwIfIndex != uint32(noInterface) &&
		fromAddress(ip_types.Address{Af: d.Prefix.Address.Af, Un: path.Nh.Address}).IsUnspecified() &&
		prefix.Bits() > 0 && prefix.Bits() < prefix.Addr().BitLen():
		// VPP keeps the host bits of the interface's address in its prefix.
		r.Connected = append(r.Connected, prefix.Masked())
		if prefix.Addr() != prefix.Masked().Addr() {
			r.Local = append(r.Local, prefix.Addr())
		}
	}
}
