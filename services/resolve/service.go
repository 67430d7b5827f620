// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink/types"
)

// labelServiceProxyName gives a Service to another proxy (A3, KEP-2447).
const labelServiceProxyName = "service.kubernetes.io/service-proxy-name"

// Input is the state that one Service is resolved from.
type Input struct {
	Service *corev1.Service
	// Slices are the slices of the Service in any order; those of others are
	// ignored.
	Slices  []*discoveryv1.EndpointSlice
	Node    Node
	Options Options
}

// Result is what one Service asks for.
type Result struct {
	// Claims are sorted by key, and there is one for a key.
	Claims []model.Claim
	// Problems are sorted, and each is there once.
	Problems []model.Problem
	// Health is the health check that the Service wants; nil for none.
	Health *HealthCheck
	// NoLocalInternal and NoLocalExternal count the Service ports with a Local
	// policy that have usable endpoints elsewhere and none here (M6).
	NoLocalInternal, NoLocalExternal int
}

// HealthCheck is what a load balancer asks about a Service (J1 to J3).
type HealthCheck struct {
	Port uint16
	// LocalEndpoints is the number of distinct ready addresses on this node.
	LocalEndpoints int
	// V4 and V6 are the families of the Service.
	V4, V6 bool
}

// Service resolves one Service.
func Service(in Input) Result {
	var res Result
	if in.Service == nil || skip(in.Service, in.Options.ServiceProxyName) {
		return res
	}
	r := resolver{in: &in, claims: map[types.Key]model.Claim{}}
	r.run(&res)
	res.Problems = r.problems.sorted()
	res.Claims = slices.SortedFunc(maps.Values(r.claims), func(a, b model.Claim) int { return a.Key().Compare(b.Key()) })
	return res
}

// skip tells whether a Service is none of ours (A1, A2, A3).
func skip(svc *corev1.Service, proxyName string) bool {
	name, labelled := svc.Labels[labelServiceProxyName]
	switch {
	case labelled && (proxyName == "" || name != proxyName), !labelled && proxyName != "":
		return true
	case svc.Spec.Type == corev1.ServiceTypeExternalName:
		return true
	}
	ip := svc.Spec.ClusterIP
	if ip == "" && len(svc.Spec.ClusterIPs) > 0 {
		ip = svc.Spec.ClusterIPs[0]
	}
	return ip == "" || ip == corev1.ClusterIPNone
}

type resolver struct {
	in       *Input
	problems problemList
	claims   map[types.Key]model.Claim
	balance  balancing
}

func (r *resolver) run(res *Result) {
	svc := r.in.Service
	own := clusterIPs(svc, &r.problems)
	families := map[bool]bool{}
	for _, v := range own {
		families[v.addr.Is6()] = true
	}
	external := externalVIPs(r.in, families, own, &r.problems)
	r.balance = balancingOf(svc, &r.problems)
	eps := collect(r.in, &r.problems)
	for i := range svc.Spec.Ports {
		p := &svc.Spec.Ports[i]
		port, proto, ok := r.portNumber(i, p)
		if !ok {
			continue
		}
		for _, v := range own { // one cluster IP for each family
			r.port(res, i, p, port, proto, v, external, eps)
		}
	}
	if svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.HealthCheckNodePort > 0 && svc.Spec.HealthCheckNodePort <= 65535 &&
		svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
		res.Health = &HealthCheck{
			Port: uint16(svc.Spec.HealthCheckNodePort), LocalEndpoints: localReady(eps, families),
			V4: families[false], V6: families[true],
		}
	}
}

// localReady counts distinct ready addresses of this node over all ports (J3).
func localReady(eps endpoints, families map[bool]bool) int {
	seen := map[netip.Addr]bool{}
	for key, list := range eps {
		for _, e := range list {
			if e.local && e.ready && families[key.v6] {
				seen[e.addr.Addr()] = true
			}
		}
	}
	return len(seen)
}

