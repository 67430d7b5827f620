// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"calico-vpp-services/services"
	"calico-vpp-services/vppsim"
)

func cidr(name string, list ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: list}}
}

// refuses lists the prefixes that VPP refuses.
func (a *agent) refuses() string {
	var out []string
	for _, r := range a.sim.Routes() {
		if len(r.Paths) == 1 && r.Paths[0].Type == 5 {
			out = append(out, r.Prefix.String())
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (a *agent) expectRefuses(want string) {
	a.t.Helper()
	a.settle()
	if got := a.refuses(); got != want {
		a.t.Errorf("VPP refuses %q, want %q", got, want)
	}
}

// E1, E4, E5 and scenario 73: what nothing serves is refused: service CIDRs as
// a whole, other claimed addresses while they are claimed; never the node's own.
func TestE1E4E5Scenario73UnservedIsRefused(t *testing.T) {
	external := loadBalancer // whose addresses are nobody's else
	a := synced(t, newSim(t))
	a.expectRefuses("")
	a.apply(cidr("kubernetes", "10.96.0.0/16", "fd00:10:96::/112"))
	a.expectRefuses("10.96.0.0/16 fd00:10:96::/112")
	web := service("web", "10.96.0.1", 1, external("198.51.100.10", "192.0.2.11"))
	a.apply(web)
	a.expectRefuses("10.96.0.0/16 198.51.100.10/32 fd00:10:96::/112")
	a.apply(service("other", "10.97.0.1", 1, external("198.51.100.10")))
	a.expectRefuses("10.96.0.0/16 10.97.0.1/32 198.51.100.10/32 fd00:10:96::/112")
	a.delete(web)
	a.expectRefuses("10.96.0.0/16 10.97.0.1/32 198.51.100.10/32 fd00:10:96::/112") // still other's
	a.delete(service("other", "10.97.0.1", 1))
	a.expectRefuses("10.96.0.0/16 fd00:10:96::/112")
	a.apply(cidr("more", "10.98.0.0/16"), cidr("kubernetes", "10.96.0.0/15"))
	a.expectRefuses("10.96.0.0/15 10.98.0.0/16")
	a.delete(cidr("more"))
	a.expectRefuses("10.96.0.0/15")
	a.apply(cidr("bad", "0.0.0.0/0", "nonsense", "10.99.0.0/16"))
	a.expectRefuses("10.96.0.0/15 10.99.0.0/16")
}

// E6: the first endpoint comes and the last one goes with one write each, and
// the packet is refused or translated, never forwarded to the default route.
func TestE6E7NoLeakBetweenRefusedAndServed(t *testing.T) {
	a := synced(t, newSim(t), cidr("kubernetes", "10.96.0.0/16"), service("web", "10.96.0.1", 1))
	where := func() vppsim.Verdict {
		return a.sim.Trace(vppsim.Packet{
			Proto: 6, Src: netip.MustParseAddrPort("10.244.1.9:40000"), Dst: netip.MustParseAddrPort("10.96.0.1:80"), InterfaceIndex: 1,
		})
	}
	if got := where(); got.Outcome != vppsim.Unreachable {
		t.Errorf("an unserved Service: %+v", got)
	}
	routes := a.sim.Calls()["ip_route_add_del"]
	a.costs(1, 0, func() { a.apply(slice("web-1", "web", "10.244.1.5")) })
	a.costs(0, 1, func() { a.apply(slice("web-1", "web")) })
	if n := a.sim.Calls()["ip_route_add_del"]; n != routes {
		t.Errorf("%d route calls; endpoints need none", n-routes)
	}
	if got := where(); got.Outcome != vppsim.Unreachable {
		t.Errorf("an emptied Service: %+v", got)
	}
}

// A new VPP gets the routes again, one that is the same hears nothing, what
// others made stays, and drift is mended.
func TestRefusalSurvivesVPP(t *testing.T) {
	a := synced(t, newSim(t), cidr("kubernetes", "10.96.0.0/16"), service("web", "10.96.0.1", 1, loadBalancer("198.51.100.10")))
	const want = "10.96.0.0/16 198.51.100.10/32"
	a.expectRefuses(want)
	writes := a.sim.Writes()
	a.sim.DropLink()
	a.await("connected again", func() bool { st := a.server.Status(); return a.sim.Clients() == 1 && st.Ready() })
	a.expectRefuses(want)
	if n := a.sim.Writes(); n != writes {
		t.Errorf("a reconnect made %d writes", n-writes)
	}
	if err := a.sim.Restart(); err != nil {
		t.Fatal(err)
	}
	a.await("the routes are back", func() bool { return a.refuses() == want })
	a.expectRefuses(want)
}

// A route takes a whole address, so none is made for one that may be another
// host's: an external IP outside of the declared pools, and what is on a link of VPP.
func TestE5OtherHostsAreNotCutOff(t *testing.T) {
	sim := newSim(t, "192.0.2.11/24")
	a := start(t, sim, func(c *services.Config) { c.VirtualCIDRs = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")} })
	a.apply(node("192.0.2.11"),
		service("typed", "10.96.0.1", 1, external("198.51.100.10", "192.0.2.12", "203.0.113.7")),
		service("klipper", "10.96.0.2", 1, loadBalancer("192.0.2.13", "198.51.100.11")))
	a.sync()
	a.expectRefuses("10.96.0.1/32 10.96.0.2/32 198.51.100.11/32 203.0.113.0/24")
	for _, dst := range []string{"192.0.2.12:10250", "192.0.2.13:179", "198.51.100.10:22"} {
		v := sim.Trace(vppsim.Packet{Proto: 6, Src: netip.MustParseAddrPort("192.0.2.11:40000"), Dst: netip.MustParseAddrPort(dst), InterfaceIndex: 1})
		if v.Outcome == vppsim.Unreachable {
			t.Errorf("%s is cut off", dst)
		}
	}
}

// An address that VPP has is the node's own, whatever the Node object and the
// configuration say: real, and with its protected ports.
func TestG12OwnAddressesOfAllSources(t *testing.T) {
	a := start(t, newSim(t, "192.0.2.99/24"), func(c *services.Config) { c.NodeIPs = []netip.Addr{netip.MustParseAddr("192.0.2.11")} })
	a.apply(node("203.0.113.7"), slice("web-1", "web", "10.244.1.5"),
		service("web", "10.96.0.1", 1, external("203.0.113.7", "192.0.2.99"), func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "ssh", Port: 22})
			s.Spec.Ports[0].Name = ""
		}))
	a.sync()
	a.settle()
	if got, want := a.vpp(), "TCP;10.96.0.1;80 -> 10.244.1.5:8080\nTCP;192.0.2.99;80 -> 10.244.1.5:8080 real\nTCP;203.0.113.7;80 -> 10.244.1.5:8080 real\n"; got != want {
		t.Errorf("VPP holds\n%swant\n%s", got, want)
	}
	if got := a.table(); strings.Contains(got, "203.0.113.7;22") || strings.Contains(got, "192.0.2.99;22") {
		t.Errorf("a protected port of the node is claimed:\n%s", got)
	}
}

// One route that VPP refuses holds up no other, and is tried on.
func TestRefusedRouteHoldsUpNoOther(t *testing.T) {
	a := start(t, newSim(t))
	a.sim.SetFaults(vppsim.Faults{Messages: []string{"ip_route_add_del"}, FailNext: 1})
	a.apply(node("192.0.2.11"), cidr("kubernetes", "10.96.0.0/16", "fd00:10:96::/112"))
	a.sync()
	a.await("the second", func() bool { return strings.Contains(a.refuses(), "fd00") })
	a.expectRefuses("10.96.0.0/16 fd00:10:96::/112")
}

func TestRejectUnservedOff(t *testing.T) {
	a := start(t, newSim(t), func(c *services.Config) { c.RejectUnserved = false })
	a.apply(node("192.0.2.11"), cidr("kubernetes", "10.96.0.0/16"), service("web", "10.96.0.1", 1, external("198.51.100.10")))
	a.sync()
	a.expectRefuses("")
}

// Scenario 15 with what the cluster tells: a ServiceCIDR object and a pod of a
// slice guard their addresses.
func TestScenario15GuardsFromObjects(t *testing.T) {
	pod := slice("x-1", "x", "10.244.1.5")
	pod.Endpoints[0].TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: "x-0"}
	a := synced(t, newSim(t), cidr("kubernetes", "10.96.0.0/16"), pod, slice("evil-1", "evil", "10.244.1.6"),
		service("evil", "10.96.0.1", 1, external("10.96.0.9", "10.244.1.5", "198.51.100.10")))
	// K15: it is the same whether the pod or the Service comes first.
	late := synced(t, newSim(t), service("evil", "10.96.0.1", 1, external("10.244.1.5")))
	if got := late.table(); !strings.Contains(got, "10.244.1.5;80") {
		t.Errorf("nobody's address is refused:\n%s", got)
	}
	late.apply(pod)
	late.settle()
	if got := late.table(); strings.Contains(got, "10.244.1.5;80") {
		t.Errorf("the address of a pod that came later is served:\n%s", got)
	}
	late.delete(pod)
	late.settle()
	if got := late.table(); !strings.Contains(got, "10.244.1.5;80") {
		t.Errorf("the pod is gone, its address is still refused:\n%s", got)
	}
	if got := a.table(); strings.Contains(got, "10.96.0.9") || strings.Contains(got, "10.244.1.5;") || !strings.Contains(got, "198.51.100.10;80") {
		t.Errorf("table\n%s", got)
	}
}
