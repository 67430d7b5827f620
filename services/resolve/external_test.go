// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

const (
	both     = "-> 10.244.1.1:8080 10.244.2.1:8080"
	onlyA    = "-> 10.244.1.1:8080"
	onlyB    = "-> 10.244.2.1:8080"
	nodeBoth = "NodePort TCP;192.0.2.11;30080 " + both + " real\n"
)

// web is the claim on the ClusterIP of newState.
func web(backends string) string { return "ClusterIP TCP;10.96.0.10;80 " + backends + "\n" }

func lb(ip, backends string) string  { return "LoadBalancer TCP;" + ip + ";80 " + backends + "\n" }
func ext(ip, backends string) string { return "ExternalIP TCP;" + ip + ";80 " + backends + "\n" }

// TestPolicies has the rules of section D that golden vectors do not show.
func TestPolicies(t *testing.T) {
	runRules(t, []rule{
		{"D1 the internal policy is for the ClusterIP alone", func(s *state) {
			s.local(true, false).loadBalancer("198.51.100.1")
		}, web(onlyA) + nodeBoth + lb("198.51.100.1", both), nil},
		{"D4 external Local is for all external addresses (scenario 60)", func(s *state) {
			s.local(false, true).loadBalancer("198.51.100.1")
			s.svc.Spec.ExternalIPs = []string{"198.51.100.2"}
		}, web(both) + "NodePort TCP;192.0.2.11;30080 " + onlyA + " real\n" + lb("198.51.100.1", onlyA) + ext("198.51.100.2", onlyA), nil},
		{"D5 D6 external Local without a local endpoint: outsiders are dropped at the node port, pods are served elsewhere", func(s *state) {
			s.local(false, true).loadBalancer("198.51.100.1").endpoints("b:r")
		}, web(onlyB) + "NodePort TCP;192.0.2.11;30080 -> none real drop\n" + lb("198.51.100.1", onlyB), nil},
		{"D10 the external policy of a plain ClusterIP Service is nothing", func(s *state) {
			s.local(false, true).endpoints("b:r")
		}, web(onlyB), nil},
		{"D11 no internal policy is Cluster", func(s *state) {
			s.svc.Spec.InternalTrafficPolicy = nil
		}, web(both), nil},
		{"D13 both Local", func(s *state) {
			s.local(true, true).loadBalancer("198.51.100.1")
		}, web(onlyA) + "NodePort TCP;192.0.2.11;30080 " + onlyA + " real\n" + lb("198.51.100.1", onlyA), nil},
		{"a policy that is not known is told", func(s *state) {
			s.svc.Spec.ExternalTrafficPolicy = "Sometimes"
		}, web(both), []string{"spec.externalTrafficPolicy | Sometimes | Cluster, Local"}},
	})
}

