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

// NodePortAddresses selects the addresses of the node on which node ports are
// served, as kube-proxy's --nodeport-addresses does (F2). The zero value
// selects the primary addresses.
type NodePortAddresses struct {
	// Primary selects the first address of each family, All every one.
	Primary, All bool
	// CIDRs select the addresses that they contain. A family without a CIDR of
	// its own is not restricted by those of the other: it is served on all.
	CIDRs []netip.Prefix
}

// acceptedNodePortAddresses is what ParseNodePortAddresses takes, for messages.
const acceptedNodePortAddresses = "accepted values are primary, all, and CIDRs such as 192.0.2.0/24"

// ParseNodePortAddresses reads a list of "primary", "all" and CIDRs; an empty
// one is primary. All mistakes are reported at once.
func ParseNodePortAddresses(list []string) (NodePortAddresses, error) {
	var n NodePortAddresses
	var errs []error
	refuse := func(s, why string) {
		errs = append(errs, fmt.Errorf("%s%s: %s", quote(s), why, acceptedNodePortAddresses))
	}
	for _, s := range list {
		switch s = strings.TrimSpace(s); s {
		case "primary":
			n.Primary = true
		case "all":
			n.All = true
		case "localhost": // F3: what a process sends to itself never reaches VPP
			refuse(s, ": node ports are not served on loopback addresses")
		default:
			p, err := ParsePrefix(s)
			switch {
			case err != nil:
				refuse(s, "")
			case p.Addr().IsLoopback():
				refuse(s, ": node ports are not served on loopback addresses")
			case !slices.Contains(n.CIDRs, p):
				n.CIDRs = append(n.CIDRs, p)
			}
		}
	}
	if len(list) == 0 {
		n.Primary = true
	}
	slices.SortFunc(n.CIDRs, netip.Prefix.Compare)
	return n, errors.Join(errs...)
}

// none tells whether n says nothing, which means primary.
func (n *NodePortAddresses) none() bool { return !n.Primary && !n.All && len(n.CIDRs) == 0 }

// everything tells whether all addresses of a family are selected, whatever
// they are.
func (n *NodePortAddresses) everything(v6 bool) bool {
	ofFamily := false
	for _, c := range n.CIDRs {
		if c.Addr().Is6() == v6 {
			ofFamily = true
			if c.Bits() == 0 {
				return true
			}
		}
	}
	return n.All || (!ofFamily && !n.Primary && !n.none())
}

// of returns the addresses of the node, of one family, that serve node ports.
// Loopback addresses never do (F3).
func (n *NodePortAddresses) of(node *Node, v6 bool) []netip.Addr {
	var out []netip.Addr
	everything, primary := n.everything(v6), n.Primary || n.none()
	for _, a := range node.Addresses {
		if !a.IsValid() || a.Is6() != v6 || a.Is4In6() || a.Zone() != "" || Special(a) != "" {
			continue
		}
		in := func(c netip.Prefix) bool { return c.Contains(a) }
		if everything || primary || slices.ContainsFunc(n.CIDRs, in) {
			out = append(out, a)
		}
		primary = false // the first of the family only
	}
	return out
}
