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
	// real: it is an address of this node.
	real bool
}

// family is one IP family of a Service. The families are as two Services that
// know nothing of each other; one without a cluster IP does not exist (A5).
type family struct {
	v6        bool
	clusterIP vip
	// nodes are the addresses that serve node ports.
	nodes []vip
	// outside are the load balancer and external IPs, each address once.
	outside []vip
}

// families returns the families of the Service, with the addresses of each that
// it may have.
func (r *resolver) families() []family {
	out := r.clusterIPs()
	for i := range out {
		f := &out[i]
		for _, a := range r.in.Options.NodePortAddresses.of(&r.in.Node, f.v6) {
			f.nodes = append(f.nodes, vip{addr: a, kind: model.KindNodePort, real: true})
		}
	}
	restricted := r.restrictedAddresses(out)
	take := func(kind model.Kind, text, field string) {
		text = strings.TrimSpace(text)
		if text == "" { // A7: left blank; G2: a load balancer with a hostname only
			return
		}
		ip, ok := parseIP(text)
		if !ok { // A7: this one only
			r.problems.add(model.ReasonAddressRefused, field, "%s is not an IP address; it is not served", quote(text))
			return
		}
		f := familyOf(out, ip)
		switch {
		case f == nil: // A5, G3: a load balancer may well have more families than the Service
			if kind == model.KindExternalIP {
				r.problems.add(model.ReasonAddressRefused, field,
					"%s is not of an IP family of the Service (spec.ipFamilies); it is not served", ip)
			}
		case ip == f.clusterIP.addr: // L10: it is served as the cluster IP that it is
		case restricted[ip]: // the Problem is at the load balancer IP
		case !r.admits(kind, ip, field):
		case !slices.ContainsFunc(f.outside, func(v vip) bool { return v.addr == ip }): // L10
			f.outside = append(f.outside, vip{ip, kind, field, r.in.Node.Has(ip)})
		}
	}
	// Load balancer IPs first: theirs is the kind of an address that is both (L10).
	for i, ing := range r.loadBalancerIngress() {
		if r.intercepts(&ing, i) {
			take(model.KindLoadBalancer, ing.IP, fieldAt("status.loadBalancer.ingress", i, "ip"))
		}
	}
	for i, text := range r.externalIPs() {
		take(model.KindExternalIP, text, fieldAt("spec.externalIPs", i, ""))
	}
	return out
}

// familyOf returns the family that an address is of, or nil if the Service does
// not have it.
func familyOf(families []family, ip netip.Addr) *family {
	i := slices.IndexFunc(families, func(f family) bool { return f.v6 == ip.Is6() })
	if i < 0 {
		return nil
	}
	return &families[i]
}

// clusterIPs returns a family for each cluster IP: clusterIPs[i] is of
// ipFamilies[i] (A5). Objects of older versions may lack ipFamilies, or have
// only clusterIP; then the address itself says its family (A6).
func (r *resolver) clusterIPs() []family {
	spec := &r.in.Service.Spec
	list, fieldOf := spec.ClusterIPs, func(i int) string { return fieldAt("spec.clusterIPs", i, "") }
	if len(list) == 0 {
		list, fieldOf = []string{spec.ClusterIP}, func(int) string { return "spec.clusterIP" }
	}
	var out []family
	for i, text := range list {
		refuse := func(format string, args ...any) {
			r.problems.add(model.ReasonAddressRefused, fieldOf(i), format+"; it is not served", args...)
		}
		ip, ok := parseIP(strings.TrimSpace(text))
		if !ok {
			refuse("%s is not an IP address", quote(text))
			continue
		}
		if len(spec.IPFamilies) > 0 && (i >= len(spec.IPFamilies) || spec.IPFamilies[i] != familyName(ip.Is6())) {
			refuse("%s: wanted %s in %s", ip, familyName(ip.Is6()), fieldAt("spec.ipFamilies", i, ""))
			continue
		}
		if why := Special(ip); why != "" {
			refuse("%s is %s", ip, why)
			continue
		}
		if familyOf(out, ip) != nil {
			refuse("%s is a second address of its family", ip)
			continue
		}
		out = append(out, family{
			v6:        ip.Is6(),
			clusterIP: vip{ip, model.KindClusterIP, fieldOf(i), r.in.Node.Has(ip)},
		})
	}
	return out
}

func familyName(v6 bool) corev1.IPFamily {
	if v6 {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// loadBalancerIngress returns what load balancers reported. It is authoritative
// and may change at any time (G5); loadBalancerIP and loadBalancerClass are for
// those who write it (A11). What is left of it after the type changed is
// nobody's any more, and the API server would not let it be written.
func (r *resolver) loadBalancerIngress() []corev1.LoadBalancerIngress {
	if r.in.Service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	return r.in.Service.Status.LoadBalancer.Ingress
}

// intercepts tells whether traffic to a load balancer IP is to be handled here
// (G1, KEP-1860). The ports listed at the address only report errors (G4).
func (r *resolver) intercepts(ing *corev1.LoadBalancerIngress, i int) bool {
	switch {
	case ing.IPMode == nil || *ing.IPMode == corev1.LoadBalancerIPModeVIP:
		return true
	case *ing.IPMode != corev1.LoadBalancerIPModeProxy && ing.IP != "":
		r.problems.add(model.ReasonUnsupported, fieldAt("status.loadBalancer.ingress", i, "ipMode"),
			"%s: accepted values are VIP, Proxy; the address is not served", quote(string(*ing.IPMode)))
	}
	return false
}

// externalIPs returns the external IPs of the Service, of any type (G11), unless
// they are switched off (G12).
func (r *resolver) externalIPs() []string {
	list := r.in.Service.Spec.ExternalIPs
	if len(list) > 0 && !r.in.Options.ExternalIPs {
		r.problems.add(model.ReasonAddressRefused, "spec.externalIPs",
			"external IPs are switched off (--%s); none is served", FlagExternalIPs)
		return nil
	}
	return list
}