// portNumber checks a Service port by itself (A12).
func (r *resolver) portNumber(i int, p *corev1.ServicePort) (uint16, types.Protocol, bool) {
	proto, err := types.ParseProtocol(string(p.Protocol))
	if err != nil {
		r.problems.add(model.ReasonPortRefused, field("spec.ports[%d].protocol", i), "%s; the port is not served", err)
		return 0, 0, false
	}
	if p.Port < 1 || p.Port > 65535 {
		r.problems.add(model.ReasonPortRefused, field("spec.ports[%d].port", i), "%d is not in 1-65535; the port is not served", p.Port)
		return 0, 0, false
	}
	return uint16(p.Port), proto, true
}

// port makes the claims of one Service port in the family of its cluster IP.
func (r *resolver) port(res *Result, i int, p *corev1.ServicePort, port uint16, proto types.Protocol, own vip, external []vip, eps endpoints) {
	svc, v6 := r.in.Service, own.addr.Is6()
	nodePort := r.nodePort(i, p)
	outside := filterVIPs(external, v6)
	accessible := nodePort != 0 || len(outside) > 0
	internalLocal := svc.Spec.InternalTrafficPolicy != nil && *svc.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal // D11
	externalLocal := accessible && svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal                             // D10
	s := categorise(eps[portKey{v6, p.Name, proto}], &r.in.Node, !internalLocal || accessible, internalLocal || externalLocal)

	internal := s.choose(s.cluster)
	if internalLocal {
		internal = s.choose(s.local) // D2, D3
		if len(s.local) == 0 && s.any {
			res.NoLocalInternal++
		}
	}
	r.claim(p, port, proto, own, internal)

	// One set for all clients of an external address, for cnat has none by
	// source: the local one if there is one. Without, outsiders must not be served
	// at a node port; other addresses keep serving pods and the host, and
	// health port and withdrawn route steer outsiders away (D4 to D7).
	nodeSet, outsideSet := s.choose(s.cluster), s.choose(s.cluster)
	if externalLocal {
		nodeSet = s.choose(s.local)
		if len(s.local) > 0 {
			outsideSet = nodeSet
		} else if s.any {
			res.NoLocalExternal++
		}
	}
	if nodePort != 0 {
		for _, a := range r.in.Options.NodePortAddresses.of(&r.in.Node, v6) {
			r.claim(p, nodePort, proto, vip{a, model.KindNodePort, ""}, nodeSet)
		}
	}
	for _, v := range outside {
		if r.in.Node.has(v.addr) && r.in.Options.protects(port) {
			r.problems.add(model.ReasonAddressRefused, v.field,
				"%s port %d is a port of this node's own (setting protectedNodePorts); it is not served", v.addr, port)
			continue
		}
		r.claim(p, port, proto, v, outsideSet)
	}
}

// nodePort returns the node port of a Service port, whatever the allocate
// flag says (F6); 0 for none.
func (r *resolver) nodePort(i int, p *corev1.ServicePort) uint16 {
	if p.NodePort < 0 || p.NodePort > 65535 {
		r.problems.add(model.ReasonPortRefused, field("spec.ports[%d].nodePort", i), "%d is not in 1-65535; it is not served", p.NodePort)
		return 0
	}
	return uint16(p.NodePort)
}

func filterVIPs(list []vip, v6 bool) []vip {
	var out []vip
	for _, v := range list {
		if v.addr.Is6() == v6 {
			out = append(out, v)
		}
	}
	return out
}

// claim notes one claim. Of several on one key the highest kind counts (L10), and
// of Service ports that collide the first.
func (r *resolver) claim(p *corev1.ServicePort, port uint16, proto types.Protocol, v vip, c choice) {
	svc := r.in.Service
	e := types.CnatTranslateEntry{
		Proto: proto, IP: v.addr, Port: port,
		Backends: c.backends(r.balance.noNAT),
		// A property of the address, whichever field it is from (vpp-facts C2).
		IsRealIP: r.in.Node.has(v.addr),
		LBType:   r.balance.lbType,
		Hash:     r.balance.hash,
		Flags:    r.in.Options.Flags,
	}
	e.Normalize()
	if old, twice := r.claims[e.Key()]; twice && old.Kind.Rank() <= v.kind.Rank() {
		return
	}
	r.claims[e.Key()] = model.Claim{
		Service: model.ServiceIDOf(svc.Namespace, svc.Name), UID: string(svc.UID), Created: svc.CreationTimestamp.Time,
		Kind: v.kind, Entry: e, Unserved: c.unserved, PortName: p.Name,
	}
}
