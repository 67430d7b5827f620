// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"calico-vpp-services/services/model"
)

// source deals out the bytes of a fuzz input, and zeros after its end.
type source struct{ data []byte }

func (s *source) n(limit int) int {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return int(b) % limit
}

func pick[T any](s *source, list ...T) T { return list[s.n(len(list))] }

// oddInput builds a Service and its slices, odd ones included.
func oddInput(data []byte) Input {
	s := &source{data}
	st := newState()
	svc := st.svc
	pickOdd := func(list ...string) string { return pick(s, list...) }
	svc.Spec.Type = pick(s, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName, "Odd")
	svc.Spec.ClusterIP = pickOdd("10.96.0.10", "", "None", "fd30::10", "010.96.0.10", "x")
	svc.Spec.ClusterIPs = [][]string{{"10.96.0.10"}, nil, {"10.96.0.10", "fd30::10"}, {"fd30::10"}, {"None"}, {"", "x"}}[s.n(6)]
	svc.Spec.IPFamilies = [][]corev1.IPFamily{{corev1.IPv4Protocol}, nil, {corev1.IPv4Protocol, corev1.IPv6Protocol}, {corev1.IPv6Protocol}, {"IPv5"}}[s.n(5)]
	svc.Spec.InternalTrafficPolicy = []*corev1.ServiceInternalTrafficPolicy{nil, ptr(corev1.ServiceInternalTrafficPolicyLocal), ptr(corev1.ServiceInternalTrafficPolicyCluster)}[s.n(3)]
	svc.Spec.ExternalTrafficPolicy = pick(s, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal, "")
	svc.Spec.SessionAffinity = pick(s, corev1.ServiceAffinityNone, corev1.ServiceAffinityClientIP, "")
	if s.n(3) == 0 {
		svc.Annotations[AnnotationLBType] = pickOdd("maglev", "maglevdsr", "ecmp", "", "x")
	}
	if s.n(3) == 0 {
		svc.Annotations[AnnotationHashConfig] = pickOdd("srcaddr", "srcport,dstport", ",", "x", "")
	}
	svc.Spec.Ports = nil
	for range s.n(4) {
		svc.Spec.Ports = append(svc.Spec.Ports, corev1.ServicePort{
			Name: pickOdd("http", "", "b"), Protocol: corev1.Protocol(pickOdd("TCP", "UDP", "SCTP", "", "ICMP")),
			Port: pick[int32](s, 80, 443, 0, -1, 70000, 6443), NodePort: pick[int32](s, 0, 30080, 30081, -1, 99999),
		})
	}
	for range s.n(3) {
		svc.Spec.ExternalIPs = append(svc.Spec.ExternalIPs, pickOdd("198.51.100.1", "192.0.2.11", "10.96.0.1", "10.96.0.10", "2001:db8:9::1", "::", "127.0.0.1", "x", "", "::ffff:198.51.100.1"))
	}
	for range s.n(3) {
		svc.Status.LoadBalancer.Ingress = append(svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{
			IP:     pickOdd("198.51.100.1", "198.51.100.2", "192.0.2.11", "", "x", "2001:db8:9::2"),
			IPMode: []*corev1.LoadBalancerIPMode{nil, ptr(corev1.LoadBalancerIPModeVIP), ptr(corev1.LoadBalancerIPModeProxy)}[s.n(3)],
		})
	}
	if s.n(4) == 0 {
		svc.Spec.LoadBalancerSourceRanges = []string{pickOdd("10.0.0.0/8", "0.0.0.0/0", "x", "2001:db8::/32")}
	}
	st.Slices = nil
	for i := range s.n(5) {
		st.Slices = append(st.Slices, oddSlice(s, fmt.Sprintf("s%d", i)))
	}
	st.Node.Zone = pickOdd("z1", "")
	return st.Input
}

