// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// TestFromSlicesToBackends has the rules of section B.
func TestFromSlicesToBackends(t *testing.T) {
	const (
		cip     = "ClusterIP TCP;10.96.0.10;80 -> "
		refused = cip + "none reject"
	)
	metrics := func(s *state) {
		s.svc.Spec.Ports = append(s.svc.Spec.Ports, corev1.ServicePort{Name: "metrics", Port: 9090})
	}
	runRules(t, []rule{
		{"B1 the name matches, the protocol does not", func(s *state) {
			s.Slices[0].Ports[0].Protocol = ptr(corev1.ProtocolUDP)
		}, refused, nil},
		{"B1 the protocol matches, the name does not", func(s *state) {
			s.Slices[0].Ports[0].Name = ptr("other")
		}, refused, nil},
		{"B1 ports without names", func(s *state) {
			s.svc.Spec.Ports[0].Name, s.Slices[0].Ports[0].Name = "", ptr("")
		}, webOnClusterIP, nil},
		{"B2 the slice has the number, not targetPort", func(s *state) {
			s.svc.Spec.Ports[0].TargetPort.IntVal = 80
			s.Slices[0].Ports[0].Port = ptr(int32(9376))
		}, cip + "10.244.1.1:9376 10.244.2.1:9376", nil},
		{"B3 one port name, two numbers (scenario 66)", func(s *state) {
			s.Slices = []*discoveryv1.EndpointSlice{slice("1", "a:r", port("http", 8080)), slice("2", "b:r", port("http", 8000))}
		}, cip + "10.244.1.1:8080 10.244.2.1:8000", nil},
		{"B4 pods that lack a named port", metrics,
			webOnClusterIP + "ClusterIP TCP;10.96.0.10;9090 -> none reject", nil},
		{"B5 a slice port without name", func(s *state) {
			s.Slices[0].Ports = append(s.Slices[0].Ports, discoveryv1.EndpointPort{Port: ptr(int32(1))})
		}, webOnClusterIP, []string{"EndpointRefused | EndpointSlice/web-1 ports[1].name | missing"}},
		{"B6 a slice port without number, or with none that exists", func(s *state) {
			for _, n := range []*int32{nil, ptr(int32(0)), ptr(int32(65536)), ptr(int32(-1))} {
				s.Slices[0].Ports = append(s.Slices[0].Ports, discoveryv1.EndpointPort{Name: ptr("http"), Port: n})
			}
		}, webOnClusterIP, []string{
			"EndpointSlice/web-1 ports[1].port | missing", "ports[2].port | 0 is not in 1-65535", "ports[3].port | 65536", "ports[4].port | -1",
		}},
		{"B7 no protocol is TCP", func(s *state) { s.Slices[0].Ports[0].Protocol = nil }, webOnClusterIP, nil},
		{"B7 a protocol that is none", func(s *state) {
			s.Slices[0].Ports[0].Protocol = ptr(corev1.Protocol("ICMP"))
		}, refused, []string{"EndpointSlice/web-1 ports[0].protocol | ICMP | TCP, UDP and SCTP"}},
		{"B8 the first address only", func(s *state) {
			s.Slices[0].Endpoints[0].Addresses = []string{v4a, v4c}
		}, webOnClusterIP, nil},
		{"B8 an endpoint without address", func(s *state) {
			s.Slices[0].Endpoints[0].Addresses = nil
		}, cip + "10.244.2.1:8080", []string{"EndpointRefused | EndpointSlice/web-1 endpoints | without address"}},
		{"B9 no nodeName is not here", func(s *state) { s.local(true, false).endpoints("u:r") }, cip + "none drop", nil},
		{"B9 nothing is here when this node's name is unknown", func(s *state) {
			s.local(true, false)
			s.Slices[0].Endpoints[0].NodeName = ptr("")
			s.Node.Name = ""
		}, cip + "none drop", nil},
		{"B10 FQDN slices and unknown types do not count, not even their mistakes", func(s *state) {
			s.Slices[0].AddressType = discoveryv1.AddressTypeFQDN
			s.Slices[0].Endpoints[0].Addresses[0] = "web.example"
			s.Slices[0].Ports[0].Port = nil
			s.Slices = append(s.Slices, slice("2", "b:r", port("http", 8080)))
			s.Slices[1].AddressType = ""
		}, refused, nil},
		{"B11 all slices count, each with its own ports", func(s *state) {
			metrics(s)
			s.Slices = []*discoveryv1.EndpointSlice{
				slice("1", "a:r", port("http", 8080)), slice("2", "a:r", port("metrics", 9091)), slice("3", "b:r", port("http", 8080)),
			}
		}, webOnClusterIP + "ClusterIP TCP;10.96.0.10;9090 -> 10.244.1.1:9091", nil},
		{"B12 one ip:port in two slices is one backend", func(s *state) {
			s.Slices = append(s.Slices, slice("2", "a:r c:r", port("http", 8080)))
		}, cip + "10.244.1.1:8080 10.244.1.2:8080 10.244.2.1:8080", nil},
		{"B12 one endpoint twice in a slice is one backend", func(s *state) { s.endpoints("a:r a:r b:r") }, webOnClusterIP, nil},
		{"B13 a copy that does not terminate beats one that does", func(s *state) {
			s.Slices = []*discoveryv1.EndpointSlice{slice("1", "a:t", port("http", 8080)), slice("2", "a:r", port("http", 8080))}
		}, cip + "10.244.1.1:8080", nil},
		{"B13 also when it is not ready", func(s *state) {
			s.Slices = []*discoveryv1.EndpointSlice{slice("1", "a:t", port("http", 8080)), slice("2", "a:n", port("http", 8080))}
		}, refused, nil},
		{"B14 one address, two ports of one name", func(s *state) {
			s.Slices = []*discoveryv1.EndpointSlice{slice("1", "a:r", port("http", 81)), slice("2", "a:r", port("http", 80))}
		}, cip + "10.244.1.1:80 10.244.1.1:81", nil},
		{"B15 backends are sorted", func(s *state) {
			s.endpoints("d:r c:r b:r a:r")
		}, cip + "10.244.1.1:8080 10.244.1.2:8080 10.244.2.1:8080 10.244.2.2:8080", nil},
		{"B16 a slice without service-name label, or with an empty one", func(s *state) {
			s.Slices = append(s.Slices, slice("2", "c:r", port("http", 8080)), slice("3", "d:r", port("http", 8080)))
			s.Slices[1].Labels = nil
			s.Slices[2].Labels = map[string]string{discoveryv1.LabelServiceName: ""}
		}, webOnClusterIP, nil},
		{"B17 a slice that was there before its Service", func(s *state) {
			s.svc.CreationTimestamp.Time = s.svc.CreationTimestamp.AddDate(1, 0, 0)
		}, webOnClusterIP, nil},
		{"B18 a slice of another Service, or of another namespace", func(s *state) {
			s.Slices = append(s.Slices, slice("2", "c:r", port("http", 8080)), slice("3", "d:r", port("http", 8080)))
			s.Slices[1].Labels[discoveryv1.LabelServiceName] = "api"
			s.Slices[2].Namespace = "other"
		}, webOnClusterIP, nil},
		{"B19 a mirrored address that is not ready is no fallback", func(s *state) {
			s.Slices[0].Labels[discoveryv1.LabelManagedBy] = "endpointslicemirroring-controller.k8s.io"
			s.Slices[0].Endpoints = parseEndpoints("a:-", false)
			s.Slices[0].Endpoints[0].Conditions.Ready = ptr(false)
		}, refused, nil},
		{"B20 slices of every manager count", func(s *state) {
			s.Slices[0].Labels[discoveryv1.LabelManagedBy] = "somebody.example"
			s.Slices[0].Labels["endpointslice.kubernetes.io/skip-mirror"] = "true"
		}, webOnClusterIP, nil},
		{"B21 addresses that no pod can have", func(s *state) {
			for _, a := range []string{
				"127.0.0.1", "169.254.1.1", "0.0.0.0", "224.0.0.5", "255.255.255.255", "::ffff:10.244.1.9", "fd10:1::9", "pod-1", "",
			} {
				s.Slices[0].Endpoints = append(s.Slices[0].Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
			}
		}, webOnClusterIP, []string{
			"127.0.0.1 is a loopback", "169.254.1.1 is a link-local", "0.0.0.0 is the unspecified", "224.0.0.5 is a multicast",
			"255.255.255.255 is the broadcast", "10.244.1.9 | IPv4 written as IPv6", "fd10:1::9 | addressType, IPv4",
			`"pod-1" is not an IP address`, `"" is not an IP address`,
		}},
		{"B21 addresses that no pod can have, IPv6", func(s *state) {
			s.dual()
			for _, a := range []string{"::1", "fe80::1", "::", "ff02::1", "10.244.1.9", "fe80::1%eth0"} {
				s.Slices[1].Endpoints = append(s.Slices[1].Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
			}
		}, webOnClusterIP + "ClusterIP TCP;fd30::10;80 -> [fd10:1::1]:8080 [fd10:2::1]:8080", []string{
			"::1 is a loopback", "fe80::1 is a link-local", ":: is the unspecified", "ff02::1 is a multicast",
			"10.244.1.9 | addressType, IPv6", `"fe80::1%eth0" is not an IP address`,
		}},
		{"N4 endpoints in the host's network are endpoints", func(s *state) {
			s.Slices[0].Endpoints[0].Addresses[0] = "192.0.2.11"
		}, cip + "10.244.2.1:8080 192.0.2.11:8080", nil},
	})
}

// TestConditions has the rules of section C.
func TestConditions(t *testing.T) {
	row := func(name, endpoints, backends string) rule {
		return rule{name, func(s *state) { s.endpoints(endpoints) }, "ClusterIP TCP;10.96.0.10;80 -> " + backends, nil}
	}
	runRules(t, []rule{
		row("C1 not ready is not used", "a:r b:n", "10.244.1.1:8080"),
		row("C2 no conditions: ready, serving, not terminating", "a:- b:-", "10.244.1.1:8080 10.244.2.1:8080"),
		row("C3 ready and terminating is used next to others", "a:rt b:r", "10.244.1.1:8080 10.244.2.1:8080"),
		{"C3 ready, not serving, terminating is used", func(s *state) {
			s.Slices[0].Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: ptr(true), Serving: ptr(false), Terminating: ptr(true)}
		}, webOnClusterIP, nil},
		row("C4 nothing ready: what terminates and serves, all of it", "a:t b:t c:x d:n", "10.244.1.1:8080 10.244.2.1:8080"),
		row("C4 hints do not narrow the fallback", "a:t[z1] b:t[z2]", "10.244.1.1:8080 10.244.2.1:8080"),
		{"C4 serving nil is serving", func(s *state) {
			s.endpoints("a:-")
			s.Slices[0].Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: ptr(false), Terminating: ptr(true)}
		}, "ClusterIP TCP;10.96.0.10;80 -> 10.244.1.1:8080", nil},
		{"C5 the local fallback is a matter of its own", func(s *state) {
			s.loadBalancer("198.51.100.1").local(false, true).endpoints("a:t b:r")
		}, `ClusterIP TCP;10.96.0.10;80 -> 10.244.2.1:8080
			NodePort TCP;192.0.2.11;30080 -> 10.244.1.1:8080 real
			LoadBalancer TCP;198.51.100.1;80 -> 10.244.1.1:8080`, nil},
		row("C6 never both", "a:r b:t", "10.244.1.1:8080"),
		row("C7 what terminates gets no new flows while others are ready", "a:t b:r", "10.244.2.1:8080"),
		row("C8 what is in no slice any more is gone", "b:r", "10.244.2.1:8080"),
		row("E1 nothing usable anywhere", "a:n b:x", "none reject"),
		row("E1 no endpoints", "", "none reject"),
	})
}

