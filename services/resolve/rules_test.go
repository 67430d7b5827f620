// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestMoreRules has rules that no other table of this package shows by itself.
func TestMoreRules(t *testing.T) {
	nodeUnserved := "NodePort TCP;192.0.2.11;30080 -> none real "
	runRules(t, []rule{
		{"D2 internal Local is this node's endpoints only", func(s *state) { s.local(true, false) }, web(onlyA), nil},
		{"D3 internal Local without one here drops, for there is one elsewhere", func(s *state) {
			s.local(true, false).endpoints("b:r")
		}, web("-> none drop"), nil},
		{"D7 a host process reaches an external address of a Local Service by the cluster's endpoints", func(s *state) {
			s.local(false, true).loadBalancer("198.51.100.1").endpoints("b:r")
		}, web(onlyB) + nodeUnserved + "drop\n" + lb("198.51.100.1", onlyB), nil},
		{"D8 the address is served on every node, also without a local endpoint", func(s *state) {
			s.loadBalancer("198.51.100.1").endpoints("b:r")
		}, web(onlyB) + "NodePort TCP;192.0.2.11;30080 " + onlyB + " real\n" + lb("198.51.100.1", onlyB), nil},
		{"D9 hints play no part in a Local set", func(s *state) {
			s.local(false, true).loadBalancer("198.51.100.1").endpoints("a:r[z2] b:r[z1]")
		}, web(onlyB) + "NodePort TCP;192.0.2.11;30080 " + onlyA + " real\n" + lb("198.51.100.1", onlyA), nil},
		{"D12 Cluster again serves all at all addresses", func(s *state) {
			s.local(false, true).loadBalancer("198.51.100.1")
			s.svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
		}, web(both) + nodeBoth + lb("198.51.100.1", both), nil},
		{"E2 drop where a policy excludes what there is, reject where there is nothing", func(s *state) {
			s.local(true, false).endpoints("b:n")
		}, web("-> none reject"), nil},
		{"E3 a terminating endpoint elsewhere is something", func(s *state) {
			s.local(true, false).endpoints("b:t")
		}, web("-> none drop"), nil},
		{"E7 each port has its own verdict", func(s *state) {
			s.svc.Spec.Ports = append(s.svc.Spec.Ports, corev1.ServicePort{Name: "metrics", Port: 9090})
		}, web(both) + "ClusterIP TCP;10.96.0.10;9090 -> none reject\n", nil},
		{"F3 F4 source ranges do not guard node ports", func(s *state) {
			s.loadBalancer("198.51.100.1")
			s.svc.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8"}
		}, web(both) + nodeBoth, []string{"198.51.100.1 | --load-balancer-source-ranges"}},
		{"F5 the internal policy is nothing to a node port", func(s *state) {
			s.local(true, false).loadBalancer().endpoints("b:r")
		}, web("-> none drop") + "NodePort TCP;192.0.2.11;30080 " + onlyB + " real\n", nil},
		{"F10 another node's node port is not served here", func(s *state) {
			s.loadBalancer()
		}, web(both) + nodeBoth, nil},
		{"G3 several addresses, of the families of the Service", func(s *state) {
			s.loadBalancer("198.51.100.1", "198.51.100.2", "2001:db8:9::1")
		}, web(both) + nodeBoth + lb("198.51.100.1", both) + lb("198.51.100.2", both), nil},
		{"G4 the ports of an ingress are only information", func(s *state) {
			s.loadBalancer("198.51.100.1")
			s.svc.Status.LoadBalancer.Ingress[0].Ports = []corev1.PortStatus{{Port: 9, Protocol: corev1.ProtocolTCP}}
		}, web(both) + nodeBoth + lb("198.51.100.1", both), nil},
		{"G9 the annotation for cloud controllers is not read", func(s *state) {
			s.loadBalancer("198.51.100.1")
			s.svc.Annotations["service.beta.kubernetes.io/load-balancer-source-ranges"] = "10.0.0.0/8"
		}, web(both) + nodeBoth + lb("198.51.100.1", both), nil},
		{"G13 external Local counts for a ClusterIP Service with external IPs", func(s *state) {
			s.local(false, true)
			s.svc.Spec.ExternalIPs = []string{"198.51.100.1"}
		}, web(both) + ext("198.51.100.1", onlyA), nil},
		{"G15 L3 two protocols on one address and port are two keys", func(s *state) {
			s.loadBalancer("198.51.100.1")
			s.svc.Spec.Ports[0].NodePort = 0
			s.svc.Spec.Ports = append(s.svc.Spec.Ports, corev1.ServicePort{Name: "u", Protocol: corev1.ProtocolUDP, Port: 80})
		}, web(both) + lb("198.51.100.1", both) + "ClusterIP UDP;10.96.0.10;80 -> none reject\nLoadBalancer UDP;198.51.100.1;80 -> none reject\n", nil},
		{"H3 a backend that is gone is not in the set", func(s *state) {
			s.svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			s.endpoints("b:r")
		}, web(onlyB + " lb=maglev hash=srcaddr"), nil},
		{"L5 an external IP that is the node's own is served on its port only, and real", func(s *state) {
			s.svc.Spec.ExternalIPs = []string{"192.0.2.11"}
		}, web(both) + ext("192.0.2.11", both+" real"), nil},
	})
}
