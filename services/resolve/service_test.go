// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

const webOnClusterIP = "ClusterIP TCP;10.96.0.10;80 -> 10.244.1.1:8080 10.244.2.1:8080\n"

// TestWhichServices has the rules of section A: which Services are handled, and
// which families and ports they have.
func TestWhichServices(t *testing.T) {
	runRules(t, []rule{
		{"A1 headless serves nothing, not even externalIPs", func(s *state) {
			s.svc.Spec.ClusterIP, s.svc.Spec.ClusterIPs = "None", []string{"None"}
			s.svc.Spec.ExternalIPs = []string{"198.51.100.1"}
		}, "", nil},
		{"A1 without cluster IP nothing, and its author hears of it", func(s *state) {
			s.svc.Spec.ClusterIP, s.svc.Spec.ClusterIPs = "", nil
			s.svc.Spec.ExternalIPs = []string{"198.51.100.1"}
		}, "", []string{"spec.clusterIP | missing | None"}},
		{"A2 ExternalName is DNS only, whatever stale fields say", func(s *state) {
			s.svc.Spec.Type = corev1.ServiceTypeExternalName
			s.svc.Spec.ExternalIPs = []string{"198.51.100.1"}
		}, "", nil},
		{"A3 another proxy's Service", func(s *state) {
			s.svc.Labels["service.kubernetes.io/service-proxy-name"] = "other"
		}, "", nil},
		{"A3 an empty proxy name is one too", func(s *state) {
			s.svc.Labels["service.kubernetes.io/service-proxy-name"] = ""
		}, "", nil},
		{"A3 the label does not count on slices", func(s *state) {
			s.Slices[0].Labels["service.kubernetes.io/service-proxy-name"] = "other"
		}, webOnClusterIP, nil},
		{"A3 our own proxy name is ours (scenario 71)", func(s *state) {
			s.svc.Labels["service.kubernetes.io/service-proxy-name"] = "vpp"
			s.Options.ServiceProxyName = "vpp"
		}, webOnClusterIP, nil},
		{"A3 with a proxy name of our own, Services without it are others'", func(s *state) {
			s.Options.ServiceProxyName = "vpp"
		}, "", nil},
		{"A3 with a proxy name of our own, another name is others'", func(s *state) {
			s.svc.Labels["service.kubernetes.io/service-proxy-name"] = "other"
			s.Options.ServiceProxyName = "vpp"
		}, "", nil},
		{"A4 a headless slice feeds no VIP", func(s *state) {
			s.Slices[0].Labels[corev1.IsHeadlessService] = ""
		}, "ClusterIP TCP;10.96.0.10;80 -> none reject", nil},
		{"A5 a family without cluster IP has nothing", func(s *state) {
			s.svc.Spec.ExternalIPs = []string{"198.51.100.1", "2001:db8:9::1"}
			s.loadBalancer("2001:db8:9::2")
		}, `ClusterIP TCP;10.96.0.10;80 -> 10.244.1.1:8080 10.244.2.1:8080
			NodePort TCP;192.0.2.11;30080 -> 10.244.1.1:8080 10.244.2.1:8080 real
			ExternalIP TCP;198.51.100.1;80 -> 10.244.1.1:8080 10.244.2.1:8080`,
			[]string{"spec.externalIPs[1] | 2001:db8:9::1 | spec.ipFamilies"}},
		{"A5 two families are two Services (scenario 68)", func(s *state) {
			s.dual()
		}, webOnClusterIP + "ClusterIP TCP;fd30::10;80 -> [fd10:1::1]:8080 [fd10:2::1]:8080", nil},
		{"A5 back to one family: the slices of the other feed nothing", func(s *state) {
			s.dual()
			s.svc.Spec.ClusterIPs, s.svc.Spec.IPFamilies = []string{"fd30::10"}, []corev1.IPFamily{corev1.IPv6Protocol}
		}, "ClusterIP TCP;fd30::10;80 -> [fd10:1::1]:8080 [fd10:2::1]:8080", nil},
		{"A5 an address of another family than said", func(s *state) {
			s.dual()
			s.svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv4Protocol}
		}, webOnClusterIP, []string{"spec.clusterIPs[1] | fd30::10 | wanted IPv6 in spec.ipFamilies[1]"}},
		{"A5 two addresses of one family", func(s *state) {
			s.svc.Spec.ClusterIPs = []string{"10.96.0.10", "10.96.0.11"}
			s.svc.Spec.IPFamilies = nil
		}, webOnClusterIP, []string{"spec.clusterIPs[1] | 10.96.0.11 | second address"}},
		{"A6 only clusterIP, from an older version", func(s *state) {
			s.svc.Spec.ClusterIPs, s.svc.Spec.IPFamilies = nil, nil
		}, webOnClusterIP, nil},
		{"A6 only clusterIP, of IPv6", func(s *state) {
			s.dual()
			s.svc.Spec.ClusterIP, s.svc.Spec.ClusterIPs, s.svc.Spec.IPFamilies = "fd30::10", nil, nil
		}, "ClusterIP TCP;fd30::10;80 -> [fd10:1::1]:8080 [fd10:2::1]:8080", nil},
		{"A6 clusterIPs without ipFamilies say their families themselves", func(s *state) {
			s.dual()
			s.svc.Spec.ClusterIP, s.svc.Spec.IPFamilies = "", nil
		}, webOnClusterIP + "ClusterIP TCP;fd30::10;80 -> [fd10:1::1]:8080 [fd10:2::1]:8080", nil},
		{"A7 leading zeros, blanks and rubbish among externalIPs", func(s *state) {
			s.svc.Spec.ExternalIPs = []string{"", " 198.051.100.001 ", "198.51.100.999", "198.51.100.1", "::ffff:198.51.100.2"}
		}, webOnClusterIP + `ExternalIP TCP;198.51.100.1;80 -> 10.244.1.1:8080 10.244.2.1:8080
			ExternalIP TCP;198.51.100.2;80 -> 10.244.1.1:8080 10.244.2.1:8080`,
			[]string{`AddressRefused | spec.externalIPs[2] | "198.51.100.999" | not an IP address`}},
		{"A7 leading zeros in cluster IP and endpoint", func(s *state) {
			s.svc.Spec.ClusterIPs[0] = "010.096.000.010"
			s.Slices[0].Endpoints[0].Addresses[0] = "010.244.001.001"
		}, webOnClusterIP, nil},
		{"A8 the fields count, not the type: no nodePort, no frontend", func(s *state) {
			s.loadBalancer("198.51.100.1")
			s.svc.Spec.Ports[0].NodePort = 0
		}, webOnClusterIP + "LoadBalancer TCP;198.51.100.1;80 -> 10.244.1.1:8080 10.244.2.1:8080", nil},
		{"A9 NodePort to ClusterIP leaves the cluster IP alone", func(s *state) {
			s.svc.Spec.Type, s.svc.Spec.Ports[0].NodePort = corev1.ServiceTypeClusterIP, 0
		}, webOnClusterIP, nil},
		{"A9 what load balancers reported before the type changed is void", func(s *state) {
			s.loadBalancer("198.51.100.1")
			s.svc.Spec.Type, s.svc.Spec.Ports[0].NodePort = corev1.ServiceTypeClusterIP, 0
		}, webOnClusterIP, nil},
		{"A11 loadBalancerIP and class play no part", func(s *state) {
			s.loadBalancer("198.51.100.1")
			s.svc.Spec.Ports[0].NodePort = 0
			s.svc.Spec.LoadBalancerIP, s.svc.Spec.LoadBalancerClass = "198.51.100.77", ptr("x/y")
		}, webOnClusterIP + "LoadBalancer TCP;198.51.100.1;80 -> 10.244.1.1:8080 10.244.2.1:8080", nil},
		{"A12 one number, two protocols (scenario 13)", func(s *state) {
			s.svc.Spec.Ports = []corev1.ServicePort{
				{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53}, {Name: "dns-tcp", Protocol: corev1.ProtocolTCP, Port: 53},
			}
			udp := port("dns", 5300)
			udp.Protocol = ptr(corev1.ProtocolUDP)
			s.Slices[0].Ports = append(s.Slices[0].Ports, udp, port("dns-tcp", 5301))
		}, `ClusterIP TCP;10.96.0.10;53 -> 10.244.1.1:5301 10.244.2.1:5301
			ClusterIP UDP;10.96.0.10;53 -> 10.244.1.1:5300 10.244.2.1:5300`, nil},
		{"A12 bad ports, and a good one that does not mind", func(s *state) {
			good := s.svc.Spec.Ports[0]
			s.svc.Spec.Ports = []corev1.ServicePort{
				{Name: "a", Port: 0}, {Name: "b", Port: 65536}, {Name: "c", Port: -1}, {Name: "d", Port: 81, Protocol: "ICMP"}, good,
			}
		}, webOnClusterIP, []string{
			"PortRefused | spec.ports[0].port | 0 is not in 1-65535", "spec.ports[1].port | 65536", "spec.ports[2].port | -1",
			"spec.ports[3].protocol | ICMP | TCP, UDP and SCTP",
		}},
		{"A12 no protocol is TCP", func(s *state) { s.svc.Spec.Ports[0].Protocol = "" }, webOnClusterIP, nil},
		{"A12 one key twice: the port that is listed first has it", func(s *state) {
			s.svc.Spec.Ports = append(s.svc.Spec.Ports, corev1.ServicePort{Name: "again", Port: 80, NodePort: 30081})
		}, webOnClusterIP + "NodePort TCP;192.0.2.11;30081 -> none real reject",
			[]string{"PortRefused | spec.ports[1] | TCP;10.96.0.10;80 | ClusterIP of spec.ports[0]"}},
		{"A13 no selector, no nodeName: the slice is all that counts", func(s *state) {
			s.svc.Spec.Selector = nil
			s.endpoints("u:-")
		}, "ClusterIP TCP;10.96.0.10;80 -> 10.244.9.1:8080", nil},
		{"N13 appProtocol, publishNotReadyAddresses and targetPort are not ours to read", func(s *state) {
			s.svc.Spec.PublishNotReadyAddresses = true
			s.svc.Spec.Ports[0].AppProtocol = ptr("kubernetes.io/h2c")
			s.endpoints("a:n b:r")
		}, "ClusterIP TCP;10.96.0.10;80 -> 10.244.2.1:8080", nil},
		{"a cluster IP that cannot be one", func(s *state) {
			s.svc.Spec.ClusterIPs[0] = "127.0.0.1"
		}, "", []string{"spec.clusterIPs[0] | 127.0.0.1 is a loopback address"}},
		{"a cluster IP that is no address", func(s *state) {
			s.svc.Spec.ClusterIPs[0] = "web.example"
		}, "", []string{`spec.clusterIPs[0] | "web.example" is not an IP address`}},
		{"a Service without ports", func(s *state) { s.svc.Spec.Ports = nil }, "", nil},
		{"nil slices", func(s *state) { s.Slices = append(s.Slices, nil) }, webOnClusterIP, nil},
	})
}

