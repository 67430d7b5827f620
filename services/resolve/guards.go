// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"calico-vpp-services/services/model"
)

// admits tells whether a Service has a right to a load balancer or external IP,
// which somebody wrote down without asking the API server (scenario 15,
// CVE-2020-8554). If not, a Problem names address, rule and flag.
func (r *resolver) admits(kind model.Kind, ip netip.Addr, field string) bool {
	why := r.in.Options.refuses(kind, ip, r.in.Node.Has(ip))
	if why != "" {
		r.problems.add(model.ReasonAddressRefused, field, "%s %s; it is not served", ip, why)
	}
	return why == ""
}

// refuses says why an address must not be served at all, or nothing.
func (o *Options) refuses(kind model.Kind, ip netip.Addr, ofNode bool) string {
	in := func(list []netip.Prefix) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(ip) })
	}
	allowed, denied := o.ExternalIPsAllowed, o.ExternalIPsDenied
	allowedName, deniedName := FlagExternalIPsAllowed, FlagExternalIPsDenied
	if kind == model.KindLoadBalancer {
		allowed, denied = o.LoadBalancerIPsAllowed, o.LoadBalancerIPsDenied
		allowedName, deniedName = FlagLoadBalancerIPsAllowed, FlagLoadBalancerIPsDenied
	}
	why := Special(ip)
	switch {
	case why != "":
		return "is " + why + ", which clients elsewhere cannot reach"
	case in(denied):
		return fmt.Sprintf("is in a denied prefix (--%s)", deniedName)
	case len(allowed) > 0 && !in(allowed):
		return fmt.Sprintf("is in no allowed prefix (--%s)", allowedName)
	case ofNode && o.RefuseNodeAddresses:
		return fmt.Sprintf("is an address of this node (--%s)", FlagRefuseNodeAddresses)
	case in(o.GuardExempt):
		return ""
	case in(o.ServiceCIDRs):
		return fmt.Sprintf("is in the service CIDRs, whose addresses are the API server's to give out (--%s, --%s)",
			FlagServiceCIDRs, FlagGuardExempt)
	case !ofNode && o.IsPodAddress != nil && o.IsPodAddress(ip):
		return fmt.Sprintf("is the address of a pod (--%s)", FlagGuardExempt)
	}
	return ""
}

// admitsPort tells whether a load balancer or external IP may have a port: on an
// address of the node, some are the node's own (L5).
func (r *resolver) admitsPort(v *vip, port uint16) bool {
	if !v.real || !slices.Contains(r.in.Options.ProtectedNodePorts, port) {
		return true
	}
	r.problems.add(model.ReasonAddressRefused, v.field,
		"%s is an address of this node, and port %d of it is protected (--%s); it is not served",
		v.addr, port, FlagProtectedNodePorts)
	return false
}

// restrictedAddresses returns the addresses that must not be served because they
// are load balancer IPs whose clients the Service restricts, which cnat cannot
// do (G6). One that is an external IP too is not served for that either: in
// kube-proxy the ranges apply to the address, whatever field it is from (L10).
// Node ports are never restricted (F4).
func (r *resolver) restrictedAddresses(families []family) map[netip.Addr]bool {
	var v4, v6 sourceRanges
	for i, text := range r.in.Service.Spec.LoadBalancerSourceRanges {
		p, ok := parseCIDR(strings.TrimSpace(text))
		if !ok {
			r.problems.add(model.ReasonAddressRefused, fieldAt("spec.loadBalancerSourceRanges", i, ""),
				"%s is not a CIDR such as 192.0.2.0/24; it is ignored", quote(text))
			continue
		}
		if p.Addr().Is6() {
			v6.add(p)
		} else {
			v4.add(p)
		}
	}
	out := map[netip.Addr]bool{}
	for i, ing := range r.loadBalancerIngress() {
		ip, ok := parseIP(strings.TrimSpace(ing.IP))
		if !ok || familyOf(families, ip) == nil || !r.intercepts(&ing, i) {
			continue
		}
		ranges := v4
		if ip.Is6() {
			ranges = v6
		}
		if !ranges.restrict() {
			continue
		}
		consequence := "it is served to everybody"
		if r.in.Options.SourceRanges != SourceRangesIgnore {
			out[ip] = true
			consequence = "it is not served"
		}
		r.problems.add(model.ReasonUnsupported, "spec.loadBalancerSourceRanges",
			"VPP cannot restrict the clients of load balancer IP %s; %s (--%s: refuse or ignore)",
			ip, consequence, FlagSourceRanges)
	}
	return out
}

// sourceRanges are the ranges of one family in spec.loadBalancerSourceRanges.
type sourceRanges struct{ some, all bool }

func (s *sourceRanges) add(p netip.Prefix) {
	s.some = true
	s.all = s.all || p.Bits() == 0
}

// restrict tells whether the ranges keep anybody out: none of the family, or one
// that is everything, is no restriction (G7).
func (s *sourceRanges) restrict() bool { return s.some && !s.all }