func oddSlice(s *source, name string) *discoveryv1.EndpointSlice {
	if s.n(20) == 1 {
		return nil
	}
	sl := slice(name, "")
	sl.AddressType = discoveryv1.AddressType(pick(s, "IPv4", "IPv6", "FQDN", ""))
	sl.Labels[discoveryv1.LabelServiceName] = pick(s, "web", "web", "web", "other", "")
	for range s.n(3) {
		sl.Ports = append(sl.Ports, discoveryv1.EndpointPort{
			Name:     []*string{ptr("http"), ptr(""), ptr("b"), nil}[s.n(4)],
			Port:     []*int32{ptr(int32(8080)), ptr(int32(9090)), nil, ptr(int32(0)), ptr(int32(70000))}[s.n(5)],
			Protocol: []*corev1.Protocol{ptr(corev1.ProtocolTCP), ptr(corev1.ProtocolUDP), nil, ptr(corev1.Protocol("X"))}[s.n(4)],
		})
	}
	b := func() *bool { return []*bool{nil, ptr(true), ptr(false)}[s.n(3)] }
	for range s.n(6) {
		e := discoveryv1.Endpoint{
			Addresses:  [][]string{{v4a}, {v4b}, {v6a}, {v6b}, {v4a, v4b}, {}, {"127.0.0.1"}, {"x"}, {"010.244.1.1"}}[s.n(9)],
			Conditions: discoveryv1.EndpointConditions{Ready: b(), Serving: b(), Terminating: b()},
			NodeName:   []*string{ptr("n1"), ptr("n2"), nil, ptr("")}[s.n(4)],
		}
		if s.n(3) == 0 {
			e.Hints = &discoveryv1.EndpointHints{}
			if s.n(2) == 0 {
				e.Hints.ForZones = []discoveryv1.ForZone{{Name: pick(s, "z1", "z2")}}
			}
			if s.n(2) == 0 {
				e.Hints.ForNodes = []discoveryv1.ForNode{{Name: pick(s, "n1", "n2")}}
			}
		}
		sl.Endpoints = append(sl.Endpoints, e)
	}
	return sl
}

// FuzzService: whatever comes in, nothing panics, the result is in order (see
// invariants), and each key has exactly the backends that the oracle gives it.
func FuzzService(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a service with several slices and hints, please"))
	f.Add([]byte{2, 0, 2, 2, 1, 1, 1, 1, 1, 2, 0, 0, 0, 0, 1, 2, 1, 1, 2, 1, 0, 2, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 5, 0, 1, 1, 1, 0, 2, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		in := oddInput(data)
		res := checkedService(t, in)
		for i := range res.Claims {
			c := &res.Claims[i]
			if got, want := backendsOf(c), oracle(&in, c); got != want {
				t.Errorf("%s %s: %s, the oracle says %s", c.Kind, c.Key(), got, want)
			}
		}
	})
}

func backendsOf(c *model.Claim) string {
	if !c.Served() {
		return c.Unserved.String()
	}
	var out []string
	for _, b := range c.Entry.Backends {
		out = append(out, netip.AddrPortFrom(b.IP, b.Port).String())
	}
	return strings.Join(out, " ")
}

// oracle is the pseudo-code of service-semantics.md 0 written down plainly: for
// one claim it looks at every endpoint of every slice anew.
func oracle(in *Input, c *model.Claim) string {
	var port *corev1.ServicePort
	for i := range in.Service.Spec.Ports {
		p := &in.Service.Spec.Ports[i]
		proto := strings.ToUpper(string(p.Protocol))
		if proto == "" {
			proto = "TCP"
		}
		number := p.Port
		if c.Kind == model.KindNodePort {
			number = p.NodePort
		}
		if port == nil && proto == c.Entry.Proto.String() && number == int32(c.Entry.Port) && p.Name == c.PortName && p.Port >= 1 && p.Port <= 65535 {
			port = p
		}
	}
	if port == nil {
		return "no such port"
	}
	eps, ok := oracleEndpoints(in, c, port)
	if !ok {
		return backendsOf(c)
	}
	choose := func(list []oracleEndpoint, ok func(oracleEndpoint) bool) []oracleEndpoint {
		var out []oracleEndpoint
		for _, e := range list {
			if ok(e) {
				out = append(out, e)
			}
		}
		return out
	}
	ready := choose(eps, func(e oracleEndpoint) bool { return e.ready })
	leaving := choose(eps, func(e oracleEndpoint) bool { return !e.ready && e.serving && e.terminating })
	cluster := ready
	byNode := choose(ready, func(e oracleEndpoint) bool { return slices.Contains(e.nodes, in.Node.Name) })
	byZone := choose(ready, func(e oracleEndpoint) bool { return in.Node.Zone != "" && slices.Contains(e.zones, in.Node.Zone) })
	switch {
	case len(choose(ready, func(e oracleEndpoint) bool { return len(e.nodes) > 0 })) == len(ready) && len(byNode) > 0:
		cluster = byNode
	case len(choose(ready, func(e oracleEndpoint) bool { return len(e.zones) > 0 })) == len(ready) && len(byZone) > 0:
		cluster = byZone
	}
	if len(cluster) == 0 {
		cluster = leaving
	}
	here := func(e oracleEndpoint) bool { return e.local }
	local := choose(ready, here)
	if len(local) == 0 {
		local = choose(leaving, here)
	}
	set := cluster
	internal := in.Service.Spec.InternalTrafficPolicy
	switch {
	case c.Kind == model.KindClusterIP && internal != nil && *internal == corev1.ServiceInternalTrafficPolicyLocal,
		c.Kind == model.KindNodePort && in.Service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal:
		set = local
	case c.Kind != model.KindClusterIP && in.Service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && len(local) > 0:
		set = local
	}
	if len(set) == 0 {
		if len(ready)+len(leaving) > 0 {
			return "drop"
		}
		return "reject"
	}
	var addrs []netip.AddrPort
	for _, e := range set {
		addrs = append(addrs, e.addr)
	}
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	var out []string
	for _, a := range addrs {
		out = append(out, a.String())
	}
	return strings.Join(out, " ")
}

