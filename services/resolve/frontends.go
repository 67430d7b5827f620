// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"calico-vpp-services/services/model"
)

// vip is an address at which a Service is to be reached.
type vip struct {
	addr netip.Addr
	kind model.Kind
	// field is where the object says so.
	field string
}

// clusterIPs returns the cluster IP of each family that the Service has (A5).
func clusterIPs(svc *corev1.Service, problems *problemList) []vip {
	var out []vip
	add := func(s, at string) {
		ip, ok := parseIP(s)
		switch {
		case !ok || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLoopback():
			problems.add(model.ReasonAddressRefused, at, "%q is not an address that a Service can have", s)
		case slices.ContainsFunc(out, func(v vip) bool { return v.addr.Is6() == ip.Is6() }):
			problems.add(model.ReasonAddressRefused, at, "%q is a second address of its family; it is not served", s)
		default:
			out = append(out, vip{ip, model.KindClusterIP, at})
		}
	}
	if len(svc.Spec.ClusterIPs) == 0 || len(svc.Spec.IPFamilies) == 0 { // A6
		add(svc.Spec.ClusterIP, "spec.clusterIP")
		return out
	}
	for i, s := range svc.Spec.ClusterIPs {
		// clusterIPs[i] is of ipFamilies[i]; one without the other is nothing.
		if i >= len(svc.Spec.IPFamilies) {
			break
		}
		at := field("spec.clusterIPs[%d]", i)
		if ip, ok := parseIP(s); ok && ip.Is6() != (svc.Spec.IPFamilies[i] == corev1.IPv6Protocol) {
			problems.add(model.ReasonAddressRefused, at, "%q is not of the family in spec.ipFamilies[%d], %s; it is not served", s, i, svc.Spec.IPFamilies[i])
			continue
		}
		add(s, at)
	}
	return out
}

// externalVIPs returns the load balancer and external IPs of a Service that
// its families and the configuration allow, before ports are looked at.
func externalVIPs(in *Input, families map[bool]bool, own []vip, problems *problemList) []vip {
	svc := in.Service
	var out []vip
	take := func(s string, kind model.Kind, at string) {
		if strings.TrimSpace(s) == "" {
			return // A7: blank ones are no mistake
		}
		ip, ok := parseIP(strings.TrimSpace(s))
		if !ok {
			problems.add(model.ReasonAddressRefused, at, "%q is not an IP address; it is not served", s)
			return
		}
		if !families[ip.Is6()] {
			return // A5: a family without cluster IP has nothing
		}
		if slices.ContainsFunc(own, func(v vip) bool { return v.addr == ip }) {
			return // L10: it is served as the ClusterIP that it is
		}
		if why := in.Options.refuses(ip, kind); why != "" {
			problems.add(model.ReasonAddressRefused, at, "%s %s; it is not served", ip, why)
			return
		}
		if !slices.ContainsFunc(out, func(v vip) bool { return v.addr == ip }) {
			out = append(out, vip{ip, kind, at})
		}
	}
	restricted := restrictedAddresses(in, families, problems)
	if svc.Spec.Type == corev1.ServiceTypeLoadBalancer {
		for i, ing := range svc.Status.LoadBalancer.Ingress {
			if ing.IPMode != nil && *ing.IPMode == corev1.LoadBalancerIPModeProxy {
				continue // G1: traffic must really reach the load balancer
			}
			if ip, ok := parseIP(ing.IP); ok && restricted[ip] {
				continue
			}
			take(ing.IP, model.KindLoadBalancer, field("status.loadBalancer.ingress[%d].ip", i)) // G2: hostname only is blank
		}
	}
	if len(svc.Spec.ExternalIPs) > 0 && !in.Options.ExternalIPs {
		problems.add(model.ReasonAddressRefused, "spec.externalIPs", "external IPs are switched off (setting externalIPs); they are not served")
		return out
	}
	for i, s := range svc.Spec.ExternalIPs {
		at := field("spec.externalIPs[%d]", i)
		if ip, ok := parseIP(strings.TrimSpace(s)); ok && restricted[ip] {
			problems.add(model.ReasonAddressRefused, at, "%s is also a load balancer IP whose source ranges cannot be kept; it is not served", ip)
			continue
		}
		take(s, model.KindExternalIP, at)
	}
	return out
}

// restrictedAddresses returns the load balancer IPs that must not be served,
// because the Service restricts who may use them, which cnat cannot do (G6).
func restrictedAddresses(in *Input, families map[bool]bool, problems *problemList) map[netip.Addr]bool {
	if in.Options.SourceRanges == SourceRangesIgnore || in.Service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	restricted := sourceRestricted(in.Service, problems)
	out := map[netip.Addr]bool{}
	for i, ing := range in.Service.Status.LoadBalancer.Ingress {
		ip, ok := parseIP(ing.IP)
		if !ok || !restricted[ip.Is6()] || !families[ip.Is6()] {
			continue
		}
		out[ip] = true
		problems.add(model.ReasonUnsupported, field("status.loadBalancer.ingress[%d].ip", i),
			"%s is not served: spec.loadBalancerSourceRanges cannot be kept by VPP; set sourceRanges to ignore to serve it to everybody", ip)
	}
	return out
}

// sourceRestricted tells for each family whether its load balancer IPs are
// restricted: there are ranges of the family and none is everything (G7).
func sourceRestricted(svc *corev1.Service, problems *problemList) map[bool]bool {
	some, all := map[bool]bool{}, map[bool]bool{}
	for i, s := range svc.Spec.LoadBalancerSourceRanges {
		p, err := netip.ParsePrefix(strings.TrimSpace(s))
		if err != nil {
			problems.add(model.ReasonAddressRefused, field("spec.loadBalancerSourceRanges[%d]", i), "%q is not a CIDR; it is ignored", s)
			continue
		}
		some[p.Addr().Is6()] = true
		all[p.Addr().Is6()] = all[p.Addr().Is6()] || p.Bits() == 0
	}
	return map[bool]bool{false: some[false] && !all[false], true: some[true] && !all[true]}
}

// refuses says why a Service has no right to an address that its author or a
// load balancer wrote down, or "" (scenario 15, CVE-2020-8554).
func (o *Options) refuses(ip netip.Addr, kind model.Kind) string {
	contains := func(list []netip.Prefix) bool {
		return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(ip) })
	}
	switch {
	case ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast() || ip.IsLinkLocalUnicast():
		return "is not an address that clients can reach"
	case kind == model.KindExternalIP && len(o.ExternalIPsAllowed) > 0 && !contains(o.ExternalIPsAllowed):
		return "is not in the allowed prefixes (setting externalIPsAllowed)"
	case contains(o.GuardExempt):
		return ""
	case contains(o.ServiceCIDRs):
		return "is inside the service CIDRs, whose addresses only the API server gives out (settings serviceCIDRs, guardExempt)"
	case o.IsPodAddress != nil && o.IsPodAddress(ip):
		return "is the address of a pod (setting guardExempt)"
	}
	return ""
}

// protects tells whether port is the node's own on its own addresses.
func (o *Options) protects(port uint16) bool { return slices.Contains(o.ProtectedNodePorts, port) }
