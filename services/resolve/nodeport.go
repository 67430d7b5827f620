// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// NodePortAddresses selects addresses of the node, as kube-proxy's
// --nodeport-addresses does (F2).
type NodePortAddresses struct {
	// Primary selects the first address of each family, All every one.
	Primary, All bool
	// CIDRs select the addresses that they contain. A family without a CIDR of
	// its own is not restricted by those of the other.
	CIDRs []netip.Prefix
}

// ParseNodePortAddresses reads a list of "primary", "all" and CIDRs; an empty one
// is primary. All mistakes are reported at once.
func ParseNodePortAddresses(list []string) (NodePortAddresses, error) {
	var n NodePortAddresses
	var errs []error
	for _, s := range list {
		switch s = strings.TrimSpace(s); s {
		case "primary":
			n.Primary = true
		case "all":
			n.All = true
		default:
			p, err := netip.ParsePrefix(s)
			if err != nil {
				errs = append(errs, fmt.Errorf("node port addresses: %q: accepted values are primary, all, and CIDRs such as 192.0.2.0/24", s))
				continue
			}
			n.CIDRs = append(n.CIDRs, p.Masked())
		}
	}
	if len(list) == 0 {
		n.Primary = true
	}
	slices.SortFunc(n.CIDRs, netip.Prefix.Compare)
	return n, errors.Join(errs...)
}

// of returns the addresses of the node, of one family, that serve node ports.
// Loopback addresses never do (F3).
func (n *NodePortAddresses) of(node *Node, v6 bool) []netip.Addr {
	var out []netip.Addr
	restricted := false
	for _, c := range n.CIDRs {
		restricted = restricted || c.Addr().Is6() == v6
	}
	everything := n.All || (len(n.CIDRs) > 0 && !restricted && !n.Primary)
	first := true
	for _, a := range node.Addresses {
		if a.Is6() != v6 || a.IsLoopback() {
			continue
		}
		within := slices.ContainsFunc(n.CIDRs, func(c netip.Prefix) bool { return c.Contains(a) })
		if everything || within || (n.Primary && first) {
			out = append(out, a)
		}
		first = false
	}
	return out
}
