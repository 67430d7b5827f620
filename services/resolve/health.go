// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"calico-vpp-services/services/model"
)

// HealthCheck is what a load balancer may ask this node about a Service: an
// HTTP listener on spec.healthCheckNodePort (J1, J2).
type HealthCheck struct {
	Port uint16
	// Families has one element for each family of the Service, which get
	// listeners of their own (J4).
	Families []HealthFamily
}

// HealthFamily is the listener of one family.
type HealthFamily struct {
	Family corev1.IPFamily
	// LocalEndpoints is how many distinct addresses of ready endpoints are on
	// this node, over all ports and slices; those that terminate are
	// not among them, even while they are served (J3).
	LocalEndpoints int
	// Addresses are where to listen: the unspecified one for every address of
	// the family. There are none when this node has none of those that node
	// ports are restricted to; then nobody listens (J4).
	Addresses []netip.Addr
}

// health returns the health check that the Service wants, or nil (J1).
func (r *resolver) health(families []family, eps endpoints) *HealthCheck {
	spec := &r.in.Service.Spec
	if spec.Type != corev1.ServiceTypeLoadBalancer || !r.externalLocal || spec.HealthCheckNodePort == 0 || len(families) == 0 {
		return nil
	}
	port, ok := portNumber(spec.HealthCheckNodePort)
	if !ok {
		r.problems.add(model.ReasonPortRefused, "spec.healthCheckNodePort", "%d is not in 1-65535; there is no health check",
			spec.HealthCheckNodePort)
		return nil
	}
	h := &HealthCheck{Port: port}
	for _, f := range families {
		hf := HealthFamily{Family: familyName(f.v6), LocalEndpoints: localReady(eps, f.v6)}
		switch {
		case !r.in.Options.NodePortAddresses.everything(f.v6):
			for _, v := range f.nodes {
				hf.Addresses = append(hf.Addresses, v.addr)
			}
		case f.v6:
			hf.Addresses = []netip.Addr{netip.IPv6Unspecified()}
		default:
			hf.Addresses = []netip.Addr{netip.IPv4Unspecified()}
		}
		h.Families = append(h.Families, hf)
	}
	return h
}

// localReady counts the distinct addresses of ready endpoints on this node (J3).
func localReady(eps endpoints, v6 bool) int {
	seen := map[netip.Addr]bool{}
	for key, list := range eps {
		if key.v6 != v6 {
			continue
		}
		for i := range list {
			if list[i].local && list[i].ready {
				seen[list[i].addr.Addr()] = true
			}
		}
	}
	return len(seen)
}
