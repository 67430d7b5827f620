// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"calico-vpp-services/services/model"
)

// The world of the tests: this is node n1 in zone z1. Endpoints a and c are on it,
// b and d on n2, u says no node.
const (
	v4a, v4b, v4c, v4d, v4u = "10.244.1.1", "10.244.2.1", "10.244.1.2", "10.244.2.2", "10.244.9.1"
	v6a, v6b, v6c, v6d, v6u = "fd10:1::1", "fd10:2::1", "fd10:1::2", "fd10:2::2", "fd10:9::1"
)

func ptr[T any](v T) *T { return &v }

// state is an Input that test cases change.
type state struct {
	Input
	svc *corev1.Service
}

// newState has the Service shop/web, 10.96.0.10:80 to port 8080 of a and b.
func newState() *state {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: "uid-web", Annotations: map[string]string{}, Labels: map[string]string{},
			CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		},
		Spec: corev1.ServiceSpec{
			Type:       corev1.ServiceTypeClusterIP,
			ClusterIP:  "10.96.0.10",
			ClusterIPs: []string{"10.96.0.10"},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:      []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	opts := DefaultOptions()
	opts.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd30::/64")}
	return &state{svc: svc, Input: Input{
		Service: svc,
		Slices:  []*discoveryv1.EndpointSlice{slice("web-1", "a:r b:r", port("http", 8080))},
		Node:    Node{Name: "n1", Zone: "z1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("2001:db8::11")}},
		Options: opts,
	}}
}

// dual gives the Service a second family, with endpoints of its own.
func (s *state) dual() *state {
	s.svc.Spec.ClusterIPs = []string{"10.96.0.10", "fd30::10"}
	s.svc.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
	s.Slices = append(s.Slices, slice6("web-6", "a:r b:r", port("http", 8080)))
	return s
}

// loadBalancer makes the Service one with a node port and load balancer IPs.
func (s *state) loadBalancer(ips ...string) *state {
	s.svc.Spec.Type = corev1.ServiceTypeLoadBalancer
	s.svc.Spec.Ports[0].NodePort = 30080
	for _, ip := range ips {
		s.svc.Status.LoadBalancer.Ingress = append(s.svc.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
	}
	return s
}

func (s *state) local(internal, external bool) *state {
	if internal {
		s.svc.Spec.InternalTrafficPolicy = ptr(corev1.ServiceInternalTrafficPolicyLocal)
	}
	if external {
		s.svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	return s
}

// endpoints replaces those of the first slice.
func (s *state) endpoints(spec string) *state {
	s.Slices[0].Endpoints = parseEndpoints(spec, false)
	return s
}

// port is a TCP port of a slice.
func port(name string, number int32) discoveryv1.EndpointPort {
	return discoveryv1.EndpointPort{Name: &name, Port: &number, Protocol: ptr(corev1.ProtocolTCP)}
}

func slice(name, endpoints string, ports ...discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   parseEndpoints(endpoints, false),
		Ports:       ports,
	}
}

func slice6(name, endpoints string, ports ...discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
	s := slice(name, "", ports...)
	s.AddressType = discoveryv1.AddressTypeIPv6
	s.Endpoints = parseEndpoints(endpoints, true)
	return s
}

// parseEndpoints reads the notation of the golden vectors, such as
// "a:t[z1]{n1} b:r": name, state (r ready, t serving and terminating, x terminating
// and not serving, n not ready, rt ready and terminating, - no condition
// given), zone hints in [], node hints in {}.
func parseEndpoints(spec string, v6 bool) []discoveryv1.Endpoint {
	var out []discoveryv1.Endpoint
	for word := range strings.FieldsSeq(spec) {
		name, rest, _ := strings.Cut(word, ":")
		var e discoveryv1.Endpoint
		addr, node := testEndpoint(name, v6)
		e.Addresses = []string{addr}
		if node != "" {
			e.NodeName = &node
		}
		cond, hints := rest, ""
		if i := strings.IndexAny(rest, "[{"); i >= 0 {
			cond, hints = rest[:i], rest[i:]
		}
		if cond != "-" {
			e.Conditions = testConditions(cond)
		}
		for hints != "" {
			end := strings.IndexAny(hints, "]}")
			if e.Hints == nil {
				e.Hints = &discoveryv1.EndpointHints{}
			}
			for h := range strings.SplitSeq(hints[1:end], ",") {
				if hints[0] == '[' {
					e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: h})
				} else {
					e.Hints.ForNodes = append(e.Hints.ForNodes, discoveryv1.ForNode{Name: h})
				}
			}
			hints = hints[end+1:]
		}
		out = append(out, e)
	}
	return out
}