// TestNodePorts has the rules of section F.
func TestNodePorts(t *testing.T) {
	np := func(s *state) { s.svc.Spec.Type, s.svc.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, 30080 }
	more := func(s *state) {
		np(s)
		s.Node.Addresses = append(s.Node.Addresses, netip.MustParseAddr("203.0.113.11"), netip.MustParseAddr("127.0.0.1"))
	}
	const second = "NodePort TCP;203.0.113.11;30080 " + both + " real\n"
	runRules(t, []rule{
		{"F1 a node port is on the node's primary address", more, web(both) + nodeBoth, nil},
		{"F2 on all addresses, F3 but never on loopback", func(s *state) {
			more(s)
			s.Options.NodePortAddresses = NodePortAddresses{All: true}
		}, web(both) + nodeBoth + second, nil},
		{"F2 on those of a CIDR", func(s *state) {
			more(s)
			s.Options.NodePortAddresses = NodePortAddresses{CIDRs: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}
		}, web(both) + second, nil},
		{"F2 a CIDR of the other family restricts nothing", func(s *state) {
			more(s)
			s.Options.NodePortAddresses = NodePortAddresses{CIDRs: []netip.Prefix{netip.MustParsePrefix("2001:db8::/64")}}
		}, web(both) + nodeBoth + second, nil},
		{"F6 a number counts, not the allocate flag (scenario 62)", func(s *state) {
			s.loadBalancer()
			s.svc.Spec.AllocateLoadBalancerNodePorts = ptr(false)
			s.svc.Spec.Ports = append(s.svc.Spec.Ports, corev1.ServicePort{Name: "https", Port: 443})
		}, web(both) + "ClusterIP TCP;10.96.0.10;443 -> none reject\n" + nodeBoth, nil},
		{"F7 one number for two protocols", func(s *state) {
			np(s)
			s.svc.Spec.Ports = append(s.svc.Spec.Ports, corev1.ServicePort{Name: "u", Protocol: corev1.ProtocolUDP, Port: 80, NodePort: 30080})
		}, web(both) + nodeBoth + "ClusterIP UDP;10.96.0.10;80 -> none reject\nNodePort UDP;192.0.2.11;30080 -> none real reject\n", nil},
		{"F9 any number is accepted", func(s *state) {
			np(s)
			s.svc.Spec.Ports[0].NodePort = 8
		}, web(both) + "NodePort TCP;192.0.2.11;8 " + both + " real\n", nil},
		{"a node port out of range is told", func(s *state) {
			np(s)
			s.svc.Spec.Ports[0].NodePort = 70000
		}, web(both), []string{"spec.ports[0].nodePort | 70000 | 1-65535"}},
		{"F11 dual-stack", func(s *state) {
			s.dual()
			np(s)
		}, web(both) + nodeBoth +
			"NodePort TCP;2001:db8::11;30080 -> [fd10:1::1]:8080 [fd10:2::1]:8080 real\n" +
			"ClusterIP TCP;fd30::10;80 -> [fd10:1::1]:8080 [fd10:2::1]:8080\n", nil},
	})
}

