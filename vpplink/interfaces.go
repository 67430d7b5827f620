// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vpplink

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	interfaces "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
	"go.fd.io/govpp/binapi/ip"
)

// Interface is an interface of VPP.
type Interface struct {
	// SwIfIndex is VPP's number for it, good for this VPP instance only.
	SwIfIndex uint32
	Name      string
	// Addresses are its own, with their prefix length, sorted.
	Addresses []netip.Prefix
}

// InterfaceNames returns the number of each interface by its name.
func (s *Session) InterfaceNames(ctx context.Context) (map[string]uint32, error) {
	out := map[string]uint32{}
	err := dump(ctx, s, &interfaces.SwInterfaceDump{SwIfIndex: noInterface}, func(d *interfaces.SwInterfaceDetails) {
		out[strings.TrimRight(d.InterfaceName, "\x00")] = uint32(d.SwIfIndex)
	})
	if err != nil {
		return nil, fmt.Errorf("interfaces: %w", err)
	}
	return out, nil
}

// Interfaces returns all interfaces with their addresses, sorted by SwIfIndex.
func (s *Session) Interfaces(ctx context.Context) ([]Interface, error) {
	var out []Interface
	err := dump(ctx, s, &interfaces.SwInterfaceDump{SwIfIndex: noInterface}, func(d *interfaces.SwInterfaceDetails) {
		out = append(out, Interface{SwIfIndex: uint32(d.SwIfIndex), Name: strings.TrimRight(d.InterfaceName, "\x00")})
	})
	if err != nil {
		return nil, fmt.Errorf("interfaces: %w", err)
	}
	slices.SortFunc(out, func(a, b Interface) int { return cmp.Compare(a.SwIfIndex, b.SwIfIndex) })
	for i := range out {
		for _, v6 := range []bool{false, true} {
			req := &ip.IPAddressDump{SwIfIndex: interface_types.InterfaceIndex(out[i].SwIfIndex), IsIPv6: v6}
			err := dump(ctx, s, req, func(d *ip.IPAddressDetails) {
				out[i].Addresses = append(out[i].Addresses, netip.PrefixFrom(fromAddress(d.Prefix.Address), int(d.Prefix.Len)))
			})
			if err != nil {
				return nil, fmt.Errorf("addresses of interface %s: %w", out[i].Name, err)
			}
		}
		slices.SortFunc(out[i].Addresses, netip.Prefix.Compare)
	}
	return out, nil
}
