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

// Unreachables returns the prefixes of all routes in VPP's default tables that
// are nothing but unreachable, whoever made them, sorted.
func (s *Session) Unreachables(ctx context.Context) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, v6 := range []bool{false, true} {
		err := dump(ctx, s, &ip.IPRouteDump{Table: ip.IPTable{IsIP6: v6}}, func(d *ip.IPRouteDetails) {
			r := &d.Route
			if len(r.Paths) == 1 && r.Paths[0].Type == fib_types.FIB_API_PATH_TYPE_ICMP_UNREACH {
				out = append(out, netip.PrefixFrom(fromAddress(r.Prefix.Address), int(r.Prefix.Len)).Masked())
			}
		})
		if err != nil {
			return nil, fmt.Errorf("routes: %w", err)
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return out, nil
}