// TestExternalAddresses has the rules of section G and scenario 15.
func TestExternalAddresses(t *testing.T) {
	ranges := func(s *state, list ...string) { s.svc.Spec.LoadBalancerSourceRanges = list }
	runRules(t, []rule{
		{"G1 ipMode Proxy is not intercepted", func(s *state) {
			s.loadBalancer("198.51.100.1", "198.51.100.2")
			s.svc.Status.LoadBalancer.Ingress[0].IPMode = ptr(corev1.LoadBalancerIPModeProxy)
			s.svc.Status.LoadBalancer.Ingress[1].IPMode = ptr(corev1.LoadBalancerIPModeVIP)
		}, web(both) + nodeBoth + lb("198.51.100.2", both), nil},
		{"G2 a host name alone is nothing", func(s *state) {
			s.loadBalancer("")
			s.svc.Status.LoadBalancer.Ingress[0].Hostname = "lb.example"
		}, web(both) + nodeBoth, nil},
		{"G5 status counts only while the type is LoadBalancer", func(s *state) {
			s.loadBalancer("198.51.100.1")
			s.svc.Spec.Type = corev1.ServiceTypeNodePort
		}, web(both) + nodeBoth, nil},
		{"G6 source ranges cannot be kept: the address is not served", func(s *state) {
			s.loadBalancer("198.51.100.1")
			ranges(s, "10.0.0.0/8")
		}, web(both) + nodeBoth, []string{"198.51.100.1 | --load-balancer-source-ranges"}},
		{"G6 unless the operator says so", func(s *state) {
			s.loadBalancer("198.51.100.1")
			ranges(s, "10.0.0.0/8")
			s.Options.SourceRanges = SourceRangesIgnore
		}, web(both) + nodeBoth + lb("198.51.100.1", both), []string{"198.51.100.1 | served to everybody"}},
		{"G7 ranges of the other family restrict nothing", func(s *state) {
			s.loadBalancer("198.51.100.1")
			ranges(s, "2001:db8::/32")
		}, web(both) + nodeBoth + lb("198.51.100.1", both), nil},
		{"G7 everything is no restriction, blanks are trimmed", func(s *state) {
			s.loadBalancer("198.51.100.1")
			ranges(s, "10.0.0.0/8", " 0.0.0.0/0 ")
		}, web(both) + nodeBoth + lb("198.51.100.1", both), nil},
		{"G11 an external IP of any type", func(s *state) {
			s.svc.Spec.ExternalIPs = []string{"203.0.113.9"}
		}, web(both) + ext("203.0.113.9", both), nil},
		{"G12 external IPs are switched off", func(s *state) {
			s.svc.Spec.ExternalIPs = []string{"203.0.113.9"}
			s.Options.ExternalIPs = false
		}, web(both), []string{"spec.externalIPs | --external-ips)"}},
		{"L10 the same address twice is one claim", func(s *state) {
			s.loadBalancer("198.51.100.1")
			s.svc.Spec.ExternalIPs = []string{"198.51.100.1", "198.51.100.1"}
		}, web(both) + nodeBoth + lb("198.51.100.1", both), nil},
		{"A7 leading zeros and blanks", func(s *state) {
			s.svc.Spec.ExternalIPs = []string{"", "198.051.100.009"}
		}, web(both) + ext("198.51.100.9", both), nil},
		{"an address that is none", func(s *state) {
			s.svc.Spec.ExternalIPs = []string{"example.com", "198.51.100.9"}
		}, web(both) + ext("198.51.100.9", both), []string{"spec.externalIPs[0] | example.com"}},
		{"scenario 15: an address of the node, on a protected port", func(s *state) {
			s.svc.Spec.ExternalIPs = []string{"192.0.2.11"}
			s.svc.Spec.Ports[0].Port = 6443
		}, "ClusterIP TCP;10.96.0.10;6443 " + both, []string{"192.0.2.11 | 6443 | --protected-node-ports"}},
		{"scenario 15, L5: an address of the node, on another port: that port only, and real", func(s *state) {
			s.svc.Spec.ExternalIPs = []string{"192.0.2.11"}
		}, web(both) + ext("192.0.2.11", both+" real"), nil},
		{"scenario 15: inside the service CIDRs", func(s *state) {
			s.svc.Spec.ExternalIPs = []string{"10.96.0.1"}
		}, web(both), []string{"10.96.0.1 | --service-cidr, --guard-exempt"}},
		{"scenario 15: a pod's address", func(s *state) {
			s.svc.Spec.ExternalIPs = []string{"10.244.1.5"}
			s.Options.IsPodAddress = func(a netip.Addr) bool { return a == netip.MustParseAddr("10.244.1.5") }
		}, web(both), []string{"10.244.1.5 | pod | --guard-exempt"}},
		{"scenario 15: not in the allow-list", func(s *state) {
			s.svc.Spec.ExternalIPs = []string{"203.0.113.9", "198.51.100.9"}
			s.Options.ExternalIPsAllowed = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
		}, web(both) + ext("198.51.100.9", both), []string{"203.0.113.9 | --external-ips-allowed"}},
		{"a load balancer IP has no right to a service address either", func(s *state) {
			s.loadBalancer("10.96.0.1")
		}, web(both) + nodeBoth, []string{"status.loadBalancer.ingress[0] | 10.96.0.1 | --service-cidr, --guard-exempt"}},
		{"the operator can widen the guard", func(s *state) {
			s.svc.Spec.ExternalIPs = []string{"10.96.0.1"}
			s.Options.GuardExempt = []netip.Prefix{netip.MustParsePrefix("10.96.0.1/32")}
		}, ext("10.96.0.1", both) + web(both), nil},
	})
}

