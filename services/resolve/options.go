// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"calico-vpp-services/vpplink/types"
)

// SourceRangesPolicy says what becomes of a load balancer IP whose Service
// restricts its clients (spec.loadBalancerSourceRanges, G6). No filter can be
// put before cnat, so the ranges themselves cannot be kept (design.md 9).
type SourceRangesPolicy string

// The policies for loadBalancerSourceRanges.
const (
	// SourceRangesRefuse does not program the address: nobody is let in
	// rather than everybody. It is the default.
	SourceRangesRefuse SourceRangesPolicy = "refuse"
	// SourceRangesIgnore programs the address for everybody.
	SourceRangesIgnore SourceRangesPolicy = "ignore"
)

// ParseSourceRangesPolicy reads a policy from configuration; empty is
// SourceRangesRefuse.
func ParseSourceRangesPolicy(s string) (SourceRangesPolicy, error) {
	switch p := SourceRangesPolicy(strings.TrimSpace(s)); p {
	case "":
		return SourceRangesRefuse, nil
	case SourceRangesRefuse, SourceRangesIgnore:
		return p, nil
	}
	return "", fmt.Errorf("%s: accepted values are refuse, ignore", quote(s))
}

// ParsePrefix reads a prefix from configuration, such as 198.51.100.0/24 or
// 2001:db8::/64; host bits are cleared. Unlike stored objects, it may not have
// leading zeros, which people read in two ways, nor IPv4 in IPv6.
func ParsePrefix(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(strings.TrimSpace(s))
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, fmt.Errorf("%s: wanted address/length, such as 198.51.100.0/24 or 2001:db8::/64", quote(s))
	}
	return p.Masked(), nil
}

// ParsePrefixes is ParsePrefix for a list; all mistakes are reported at once.
func ParsePrefixes(list []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	var errs []error
	for _, s := range list {
		p, err := ParsePrefix(s)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, p)
	}
	return out, errors.Join(errs...)
}

// The names of the command's flags that set Options. Problems name them: they are
// what an operator can turn to allow, or to forbid, what a Problem is about.
const (
	FlagSourceRanges           = "load-balancer-source-ranges"
	FlagExternalIPs            = "external-ips"
	FlagExternalIPsAllowed     = "external-ips-allowed"
	FlagExternalIPsDenied      = "external-ips-denied"
	FlagLoadBalancerIPsAllowed = "load-balancer-ips-allowed"
	FlagLoadBalancerIPsDenied  = "load-balancer-ips-denied"
	FlagServiceCIDRs           = "service-cidr"
	FlagGuardExempt            = "guard-exempt"
	FlagRefuseNodeAddresses    = "refuse-node-addresses"
	FlagProtectedNodePorts     = "protected-node-ports"
	FlagNodePortAddresses      = "nodeport-addresses"
	FlagServiceProxyName       = "service-proxy-name"
)

