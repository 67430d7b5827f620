// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"calico-vpp-services/services"
)

// TestM6NoLocalEndpoints counts ports under a Local policy, usable endpoints
// elsewhere and none here, whatever number of addresses a port has.
func TestM6NoLocalEndpoints(t *testing.T) {
	on := func(s *discoveryv1.EndpointSlice, node string) *discoveryv1.EndpointSlice {
		for i := range s.Endpoints {
			s.Endpoints[i].NodeName = &node
		}
		return s
	}
	internal := func(s *corev1.Service) {
		local := corev1.ServiceInternalTrafficPolicyLocal
		s.Spec.InternalTrafficPolicy = &local
	}
	externally := func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal }
	a := synced(t, newSim(t))
	check := func(what string, want services.NoLocal) {
		t.Helper()
		a.settle()
		if got := a.server.Status().NoLocal; got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	in := service("in", "10.96.0.10", 1, internal)
	out := service("out", "10.96.0.20", 2, nodePort(30080), loadBalancer("198.51.100.1"), external("198.51.100.2"), externally)
	a.apply(in, out)
	check("nothing anywhere is refused, and not counted", services.NoLocal{})
	a.apply(on(slice("in-1", "in", "10.244.2.1"), "node-b"), on(slice("out-1", "out", "10.244.2.2"), "node-b"))
	check("all elsewhere", services.NoLocal{InternalV4: 1, ExternalV4: 1})
	a.apply(on(slice("out-1", "out", "10.244.1.2"), "node-a"))
	check("one here", services.NoLocal{InternalV4: 1})
	a.delete(in)
	check("deleted", services.NoLocal{})
	six := service("six", "fd00:96::10", 3, internal, func(s *corev1.Service) {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol}
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "b", Protocol: corev1.ProtocolUDP, Port: 80})
		s.Spec.Ports[0].Name = "a"
	})
	pods := on(slice("six-1", "six", "fd00:244::1"), "node-b")
	pods.AddressType = discoveryv1.AddressTypeIPv6
	udp, nameA, nameB := corev1.ProtocolUDP, "a", "b"
	pods.Ports[0].Name = &nameA
	pods.Ports = append(pods.Ports, discoveryv1.EndpointPort{Name: &nameB, Protocol: &udp, Port: pods.Ports[0].Port})
	a.apply(six, pods)
	check("two ports of IPv6", services.NoLocal{InternalV6: 2})
}
