// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"calico-vpp-services/services"
	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink"
	"calico-vpp-services/vpplink/types"
	"calico-vpp-services/vppsim"
)

// many makes n Services with a slice each.
func many(n int) []metav1.Object {
	var out []metav1.Object
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		out = append(out, service(name, fmt.Sprintf("10.97.%d.%d", i>>8, i&255), i), slice(name, name, "10.244.1.5", "10.244.2.5"))
	}
	return out
}

// Scenario 32: the link is lost and comes back, VPP is the same: it hears a
// dump and no write, whatever a dump does not tell.
func TestScenario32ReconnectIsQuiet(t *testing.T) {
	a := synced(t, newSim(t), append(many(300),
		service("sticky", "10.96.0.1", 1, func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }),
		slice("sticky-1", "sticky", "10.244.1.5"),
		service("np", "10.96.0.2", 1, nodePort(30080)), slice("np-1", "np", "10.244.1.5"))...)
	before := a.calls.Read()
	a.sim.DropLink()
	a.await("another dump", func() bool { return a.calls.Read().Sub(before).Dump > 0 && a.server.Status().Connected })
	a.settle()
	if c := a.calls.Read().Sub(before); c.Writes() != 0 {
		t.Errorf("calls %+v, want no writes", c)
	}
}

// Scenario 35: VPP is replaced while a delete is queued. All ids are void;
// everything is programmed once.
func TestScenario35AnotherVPP(t *testing.T) {
	a := synced(t, newSim(t), many(100)...)
	before := a.calls.Read()
	first := a.server.Status().VPPInstance
	a.sim.Stall()
	a.delete(many(1)[0])
	if err := a.sim.Restart(); err != nil {
		t.Fatal(err)
	}
	a.sim.Resume()
	a.await("another instance", func() bool { st := a.server.Status(); return st.Connected && st.VPPInstance != first })
	a.settle()
	if n := len(a.sim.Translations()); n != 99 {
		t.Errorf("%d translations, want 99", n)
	}
	if c := a.calls.Read().Sub(before); c.Update != 99 || c.Del > 1 {
		t.Errorf("calls %+v, want 99 updates", c)
	}
}

// Scenario 44: VPP dies at any message of a round. The next one is programmed
// in full, and no id of before is used.
func TestK6Scenario44VPPDiesInARound(t *testing.T) {
	for _, after := range []int{1, 2, 50, 99, 100} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			a := synced(t, newSim(t), service("old", "10.96.0.1", 1), slice("old-1", "old", "10.244.1.5"))
			a.sim.SetFaults(vppsim.Faults{Messages: []string{"cnat_translation_update"}, DieAfter: after})
			a.apply(many(100)...)
			select {
			case <-a.sim.CrashC():
			case <-time.After(10 * time.Second):
				t.Fatal("VPP lives")
			}
			a.sim.SetFaults(vppsim.Faults{})
			a.delete(service("old", "10.96.0.1", 1))
			if err := a.sim.Restart(); err != nil {
				t.Fatal(err)
			}
			a.settle()
			if n := len(a.sim.Translations()); n != 100 {
				t.Errorf("%d translations, want 100", n)
			}
		})
	}
}

// The link is cut at every kind of step of a mixed round, the VPP stays: what
// was in doubt is found out by a dump.
func TestLinkCutInARound(t *testing.T) {
	for cut := 1; cut <= 8; cut++ {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			lb := annotated("cni.projectcalico.org/vppHashConfig", "srcaddr")
			a := synced(t, newSim(t),
				service("a", "10.96.0.1", 1), slice("a-1", "a", "10.244.1.5", "10.244.1.6"),
				service("b", "10.96.0.2", 1), slice("b-1", "b", "10.244.1.5"),
				service("c", "10.96.0.3", 1, lb), slice("c-1", "c", "10.244.1.5"))
			a.sim.SetFaults(vppsim.Faults{CutAfter: cut})
			a.apply(slice("a-1", "a", "10.244.1.5"),
				service("b", "10.96.0.2", 1, lb), service("c", "10.96.0.3", 1),
				service("d", "10.96.0.4", 1), slice("d-1", "d", "10.244.1.5"))
			a.settle()
			want := "TCP;10.96.0.1;80 -> 10.244.1.5:8080\nTCP;10.96.0.2;80 -> 10.244.1.5:8080 hash=srcaddr\n" +
				"TCP;10.96.0.3;80 -> 10.244.1.5:8080\nTCP;10.96.0.4;80 -> 10.244.1.5:8080\n"
			if got := a.vpp(); got != want {
				t.Errorf("VPP holds\n%swant\n%s", got, want)
			}
		})
	}
}