// TestAffinity has the rules of section H and the annotations.
func TestAffinity(t *testing.T) {
	sticky := func(s *state) { s.svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }
	note := func(s *state, key, value string) { s.svc.Annotations[key] = value }
	const maglevHash = both + " lb=maglev hash=srcaddr"
	const dsr = "-> 10.244.1.1:8080! 10.244.2.1:8080! lb=maglev\n"
	runRules(t, []rule{
		{"H1 ClientIP is maglev by client address (scenario 72)", sticky, web(maglevHash), nil},
		{"H2 the default time-out is not worth a word", func(s *state) {
			sticky(s)
			s.svc.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr(int32(10800))}}
		}, web(maglevHash), nil},
		{"H2 another one cannot be kept, and is told", func(s *state) {
			sticky(s)
			s.svc.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr(int32(10))}}
		}, web(maglevHash), []string{"timeoutSeconds"}},
		{"H4 None again", func(s *state) { s.svc.Spec.SessionAffinity = corev1.ServiceAffinityNone }, web(both), nil},
		{"H5 the pin is inside the set of the policy", func(s *state) {
			sticky(s)
			s.local(true, false)
		}, web(onlyA + " lb=maglev hash=srcaddr"), nil},
		{"the user's hash wins, and affinity is lost", func(s *state) {
			sticky(s)
			note(s, AnnotationHashConfig, "srcport")
		}, web(both + " hash=srcport"), []string{"sessionAffinity"}},
		{"maglev by annotation", func(s *state) { note(s, AnnotationLBType, "maglev") }, web(both + " lb=maglev"), nil},
		{"ecmp is the default", func(s *state) { note(s, AnnotationLBType, " ecmp ") }, web(both), nil},
		{"maglevdsr does not rewrite", func(s *state) {
			note(s, AnnotationLBType, "maglevdsr")
			s.svc.Spec.Ports[0].Port = 8080
			s.svc.Spec.ExternalIPs = []string{"198.51.100.1"}
		}, "ClusterIP TCP;10.96.0.10;8080 " + dsr + "ExternalIP TCP;198.51.100.1;8080 " + dsr, nil},
		{"maglevdsr cannot change the port: it is maglev then, and told once", func(s *state) {
			note(s, AnnotationLBType, "maglevdsr")
			s.svc.Spec.ExternalIPs = []string{"198.51.100.1"}
		}, web(both+" lb=maglev") + ext("198.51.100.1", both+" lb=maglev"),
			[]string{"Unsupported | metadata.annotations[cni.projectcalico.org/vppLBType] | maglevdsr | spec.ports[0] | port 80 | port 8080"}},
		{"maglevdsr where one endpoint has another port: maglev for all of them", func(s *state) {
			note(s, AnnotationLBType, "maglevdsr")
			s.Slices = append(s.Slices, slice("web-2", "c:r", port("http", 80)))
		}, web("-> 10.244.1.1:8080 10.244.1.2:80 10.244.2.1:8080 lb=maglev"), []string{"maglevdsr | port 8080"}},
		{"maglevdsr is not for node ports, whatever their number", func(s *state) {
			note(s, AnnotationLBType, "maglevdsr")
			s.loadBalancer("198.51.100.1")
			s.svc.Spec.Ports[0].Port, s.svc.Spec.Ports[0].NodePort = 8080, 8080
		}, "ClusterIP TCP;10.96.0.10;8080 " + dsr + "NodePort TCP;192.0.2.11;8080 " + both + " lb=maglev real\n" + "LoadBalancer TCP;198.51.100.1;8080 " + dsr,
			[]string{"Unsupported | vppLBType | node port of spec.ports[0]"}},
		{"maglevdsr with nothing to send to is nobody's mistake", func(s *state) {
			note(s, AnnotationLBType, "maglevdsr")
			s.endpoints("a:n")
		}, web("-> none lb=maglev reject"), nil},
		{"a hash of several fields", func(s *state) { note(s, AnnotationHashConfig, "dstaddr, srcaddr,iproto") }, web(both + " hash=srcaddr,dstaddr,iproto"), nil},
		{"scenario 70: a typo is told, and means the default", func(s *state) { note(s, AnnotationLBType, "mglv") }, web(both),
			[]string{"AnnotationRefused | vppLBType | mglv | ecmp | maglevdsr"}},
		{"a wrong hash field is told", func(s *state) { note(s, AnnotationHashConfig, "srcaddr,source") }, web(both),
			[]string{"AnnotationRefused | vppHashConfig | source | srcport"}},
	})
}

