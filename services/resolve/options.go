// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink/types"
)

// Node is what services depend on of the node that they are programmed on.
type Node struct {
	// Name decides which endpoints are local.
	Name string
	// Zone is compared with zone hints; empty when the node has no zone.
	Zone string
	// Addresses are the node's own, the primary one of each family before
	// others of it.
	Addresses []netip.Addr
}

// has tells whether a is an address of the node.
func (n *Node) has(a netip.Addr) bool { return slices.Contains(n.Addresses, a) }

// NodeFrom reads a Node object: internal addresses come before external ones,
// in the order of the object.
func NodeFrom(o *corev1.Node) (Node, []model.Problem) {
	n := Node{Name: o.Name, Zone: o.Labels[corev1.LabelTopologyZone]}
	var problems problemList
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for i, a := range o.Status.Addresses {
			if a.Type != kind {
				continue
			}
			ip, ok := parseIP(a.Address)
			if !ok || ip.IsUnspecified() || ip.IsMulticast() {
				problems.add(model.ReasonAddressRefused, field("status.addresses[%d].address", i),
					"%q is not an address that a node can have; it is left out", a.Address)
				continue
			}
			if !n.has(ip) {
				n.Addresses = append(n.Addresses, ip)
			}
		}
	}
	return n, problems.sorted()
}

// SourceRangesPolicy says what becomes of a load balancer IP whose Service
// restricts its clients, which cnat cannot do.
type SourceRangesPolicy string

// The policies for loadBalancerSourceRanges.
const (
	// SourceRangesRefuse does not program the address: nobody is let in
	// rather than everybody.
	SourceRangesRefuse SourceRangesPolicy = "refuse"
	// SourceRangesIgnore programs it for everybody.
	SourceRangesIgnore SourceRangesPolicy = "ignore"
)

// Options are the choices about what Services may claim. DefaultOptions fills
// them.
type Options struct {
	// NodePortAddresses selects the node's addresses that serve node ports (F2).
	NodePortAddresses NodePortAddresses
	// SourceRanges is the policy for loadBalancerSourceRanges (G6).
	SourceRanges SourceRangesPolicy
	// ExternalIPs switches spec.externalIPs on (G12, KEP-5707).
	ExternalIPs bool
	// ExternalIPsAllowed, when not empty, are the only prefixes that
	// spec.externalIPs may be of.
	ExternalIPsAllowed []netip.Prefix
	// ServiceCIDRs are the prefixes of ClusterIPs: no externalIP or load
	// balancer IP may be of them (CVE-2020-8554).
	ServiceCIDRs []netip.Prefix
	// GuardExempt are prefixes that the guards about service CIDRs and pod
	// addresses do not look at.
	GuardExempt []netip.Prefix
	// IsPodAddress tells whether an address is known to be a pod's; nil knows
	// none.
	IsPodAddress func(netip.Addr) bool
	// ProtectedNodePorts are ports that no externalIP or load balancer IP equal
	// to an address of the node may have: they are the node's own.
	ProtectedNodePorts []uint16
	// ServiceProxyName, when not empty, is the value of the label
	// service.kubernetes.io/service-proxy-name of the Services to handle;
	// otherwise those without the label are (A3).
	ServiceProxyName string
	// Flags are the flags of every translation.
	Flags types.TranslationFlags
}

// DefaultOptions returns what a cluster without special wishes needs.
func DefaultOptions() Options {
	return Options{
		NodePortAddresses: NodePortAddresses{Primary: true},
		SourceRanges:      SourceRangesRefuse,
		ExternalIPs:       true,
		// SSH, BGP, API server, kubelet, kube-proxy's health port.
		ProtectedNodePorts: []uint16{22, 179, 6443, 10250, 10256},
		// Misses follow the FIB, and other ports of a node's address stay the
		// node's (vpp-facts C3).
		Flags: types.FlagNoClient,
	}
}