type oracleEndpoint struct {
	addr                               netip.AddrPort
	ready, serving, terminating, local bool
	zones, nodes                       []string
}

// oracleEndpoints lists each usable ip:port of the claim's family once.
// Where copies of one disagree, the rules say only that one which does not
// terminate wins (B13); which is the code's choice, and ok is false.
func oracleEndpoints(in *Input, c *model.Claim, port *corev1.ServicePort) (list []oracleEndpoint, ok bool) {
	type copyOf struct {
		oracleEndpoint
		node string
	}
	copies := map[netip.AddrPort][]copyOf{}
	family := discoveryv1.AddressTypeIPv4
	if c.Entry.IP.Is6() {
		family = discoveryv1.AddressTypeIPv6
	}
	for _, s := range in.Slices {
		if s == nil || s.AddressType != family || s.Labels[discoveryv1.LabelServiceName] != in.Service.Name {
			continue
		}
		// Of several ports of one name and protocol in a slice, all are used.
		for _, p := range s.Ports {
			proto := "TCP"
			if p.Protocol != nil {
				proto = string(*p.Protocol)
			}
			if p.Name == nil || *p.Name != port.Name || p.Port == nil || *p.Port < 1 || *p.Port > 65535 || proto != c.Entry.Proto.String() {
				continue
			}
			for _, e := range s.Endpoints {
				if len(e.Addresses) == 0 {
					continue
				}
				ip, err := netip.ParseAddr(strings.Replace(e.Addresses[0], "010.", "10.", 1))
				if err != nil || ip.IsLoopback() || ip.Is6() != c.Entry.IP.Is6() {
					continue
				}
				yes := func(b *bool, missing bool) bool { return b == nil && missing || b != nil && *b }
				x := copyOf{oracleEndpoint: oracleEndpoint{
					addr:  netip.AddrPortFrom(ip, uint16(*p.Port)),
					ready: yes(e.Conditions.Ready, true), serving: yes(e.Conditions.Serving, true), terminating: yes(e.Conditions.Terminating, false),
				}}
				if e.NodeName != nil {
					x.node = *e.NodeName
					x.local = x.node == in.Node.Name
				}
				if e.Hints != nil {
					for _, z := range e.Hints.ForZones {
						x.zones = append(x.zones, z.Name)
					}
					for _, n := range e.Hints.ForNodes {
						x.nodes = append(x.nodes, n.Name)
					}
				}
				copies[x.addr] = append(copies[x.addr], x)
			}
		}
	}
	var out []oracleEndpoint
	for _, list := range copies {
		first := list[0]
		for _, x := range list[1:] {
			if fmt.Sprint(x) != fmt.Sprint(first) {
				return nil, false
			}
		}
		out = append(out, first.oracleEndpoint)
	}
	return out, true
}