// Options are the operator's choices about what Services may claim.
// DefaultOptions fills them.
type Options struct {
	// NodePortAddresses selects the node's addresses that serve node ports (F2).
	NodePortAddresses NodePortAddresses
	// SourceRanges is the policy for loadBalancerSourceRanges (G6); empty is
	// SourceRangesRefuse.
	SourceRanges SourceRangesPolicy
	// ExternalIPs switches spec.externalIPs on (G12, KEP-5707).
	ExternalIPs bool
	// ExternalIPsAllowed, when not empty, are the only prefixes that
	// spec.externalIPs may be in. ExternalIPsDenied are refused in any case.
	ExternalIPsAllowed, ExternalIPsDenied []netip.Prefix
	// LoadBalancerIPsAllowed and LoadBalancerIPsDenied are the same for
	// status.loadBalancer.ingress[].ip.
	LoadBalancerIPsAllowed, LoadBalancerIPsDenied []netip.Prefix
	// ServiceCIDRs are the prefixes of ClusterIPs: no externalIP or load
	// balancer IP may be in them (CVE-2020-8554). Empty knows none.
	ServiceCIDRs []netip.Prefix
	// IsPodAddress tells whether an address is known to be a pod's own; no
	// externalIP or load balancer IP may be one. It must not answer yes for
	// pods in the host's network, whose addresses are those of nodes. Nil
	// knows none.
	IsPodAddress func(netip.Addr) bool
	// GuardExempt are prefixes that the guards by ServiceCIDRs and by
	// IsPodAddress do not look at.
	GuardExempt []netip.Prefix
	// RefuseNodeAddresses refuses an externalIP or load balancer IP that is
	// an address of this node. Otherwise such a one is served, on the
	// Service's own port only.
	RefuseNodeAddresses bool
	// ProtectedNodePorts are ports that no externalIP or load balancer IP
	// equal to an address of this node may have: they are the node's own.
	// Whoever serves ports on the node adds them.
	ProtectedNodePorts []uint16
	// ServiceProxyName, when not empty, is the value of the label
	// service.kubernetes.io/service-proxy-name of the Services to handle;
	// otherwise those without the label are (A3, KEP-2447).
	ServiceProxyName string
	// Flags are the flags of every translation.
	Flags types.TranslationFlags
}

// DefaultOptions returns what a cluster without special wishes needs.
func DefaultOptions() Options {
	return Options{
		NodePortAddresses:  NodePortAddresses{Primary: true},
		SourceRanges:       SourceRangesRefuse,
		ExternalIPs:        true,
		ProtectedNodePorts: DefaultProtectedNodePorts(),
		// Misses follow the FIB, and other ports of a node's address stay the
		// node's (vpp-facts C3).
		Flags: types.FlagNoClient,
	}
}

// DefaultProtectedNodePorts returns the ports of SSH, BGP, the API server, the
// kubelet and the health check of the service proxy.
func DefaultProtectedNodePorts() []uint16 { return []uint16{22, 179, 6443, 10250, 10256} }

// Validate reports every wrong setting at once.
func (o *Options) Validate() error {
	var errs []error
	prefixes := func(flag string, list []netip.Prefix) {
		for _, p := range list {
			if !p.IsValid() || p.Addr().Is4In6() {
				errs = append(errs, fmt.Errorf("--%s: %s: wanted a prefix such as 192.0.2.0/24 or 2001:db8::/64", flag, p))
			}
		}
	}
	if _, err := ParseSourceRangesPolicy(string(o.SourceRanges)); err != nil {
		errs = append(errs, fmt.Errorf("--%s: %w", FlagSourceRanges, err))
	}
	prefixes(FlagNodePortAddresses, o.NodePortAddresses.CIDRs)
	prefixes(FlagExternalIPsAllowed, o.ExternalIPsAllowed)
	prefixes(FlagExternalIPsDenied, o.ExternalIPsDenied)
	prefixes(FlagLoadBalancerIPsAllowed, o.LoadBalancerIPsAllowed)
	prefixes(FlagLoadBalancerIPsDenied, o.LoadBalancerIPsDenied)
	prefixes(FlagServiceCIDRs, o.ServiceCIDRs)
	prefixes(FlagGuardExempt, o.GuardExempt)
	for _, p := range o.ServiceCIDRs {
		if p.Bits() == 0 {
			errs = append(errs, fmt.Errorf("--%s: %s: is every address there is", FlagServiceCIDRs, p))
		}
	}
	if slices.Contains(o.ProtectedNodePorts, 0) {
		errs = append(errs, fmt.Errorf("--%s: 0 is not in 1-65535", FlagProtectedNodePorts))
	}
	if err := (Selection{o.ServiceProxyName}).Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--%s: %w", FlagServiceProxyName, err))
	}
	const known = types.FlagAllocPort | types.FlagNoReturnSession | types.FlagNoClient
	if o.Flags&^known != 0 {
		errs = append(errs, fmt.Errorf("translation flags: %#x has bits beyond %#x", uint8(o.Flags), uint8(known)))
	}
	return errors.Join(errs...)
}