// TestJ4HealthAddresses: the selected addresses of a family; nowhere, if the
// node has none of those.
func TestJ4HealthAddresses(t *testing.T) {
	for _, tc := range []struct{ selected, want string }{
		{"primary", "IPv4 [192.0.2.11] IPv6 [2001:db8::11] "},
		{"all", "IPv4 [0.0.0.0] IPv6 [::] "},
		{"192.0.2.0/24", "IPv4 [192.0.2.11] IPv6 [::] "}, // the other family is not restricted
		{"203.0.113.0/24", "IPv4 [] IPv6 [::] "},
		{"203.0.113.0/24,2001:db8:9::/64", "IPv4 [] IPv6 [] "},
	} {
		s := newState().dual().loadBalancer().local(false, true)
		s.svc.Spec.HealthCheckNodePort = 32000
		selected, err := ParseNodePortAddresses(strings.Split(tc.selected, ","))
		if err != nil {
			t.Fatal(err)
		}
		s.Options.NodePortAddresses = selected
		got := ""
		if h := checkedService(t, s.Input).Health; h != nil {
			for _, f := range h.Families {
				got += fmt.Sprintf("%s %v ", f.Family, f.Addresses)
			}
		}
		if got != tc.want {
			t.Errorf("%s: %q, wanted %q", tc.selected, got, tc.want)
		}
	}
	s := newState().loadBalancer().local(false, true)
	s.svc.Spec.HealthCheckNodePort, s.Node.Addresses = 32000, nil
	if h := checkedService(t, s.Input).Health; h == nil || len(h.Families) != 1 || len(h.Families[0].Addresses) > 0 {
		t.Errorf("before the node's addresses are known: %+v", h)
	}
}

// TestHealth has the rules J1 and J3.
func TestHealth(t *testing.T) {
	given := func(edit ...func(*state)) *HealthCheck {
		s := newState().loadBalancer("198.51.100.1").local(false, true)
		s.svc.Spec.HealthCheckNodePort = 32000
		for _, f := range edit {
			f(s)
		}
		return checkedService(t, s.Input).Health
	}
	h := given(func(s *state) {
		s.endpoints("a:r b:r c:t")
		s.Slices = append(s.Slices, slice("web-2", "a:r c:n", port("other", 9000)))
	})
	if h == nil || h.Port != 32000 || len(h.Families) != 1 || h.Families[0].LocalEndpoints != 1 {
		t.Errorf("J3 distinct ready local addresses: %+v", h)
	}
	if h := given(func(s *state) { s.endpoints("a:t") }); h == nil || h.Families[0].LocalEndpoints != 0 {
		t.Errorf("J3 terminating ones do not count: %+v", h)
	}
	for want, cidrs := range map[string][]string{
		"[0.0.0.0]":    {"all"},
		"[192.0.2.11]": {"192.0.2.0/24"},
		"[]":           {"198.18.0.0/15"},
	} {
		h := given(func(s *state) {
			var err error
			if s.Options.NodePortAddresses, err = ParseNodePortAddresses(cidrs); err != nil {
				t.Fatal(err)
			}
		})
		if h == nil || fmt.Sprint(h.Families[0].Addresses) != want {
			t.Errorf("J4 node ports at %s: %+v, want %s", cidrs, h, want)
		}
	}
	for name, f := range map[string]func(*state){
		"type":   func(s *state) { s.svc.Spec.Type = corev1.ServiceTypeNodePort },
		"policy": func(s *state) { s.svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster },
		"port":   func(s *state) { s.svc.Spec.HealthCheckNodePort = 0 },
	} {
		if h := given(f); h != nil {
			t.Errorf("J1 without the right %s: %+v", name, h)
		}
	}
}

// TestNothingPanics: empty and half-empty objects.
func TestNothingPanics(t *testing.T) {
	for _, in := range []Input{
		{}, {Service: &corev1.Service{}},
		{Service: &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.1", Ports: []corev1.ServicePort{{}}}}},
	} {
		if got := Service(in).Claims; len(got) != 0 {
			t.Errorf("claims %v of nothing", got)
		}
	}
}