func testEndpoint(name string, v6 bool) (addr, node string) {
	i := strings.Index("abcdu", name)
	node = []string{"n1", "n2", "n1", "n2", ""}[i]
	if v6 {
		return []string{v6a, v6b, v6c, v6d, v6u}[i], node
	}
	return []string{v4a, v4b, v4c, v4d, v4u}[i], node
}

func testConditions(cond string) discoveryv1.EndpointConditions {
	c := func(ready, serving, terminating bool) discoveryv1.EndpointConditions {
		return discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}
	}
	switch cond {
	case "r":
		return c(true, true, false)
	case "t":
		return c(false, true, true)
	case "x":
		return c(false, false, true)
	case "n":
		return c(false, false, false)
	case "rt":
		return c(true, true, true)
	}
	panic("endpoint state " + cond)
}

// show prints claims, one a line: kind, entry, and why it is unserved.
func show(claims []model.Claim) string {
	var out strings.Builder
	for i := range claims {
		c := &claims[i]
		fmt.Fprintf(&out, "%s %s", c.Kind, &c.Entry)
		if !c.Served() {
			out.WriteString(" " + c.Unserved.String())
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// lines is the form of show for literals: indented lines without the first.
func lines(s string) string {
	var out strings.Builder
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}

// rule is one row: a change to newState, the claims that must come out, and for
// each Problem some words that it must have.
type rule struct {
	name     string
	given    func(s *state)
	claims   string
	problems []string
}

func runRules(t *testing.T, rules []rule) {
	t.Helper()
	for _, tc := range rules {
		t.Run(tc.name, func(t *testing.T) {
			s := newState()
			tc.given(s)
			res := checkedService(t, s.Input)
			if diff := cmp.Diff(lines(tc.claims), show(res.Claims)); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
			checkProblems(t, res.Problems, tc.problems)
		})
	}
}

func checkProblems(t *testing.T, got []model.Problem, want []string) {
	t.Helper()
	for _, w := range want {
		i := slices.IndexFunc(got, func(p model.Problem) bool {
			for word := range strings.SplitSeq(w, " | ") {
				if !strings.Contains(p.String(), word) {
					return false
				}
			}
			return true
		})
		if i < 0 {
			t.Errorf("no problem with %q in %q", w, got)
			continue
		}
		got = slices.Delete(slices.Clone(got), i, i+1)
	}
	if len(got) > 0 {
		t.Errorf("unexpected problems: %q", got)
	}
}

// checkedService resolves and checks what holds of any input: see invariants.
func checkedService(t testing.TB, in Input) Result {
	t.Helper()
	var before Input
	before.Service = in.Service.DeepCopy()
	for _, s := range in.Slices {
		before.Slices = append(before.Slices, s.DeepCopy())
	}
	res := Service(in)
	if diff := cmp.Diff(before.Service, in.Service) + cmp.Diff(before.Slices, in.Slices); diff != "" {
		t.Errorf("the input was modified:\n%s", diff)
	}
	invariants(t, &in, &res)
	return res
}

// invariants checks claims and problems by themselves, and that the order of
// slices and endpoints does not matter.
func invariants(t testing.TB, in *Input, res *Result) {
	t.Helper()
	for i := range res.Claims {
		c := &res.Claims[i]
		if i > 0 && res.Claims[i-1].Key().Compare(c.Key()) >= 0 {
			t.Errorf("claims not sorted or not unique at %s", c.Key())
		}
		if c.Served() {
			if err := c.Entry.Validate(); err != nil {
				t.Errorf("%s: %v", c.Kind, err)
			}
		}
		if want := in.Node.Has(c.Entry.IP); c.Entry.IsRealIP != want {
			t.Errorf("%s: real is %v, wanted %v", c.Key(), c.Entry.IsRealIP, want)
		}
		if c.Service != model.ServiceIDOf(in.Service.Namespace, in.Service.Name) {
			t.Errorf("%s is claimed for %s", c.Key(), c.Service)
		}
	}
	if !slices.IsSortedFunc(res.Problems, model.Problem.Compare) || len(slices.Compact(slices.Clone(res.Problems))) != len(res.Problems) {
		t.Errorf("problems not sorted or not unique: %q", res.Problems)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	turned := *in
	turned.Slices = nil
	for _, s := range in.Slices {
		s = s.DeepCopy()
		if s != nil {
			rng.Shuffle(len(s.Endpoints), func(i, j int) { s.Endpoints[i], s.Endpoints[j] = s.Endpoints[j], s.Endpoints[i] })
		}
		turned.Slices = append(turned.Slices, s)
	}
	rng.Shuffle(len(turned.Slices), func(i, j int) { turned.Slices[i], turned.Slices[j] = turned.Slices[j], turned.Slices[i] })
	if diff := cmp.Diff(*res, Service(turned), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("another order of slices gives another result:\n%s", diff)
	}
}
