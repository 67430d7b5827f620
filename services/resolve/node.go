// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"calico-vpp-services/services/model"
)

// Node is what Services depend on of the node that they are programmed on.
// Nothing else of the Node object concerns them (I8).
type Node struct {
	// Name decides which endpoints are local (B9).
	Name string
	// Zone is compared with zone hints; empty when the node has no zone (I4).
	Zone string
	// Addresses are the node's own, the primary one of each family before
	// others of it. A VIP that is one of them is real, whichever field of the
	// Service it is from (vpp-facts C2).
	Addresses []netip.Addr
	// Own are further addresses of the node, such as those that VPP has: node
	// ports are not served on them, but a VIP that is one of them is real too.
	Own []netip.Addr
}

// NodeFrom reads a Node object: internal addresses come before external ones,
// each kind in the order of the object, so that the first of a family is its
// primary one.
func NodeFrom(o *corev1.Node) (Node, []model.Problem) {
	if o == nil {
		return Node{}, nil
	}
	n := Node{Name: o.Name, Zone: o.Labels[corev1.LabelTopologyZone]}
	var problems problemList
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for i, a := range o.Status.Addresses {
			if a.Type != kind {
				continue
			}
			ip, ok := parseIP(a.Address)
			switch why := Special(ip); {
			case !ok:
				problems.add(model.ReasonAddressRefused, fieldAt("status.addresses", i, "address"),
					"%s is not an IP address; it is left out", quote(a.Address))
			case why != "":
				problems.add(model.ReasonAddressRefused, fieldAt("status.addresses", i, "address"),
					"%s is %s, which Services cannot be served on; it is left out", ip, why)
			case !n.Has(ip):
				n.Addresses = append(n.Addresses, ip)
			}
		}
	}
	return n, problems.sorted()
}

// Has tells whether a is an address of the node.
func (n *Node) Has(a netip.Addr) bool {
	return slices.Contains(n.Addresses, a) || slices.Contains(n.Own, a)
}