// Somebody deletes, adds and alters translations behind our back: the periodic
// resync finds and mends all of it.
func TestDriftIsMended(t *testing.T) {
	sim := newSim(t)
	a := start(t, sim, func(c *services.Config) { c.ResyncPeriod = 50 * time.Millisecond })
	a.apply(append(many(20), node("192.0.2.11"))...)
	a.sync()
	a.settle()
	want := a.vpp()
	s, err := vpplink.Connect(t.Context(), vpplink.DefaultConfig(sim.Socket()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	held := sim.Translations()
	altered := held[3].Entry.Clone()
	altered.Backends = altered.Backends[:1]
	foreign := altered.Clone()
	foreign.Port = 4242
	for i, r := range s.CnatTranslateBatch(t.Context(), []types.CnatWrite{{ID: held[0].ID}, {Entry: &altered}, {Entry: &foreign}}) {
		if r.Err != nil {
			t.Fatal(i, r.Err)
		}
	}
	a.await("the drift is found", func() bool { return a.server.Status().Drift >= 3 })
	a.settle()
	if got := a.vpp(); got != want {
		t.Errorf("VPP holds\n%swant\n%s", got, want)
	}
	before := a.calls.Read()
	a.await("three more dumps", func() bool { return a.calls.Read().Sub(before).Dump >= 3 })
	if c := a.calls.Read().Sub(before); c.Writes() != 0 {
		t.Errorf("resyncs without drift made %+v", c)
	}
}

// Interfaces and SNAT are applied once for each VPP, in the order that VPP
// survives (scenario 28), again to a new one, and with the node's new address.
func TestDataplaneIsPrepared(t *testing.T) {
	sim := newSim(t)
	a := start(t, sim, func(c *services.Config) {
		c.Dataplane = services.Dataplane{
			Interfaces: []string{"GigabitEthernet0/0/0"}, SNAT: true, SNATExclude: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
		}
	})
	a.sync()
	a.await("the wrong name is told", func() bool { return a.server.Status().DataplaneError != "" })
	if e := a.server.Status().DataplaneError; !strings.Contains(e, "GigabitEthernet0/0/0") || !strings.Contains(e, "local0") {
		t.Errorf("error %q does not name the interfaces", e)
	}
	a.stop()

	name := ""
	s, err := vpplink.Connect(t.Context(), vpplink.DefaultConfig(sim.Socket()))
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.Interfaces(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	name = list[1].Name
	b := start(t, sim, func(c *services.Config) {
		c.Dataplane = services.Dataplane{Interfaces: []string{name}, SNAT: true, SNATExclude: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}
	})
	b.apply(node("192.0.2.11"))
	b.sync()
	want := func(ip string) func() bool {
		return func() bool {
			got := sim.SNAT()
			return got.IP4.IsValid() && got.IP4.String() == ip && len(got.Excluded) == 1 && len(got.Features) == 1 && got.Policy == 2
		}
	}
	b.await("VPP is prepared", want("192.0.2.11"))
	if err := sim.Restart(); err != nil {
		t.Fatal(err)
	}
	b.await("the new VPP is prepared", want("192.0.2.11"))
	b.apply(node("192.0.2.12"))
	b.await("the new address is used", want("192.0.2.12"))
	b.settle()
	calls := sim.Writes()
	sim.DropLink()
	b.await("connected again", func() bool { st := b.server.Status(); return sim.Clients() == 1 && st.Ready() })
	b.settle()
	if n := sim.Writes(); n != calls {
		t.Errorf("a reconnect to the same VPP made %d writes", n-calls)
	}
}

// Scenario 82: a removal does not wait behind thousands of additions.
func TestScenario82RemovalsFirst(t *testing.T) {
	a := synced(t, newSim(t), service("web", "10.96.0.1", 1), slice("web-1", "web", "10.244.1.5", "10.244.1.6"))
	a.sim.SetFaults(vppsim.Faults{Messages: []string{"cnat_translation_update"}, Delay: 200 * time.Microsecond})
	a.apply(append(many(3000), slice("web-1", "web", "10.244.1.5"))...)
	seen := 0
	a.await("the removal", func() bool {
		list := a.sim.Translations()
		seen = len(list)
		return list[0].Entry.Port == 80 && len(list[0].Entry.Backends) == 1
	})
	if seen > 1500 {
		t.Errorf("the removal came after %d additions", seen)
	}
	a.settle()
}

// world is a random set of objects, and how it changes.
type world struct {
	rng     *rand.Rand
	objects map[string]metav1.Object
}

// step changes one object and returns it; gone tells that it was deleted.
func (w *world) step() (o metav1.Object, gone bool) {
	n := w.rng.IntN(8)
	name := fmt.Sprintf("s%d", n)
	switch w.rng.IntN(5) {
	case 0, 1:
		key := "service " + name
		if w.rng.IntN(3) == 0 {
			o = service(name, fmt.Sprintf("10.96.0.%d", n+1), n%3)
			delete(w.objects, key)
			return o, true
		}
		o = service(name, fmt.Sprintf("10.96.0.%d", n+1), n%3, func(s *corev1.Service) {
			if w.rng.IntN(2) == 0 {
				s.Spec.ExternalIPs = []string{fmt.Sprintf("198.51.100.%d", w.rng.IntN(3))}
			}
			if n%2 == 0 {
				s.Spec.Ports[0].Port = 8080 // that of the endpoints, which maglevdsr needs
			}
			if w.rng.IntN(4) == 0 {
				s.Annotations = map[string]string{"cni.projectcalico.org/vppLBType": "maglevdsr"}
			}
			if w.rng.IntN(4) == 0 {
				s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
			}
			if w.rng.IntN(4) == 0 {
				nodePort(int32(30000 + n))(s)
			}
		})
		w.objects[key] = o
	default:
		var ips []string
		for ip := range 4 {
			if w.rng.IntN(2) == 0 {
				ips = append(ips, fmt.Sprintf("10.244.1.%d", ip+1))
			}
		}
		sl := fmt.Sprintf("x%d", w.rng.IntN(10))
		key := "slice " + sl
		o = slice(sl, name, ips...)
		if w.rng.IntN(5) == 0 {
			delete(w.objects, key)
			return o, true
		}
		w.objects[key] = o
	}
	return o, false
}

// shuffled returns the objects in random order.
func (w *world) shuffled() []metav1.Object {
	var out []metav1.Object
	for _, o := range w.objects {
		out = append(out, o)
	}
	w.rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// TestRandomHistory plays random changes, with failing writes, cut links, new
// VPPs and drift all along, and compares at each quiet point with what a fresh
// agent, told the same objects in another order, makes of them (scenario 2).
func TestK15Scenario02RandomHistory(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &world{rng: rand.New(rand.NewPCG(seed, 0)), objects: map[string]metav1.Object{}}
	sim := newSim(t)
	a := synced(t, sim)
	for point := range 12 {
		sim.SetFaults(vppsim.Faults{FailProbability: 0.08})
		for range 60 {
			o, gone := w.step()
			op := model.Upsert
			if gone {
				op = model.Delete
			}
			a.send(op, o)
			switch w.rng.IntN(40) {
			case 0:
				sim.DropLink()
			case 1:
				if err := sim.Restart(); err != nil {
					t.Fatal(err)
				}
			case 2:
				sim.SetFaults(vppsim.Faults{FailProbability: 0.08, CutAfter: 1 + w.rng.IntN(5)})
			case 3:
				a.settleSoon()
			}
		}
		sim.SetFaults(vppsim.Faults{})
		a.settle()
		fresh := synced(t, newSim(t), w.shuffled()...)
		if got, want := a.vpp(), fresh.vpp(); got != want {
			t.Fatalf("seed %d, point %d: VPP holds\n%sthat of a fresh agent\n%s", seed, point, got, want)
		}
		if got, want := a.table(), fresh.table(); got != want {
			t.Fatalf("seed %d, point %d: the agent says\n%sa fresh one\n%s", seed, point, got, want)
		}
		fresh.stop()
	}
}

// settleSoon lets rounds happen, faults and all.
func (a *agent) settleSoon() {
	a.t.Helper()
	if err := a.trySettle(20 * time.Second); err != nil && !strings.Contains(err.Error(), "could not be programmed") {
		a.t.Fatal(err)
	}
}

// BenchmarkEndpointChange is one endpoint change among 5,000 Services, from
// the event to VPP's confirmation.
func BenchmarkEndpointChange(b *testing.B) {
	a := start(b, newSim(b))
	a.apply(many(5000)...)
	a.sync()
	a.settle()
	for i := 0; b.Loop(); i++ {
		a.apply(slice("s7", "s7", "10.244.1.5", fmt.Sprintf("10.244.2.%d", i%200+1)))
		if err := a.trySettle(20 * time.Second); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkFullSync is 5,000 Services from nothing.
func BenchmarkFullSync(b *testing.B) {
	objects := many(5000)
	for b.Loop() {
		a := start(b, newSim(b))
		a.apply(objects...)
		a.sync()
		a.settle()
		a.stop()
	}
}