func TestNothing(t *testing.T) {
	for name, in := range map[string]Input{
		"zero input":    {},
		"empty Service": {Service: &corev1.Service{}},
		"no options": {Service: &corev1.Service{Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{}}, ExternalIPs: []string{"x"},
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			if res := Service(in); len(res.Claims) > 0 || res.Health != nil {
				t.Errorf("got %v", res)
			}
		})
	}
}

func TestA10Recreated(t *testing.T) {
	// A10: resolve remembers nothing, so a new Service of the same name is as
	// good as any; the claim carries what tells the two apart.
	s := newState()
	first := Service(s.Input)
	s.svc.UID = "uid-2"
	second := Service(s.Input)
	if show(first.Claims) != show(second.Claims) || second.Claims[0].UID != "uid-2" {
		t.Errorf("first %v, second %v", first.Claims, second.Claims)
	}
	if c := second.Claims[0]; c.Service != "shop/web" || c.PortName != "http" || !c.Created.Equal(s.svc.CreationTimestamp.Time) {
		t.Errorf("claim: %+v", c)
	}
}

func TestA9TypeChanges(t *testing.T) {
	// A9, scenario 62: whatever it was before, only the fields of now count.
	want := map[corev1.ServiceType]string{
		corev1.ServiceTypeClusterIP: webOnClusterIP,
		corev1.ServiceTypeNodePort: webOnClusterIP +
			"NodePort TCP;192.0.2.11;30080 -> 10.244.1.1:8080 10.244.2.1:8080 real\n",
		corev1.ServiceTypeLoadBalancer: webOnClusterIP +
			"NodePort TCP;192.0.2.11;30080 -> 10.244.1.1:8080 10.244.2.1:8080 real\n" +
			"LoadBalancer TCP;198.51.100.1;80 -> 10.244.1.1:8080 10.244.2.1:8080\n",
		corev1.ServiceTypeExternalName: "",
	}
	for serviceType, claims := range want {
		s := newState().loadBalancer("198.51.100.1")
		s.svc.Spec.Type = serviceType
		if serviceType == corev1.ServiceTypeClusterIP {
			s.svc.Spec.Ports[0].NodePort = 0 // as the API server does
		}
		if diff := cmp.Diff(claims, show(checkedService(t, s.Input).Claims)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", serviceType, diff)
		}
	}
}
