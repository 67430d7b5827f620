// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink/types"
)

// Input is the state that one Service is resolved from. Nothing of it is
// modified.
type Input struct {
	Service *corev1.Service
	// Slices are the slices of the Service, in any order; those of others are
	// ignored (B16, B18), and so are nil ones.
	Slices  []*discoveryv1.EndpointSlice
	Node    Node
	Options Options
}

// Result is what one Service asks for. Claims may share the arrays of their
// backends, so they must not be modified.
type Result struct {
	// Claims are sorted by key, and there is one for a key. An entry with
	// backends passes types.CnatTranslateEntry.Validate.
	Claims []model.Claim
	// Problems are sorted, each is there once, and there are at most some
	// twenty for one reason.
	Problems []model.Problem
	// Health is the health check that the Service wants; nil for none.
	Health *HealthCheck
}

// Service resolves one Service. A Service that is not ours to handle has an empty
// result, as has none at all.
func Service(in Input) Result {
	r := &resolver{in: &in}
	if in.Service == nil || !r.handles() {
		return Result{Problems: r.problems.sorted()}
	}
	r.readPolicies()
	families := r.families()
	r.balance = r.balancing()
	eps := r.readSlices(families)
	for i := range in.Service.Spec.Ports {
		r.port(i, families, eps)
	}
	health := r.health(families, eps)
	claims := r.sortedClaims()
	return Result{Claims: claims, Problems: r.problems.sorted(), Health: health}
}

// resolver is the work on one Service.
type resolver struct {
	in       *Input
	problems problemList
	balance  balancing
	// internalLocal and externalLocal are the traffic policies.
	internalLocal, externalLocal bool
	claims                       []portClaim
}

// handles tells whether the Service is ours. Which fields it has decides
// about everything else, not its type (A8, G11, G13); loadBalancerIngress and health
// are the exceptions.
func (r *resolver) handles() bool {
	svc := r.in.Service
	if !r.selection().Selects(svc) {
		return false // A3
	}
	if svc.Spec.Type == corev1.ServiceTypeExternalName {
		return false // A2
	}
	ip := svc.Spec.ClusterIP
	if ip == "" && len(svc.Spec.ClusterIPs) > 0 {
		ip = svc.Spec.ClusterIPs[0]
	}
	if ip == "" { // A1; it has not come from an API server
		r.problems.add(model.ReasonAddressRefused, "spec.clusterIP",
			"missing; wanted an address, or None for a headless Service; nothing of the Service is served")
	}
	return ip != "" && ip != corev1.ClusterIPNone
}

// selection says which Services are ours.
func (r *resolver) selection() Selection {
	return Selection{ProxyName: r.in.Options.ServiceProxyName}
}

// readPolicies reads the traffic policies. None given means Cluster (D11), as
// does one that is not known.
func (r *resolver) readPolicies() {
	spec := &r.in.Service.Spec
	read := func(policy, field string) bool {
		switch policy {
		case "Local":
			return true
		case "", "Cluster":
		default:
			r.problems.add(model.ReasonUnsupported, field, "%s: accepted values are Cluster, Local; Cluster is used", quote(policy))
		}
		return false
	}
	if p := spec.InternalTrafficPolicy; p != nil {
		r.internalLocal = read(string(*p), "spec.internalTrafficPolicy")
	}
	r.externalLocal = read(string(spec.ExternalTrafficPolicy), "spec.externalTrafficPolicy")
}

// portNumber converts a port of the API.
func portNumber(n int32) (uint16, bool) {
	return uint16(n), n >= 1 && n <= 65535
}

// port makes the claims of Service port i (A12, E7). A port that cannot be
// served leaves the others alone.
func (r *resolver) port(i int, families []family, eps endpoints) {
	p := &r.in.Service.Spec.Ports[i]
	proto, err := types.ParseProtocol(string(p.Protocol))
	if err != nil {
		r.problems.add(model.ReasonPortRefused, fieldAt("spec.ports", i, "protocol"), "%s; the port is not served", err)
		return
	}
	port, ok := portNumber(p.Port)
	if !ok {
		r.problems.add(model.ReasonPortRefused, fieldAt("spec.ports", i, "port"), "%d is not in 1-65535; the port is not served", p.Port)
		return
	}
	// F6, F9: a node port is one that has a number, whatever allocated it.
	nodePort, ok := portNumber(p.NodePort)
	if !ok && p.NodePort != 0 {
		r.problems.add(model.ReasonPortRefused, fieldAt("spec.ports", i, "nodePort"), "%d is not in 1-65535; it is not served", p.NodePort)
	}
	if !ok {
		nodePort = 0
	}
	for j := range families {
		f := &families[j]
		s := categorise(eps[portKey{f.v6, p.Name, proto}])
		r.claim(i, proto, port, &f.clusterIP, s.choose(r.internalLocal)) // D1, D2
		if nodePort != 0 {
			for k := range f.nodes { // F1, F5, F11
				r.claim(i, proto, nodePort, &f.nodes[k], s.choose(r.externalLocal))
			}
		}
		for k := range f.outside { // D4, D5
			if v := &f.outside[k]; r.admitsPort(v, port) {
				r.claim(i, proto, port, v, s.chooseOrCluster(r.externalLocal))
			}
		}
	}
}