// TestTopology has the rules of section I. This is node n1 in zone z1.
func TestTopology(t *testing.T) {
	const (
		a  = "ClusterIP TCP;10.96.0.10;80 -> 10.244.1.1:8080"
		b  = "ClusterIP TCP;10.96.0.10;80 -> 10.244.2.1:8080"
		ab = webOnClusterIP
	)
	row := func(name, endpoints, claims string) rule {
		return rule{name, func(s *state) { s.endpoints(endpoints) }, claims, nil}
	}
	runRules(t, []rule{
		row("I1 hints decide without trafficDistribution", "a:r[z1] b:r[z2]", a),
		{"I1 trafficDistribution without hints does nothing", func(s *state) {
			s.svc.Spec.TrafficDistribution = ptr(corev1.ServiceTrafficDistributionPreferSameNode)
			s.svc.Annotations[corev1.AnnotationTopologyMode] = "Auto"
		}, ab, nil},
		row("I2 node hints", "a:r{n1} b:r{n2}", a),
		row("I2 a ready endpoint without node hint", "a:r{n1} b:r", ab),
		row("I3 zone hints", "a:r[z1] b:r[z2]", a),
		row("I3 the node comes before the zone", "a:r{n1}[z2] b:r{n2}[z1]", a),
		row("I4 a ready endpoint without hint", "a:r[z1] b:r", ab),
		row("I4 no hint for us", "a:r[z2] b:r[z2]", ab),
		{"I4 this node has no zone", func(s *state) { s.Node.Zone = ""; s.endpoints("a:r[z1] b:r[z2]") }, ab, nil},
		{"I4 no zone is not the zone without name", func(s *state) { s.Node.Zone = ""; s.endpoints("a:r[] b:r[z2]") }, ab, nil},
		row("I5 what is not ready does not satisfy", "a:n[z1] b:r[z2]", b),
		row("I5 what is not ready does not block", "a:r[z1] b:r[z2] d:t c:n", a),
		row("I6 several zones in a hint", "a:r[z7,z1] b:r[z2,z3]", a),
		{"I7 a Local policy ignores hints", func(s *state) { s.local(true, false).endpoints("a:r[z2] b:r[z1]") }, a, nil},
		{"I8 another zone of the node, other endpoints", func(s *state) { s.Node.Zone = "z2"; s.endpoints("a:r[z1] b:r[z2]") }, b, nil},
		row("I9 PreferSameNode falls back to the zone", "c:n{n1}[z1] b:r{n2}[z1] d:r{n3}[z2]", b),
		row("I9 and then to all", "a:r{n3}[z2] b:r{n2}[z2]", ab),
		row("I10 hints never empty a set", "b:r{n2}[z2]", b),
	})
}
