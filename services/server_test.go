// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"calico-vpp-services/services"
	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink"
	"calico-vpp-services/vpplink/types"
	"calico-vpp-services/vppsim"
)

// leftovers are translations of nobody's that VPP holds before the agent starts.
func leftovers(t *testing.T, sim *vppsim.Sim, keys ...string) {
	t.Helper()
	var list []types.CnatTranslateEntry
	for _, k := range keys {
		key, err := types.ParseKey(k)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, types.CnatTranslateEntry{
			Proto: key.Proto, IP: key.IP, Port: key.Port, Flags: types.FlagNoClient,
			Backends: []types.Backend{{IP: key.IP.Next(), Port: 1}},
		})
	}
	if err := sim.Load(list); err != nil {
		t.Fatal(err)
	}
}

// Scenario 30: nothing is written, least of all deleted, before every source has
// delivered its first complete list.
func TestK3Scenario30GateBeforeFirstList(t *testing.T) {
	sim := newSim(t)
	leftovers(t, sim, "TCP;10.96.0.1;80", "TCP;10.96.0.9;80")
	a := start(t, sim, func(c *services.Config) { c.Sources = []string{source, "other"} })
	a.apply(service("web", "10.96.0.1", 1), slice("web-1", "web", "10.244.1.5"))
	a.sync()
	a.await("VPP is dumped", func() bool { return a.server.Status().Connected })
	err := a.trySettle(100 * time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "other") {
		t.Errorf("settled with a source missing: %v", err)
	}
	if c := a.calls.Read(); c.Writes() != 0 || len(sim.Translations()) != 2 {
		t.Fatalf("calls %+v before the first list", c)
	}
	if err := a.server.Send(t.Context(), model.Event{Op: model.Synced, Source: "other"}); err != nil {
		t.Fatal(err)
	}
	a.settle()
	if got, want := a.vpp(), "TCP;10.96.0.1;80 -> 10.244.1.5:8080\n"; got != want {
		t.Errorf("VPP holds\n%swant\n%s", got, want)
	}
}

// Scenarios 22 and 17, 18: slices and Services in any order, one call each.
func TestK1K7B17Scenario22OrderOfArrival(t *testing.T) {
	a := synced(t, newSim(t))
	web, s1, s2 := service("web", "10.96.0.1", 1), slice("web-1", "web", "10.244.1.5"), slice("web-2", "web", "10.244.1.6")
	a.costs(0, 0, func() { a.apply(s1) })
	a.costs(1, 0, func() { a.apply(web) })
	a.costs(1, 0, func() { a.apply(s2) })
	a.costs(0, 0, func() { a.apply(web, s1, s2) }) // K7: nothing new
	a.costs(1, 0, func() { a.delete(s2) })
	if got := a.vpp(); got != "TCP;10.96.0.1;80 -> 10.244.1.5:8080\n" {
		t.Errorf("VPP holds %s", got)
	}
	a.costs(0, 1, func() { a.apply(slice("web-1", "web")) })
	if got := a.table(); got != "TCP 10.96.0.1;80 shop/web ClusterIP unserved []\n" {
		t.Errorf("table %s", got)
	}
	a.costs(1, 0, func() { a.apply(s1) })
	// Deleted and created again with another address while the slice stays.
	a.costs(0, 1, func() { a.delete(web) })
	a.costs(1, 0, func() { a.apply(service("web", "10.96.0.2", 2)) })
	if got := a.vpp(); got != "TCP;10.96.0.2;80 -> 10.244.1.5:8080\n" {
		t.Errorf("VPP holds %s", got)
	}
}

// Scenario 16: emptied, then deleted, in three orders: one delete, and VPP,
// which dies of an update without paths (F6), is alive.
func TestK12Scenario16EmptiedThenDeleted(t *testing.T) {
	web, full, empty := service("web", "10.96.0.1", 1), slice("web-1", "web", "10.244.1.5"), slice("web-1", "web")
	for name, end := range map[string]func(*agent){
		"emptied, Service deleted":       func(a *agent) { a.apply(empty); a.settle(); a.delete(web) },
		"slice deleted, Service deleted": func(a *agent) { a.delete(full); a.settle(); a.delete(web) },
		"Service deleted, slice deleted": func(a *agent) { a.delete(web); a.settle(); a.delete(full) },
	} {
		t.Run(name, func(t *testing.T) {
			a := synced(t, newSim(t), web, full)
			a.costs(0, 1, func() { end(a) })
			if n := len(a.sim.Translations()); n != 0 {
				t.Errorf("%d translations left", n)
			}
		})
	}
}

// Scenario 23: a slice that is given to another Service leaves the old one.
func TestB18Scenario23SliceChangesItsService(t *testing.T) {
	a := synced(t, newSim(t), service("a", "10.96.0.1", 1), service("b", "10.96.0.2", 2), slice("s1", "a", "10.244.1.5"))
	a.costs(1, 1, func() { a.apply(slice("s1", "b", "10.244.1.5")) })
	if got := a.vpp(); got != "TCP;10.96.0.2;80 -> 10.244.1.5:8080\n" {
		t.Errorf("VPP holds %s", got)
	}
	a.costs(0, 1, func() { a.apply(slice("s1", "", "10.244.1.5")) })
	a.costs(0, 0, func() { a.delete(slice("s1", "")) })
}

// Scenarios 1 and 3: takeover in the step in which the owner goes; the one that
// waits is nobody's business.
func TestL1K13Scenario01SharedKey(t *testing.T) {
	objects := []metav1.Object{
		service("a", "10.96.0.1", 1, external("198.51.100.10")), slice("a-1", "a", "10.244.1.5"),
		service("b", "10.96.0.2", 2, external("198.51.100.10")), slice("b-1", "b", "10.244.1.6"),
	}
	a := synced(t, newSim(t), objects...)
	const both = "TCP 10.96.0.1;80 shop/a ClusterIP programmed [10.244.1.5:8080]\n" +
		"TCP 10.96.0.2;80 shop/b ClusterIP programmed [10.244.1.6:8080]\n" +
		"TCP 198.51.100.10;80 shop/b ExternalIP programmed [10.244.1.6:8080] waiting [shop/a]\n"
	if got := a.table(); got != both {
		t.Errorf("table\n%swant\n%s", got, both)
	}
	a.costs(1, 0, func() { a.apply(slice("a-1", "a", "10.244.1.7")) })         // its ClusterIP only
	a.costs(1, 1, func() { a.delete(objects[2]) })                             // ClusterIP goes, the key is updated in place
	a.costs(2, 0, func() { a.apply(objects[2]) })                              // and back
	a.costs(0, 1, func() { a.delete(objects[0]) })                             // the waiting one: its ClusterIP only
	a.costs(0, 2, func() { a.delete(objects[2]) })                             // the last
	a.costs(4-1, 0, func() { a.apply(objects[0], objects[1], objects[2]) })    // all in one batch: no write for the waiting claim
	a.costs(1, 1, func() { a.delete(objects[2]); a.apply(slice("b-1", "b")) }) // owner deleted and emptied in one batch
	if got := a.vpp(); !strings.Contains(got, "TCP;198.51.100.10;80 -> 10.244.1.5:8080") {
		t.Errorf("VPP holds\n%s", got)
	}
}

// Scenario 70: LB type and hash are taken at creation only (F3), so each change
// is delete and create; a typo is told and means the default.
func TestK14Scenario70AnnotationChanges(t *testing.T) {
	const lb, hash = "cni.projectcalico.org/vppLBType", "cni.projectcalico.org/vppHashConfig"
	a := synced(t, newSim(t), service("web", "10.96.0.1", 1), slice("web-1", "web", "10.244.1.5"))
	a.costs(1, 1, func() { a.apply(service("web", "10.96.0.1", 1, annotated(lb, "maglev"))) })
	if got := a.vpp(); got != "TCP;10.96.0.1;80 -> 10.244.1.5:8080 lb=maglev\n" {
		t.Errorf("VPP holds %s", got)
	}
	a.costs(1, 1, func() { a.apply(service("web", "10.96.0.1", 1, annotated(hash, "srcaddr"))) })
	if got := a.vpp(); got != "TCP;10.96.0.1;80 -> 10.244.1.5:8080 hash=srcaddr\n" {
		t.Errorf("VPP holds %s", got)
	}
	a.costs(1, 1, func() { a.apply(service("web", "10.96.0.1", 1, annotated(lb, "mglv"))) })
	e := a.log.LastEntry()
	if e == nil || !strings.Contains(e.Message, "mglv") || !strings.Contains(e.Message, "ecmp, maglev") {
		t.Errorf("the typo is not told: %v", e)
	}
	a.costs(0, 0, func() { a.apply(service("web", "10.96.0.1", 1)) })
}

// F8 and C2: node ports follow the node's addresses; an address that becomes
// the node's own turns real.
func TestF8NodeAddressChanges(t *testing.T) {
	a := synced(t, newSim(t), service("web", "10.96.0.1", 1, nodePort(30080), external("192.0.2.12")), slice("web-1", "web", "10.244.1.5"))
	if got := a.vpp(); !strings.Contains(got, "TCP;192.0.2.11;30080 -> 10.244.1.5:8080 real\n") || !strings.Contains(got, "TCP;192.0.2.12;80 -> 10.244.1.5:8080\n") {
		t.Errorf("VPP holds\n%s", got)
	}
	a.costs(2, 2, func() { a.apply(node("192.0.2.12")) })
	if got := a.vpp(); !strings.Contains(got, "TCP;192.0.2.12;30080 -> 10.244.1.5:8080 real\n") || !strings.Contains(got, "TCP;192.0.2.12;80 -> 10.244.1.5:8080 real\n") {
		t.Errorf("VPP holds\n%s", got)
	}
	other := node("192.0.2.12")
	other.Labels["unrelated"] = "x"
	a.costs(0, 0, func() { a.apply(other) })
	away := node("203.0.113.1")
	away.Name = "node-b"
	a.costs(0, 0, func() { a.apply(away); a.delete(away) })
	// That somebody deleted the Node object moves no address.
	a.costs(0, 0, func() { a.delete(other) })
	if a.server.Status().NodeEligible {
		t.Error("a node without a Node object is eligible for load balancers")
	}
}

// K4: a burst for one Service is one write.
func TestK4BurstIsOneWrite(t *testing.T) {
	a := synced(t, newSim(t), service("web", "10.96.0.1", 1))
	a.costs(1, 0, func() {
		var burst []metav1.Object
		for n := range 200 {
			burst = append(burst, slice("web-1", "web", fmt.Sprintf("10.244.1.%d", n+1)))
		}
		a.apply(burst...)
	})
}

// Scenario 83: VPP refuses one key. The others are there, the state says why,
// and when VPP takes it, it is there without another event.
func TestK5Scenario83OneKeyIsRefused(t *testing.T) {
	sim := newSim(t)
	bad, err := types.ParseKey("TCP;192.0.2.11;30080")
	if err != nil {
		t.Fatal(err)
	}
	sim.SetFaults(vppsim.Faults{FailKeys: map[types.Key]int32{bad: -12}})
	a := start(t, sim)
	a.apply(node("192.0.2.11"), service("web", "10.96.0.1", 1, nodePort(30080)), slice("web-1", "web", "10.244.1.5"))
	a.sync()
	if err := a.trySettle(20 * time.Second); err == nil || !strings.Contains(err.Error(), bad.String()) {
		t.Fatalf("settle says %v", err)
	}
	rows := a.server.Translations()
	if rows[0].State != model.StateProgrammed || rows[1].State != model.StateFailed || !strings.Contains(rows[1].Error, "-12") {
		t.Errorf("rows %+v, %+v", rows[0], rows[1])
	}
	if st := a.server.Status(); st.Ready() || st.Pending != 1 {
		t.Errorf("status %+v", st)
	}
	said := 0
	for _, e := range a.log.AllEntries() {
		if strings.Contains(e.Message, "refuses") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("the refusal was logged %d times", said)
	}
	sim.SetFaults(vppsim.Faults{})
	a.await("the key is programmed", func() bool { st := a.server.Status(); return st.Ready() })
	a.settle()
}

// Scenario 80: 2,000 failures are not 2,000 lines.
func TestScenario80BoundedLog(t *testing.T) {
	sim := newSim(t)
	sim.SetFaults(vppsim.Faults{Messages: []string{"cnat_translation_update"}, FailProbability: 1})
	a := start(t, sim)
	for n := range 2000 {
		name := fmt.Sprintf("s%d", n)
		a.apply(service(name, fmt.Sprintf("10.97.%d.%d", n>>8, n&255), 1), slice(name, name, "10.244.1.5"))
	}
	a.sync()
	if err := a.trySettle(20 * time.Second); err == nil || !strings.Contains(err.Error(), "2000 keys") {
		t.Errorf("settle says %v", err)
	}
	if n := len(a.log.AllEntries()); n > 20 {
		t.Errorf("%d lines of log", n)
	}
}

// Settle tells what is missing when VPP is away.
func TestSettleWithoutVPP(t *testing.T) {
	sim := newSim(t)
	sim.SetFaults(vppsim.Faults{Messages: []string{"show_version"}, DieBefore: 1})
	a := start(t, sim)
	a.sync()
	a.await("the link says why it is down", func() bool { return a.server.Status().LinkError != "" })
	err := a.trySettle(50 * time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "VPP is not connected") {
		t.Errorf("settle says %v", err)
	}
	if err := a.server.Resync(t.Context()); err == nil {
		t.Error("a resync without VPP succeeded")
	}
}

// The agent's end leaves VPP as it is.
func TestK16EndLeavesVPP(t *testing.T) {
	a := synced(t, newSim(t), service("web", "10.96.0.1", 1), slice("web-1", "web", "10.244.1.5"))
	a.stop()
	if got := a.vpp(); got != "TCP;10.96.0.1;80 -> 10.244.1.5:8080\n" {
		t.Errorf("VPP holds %s", got)
	}
	if n := a.sim.Calls()["sockclnt_delete"]; n != 1 {
		t.Errorf("the agent took leave %d times", n)
	}
}

func TestConfigIsChecked(t *testing.T) {
	cfg := services.DefaultConfig("")
	cfg.Ownership = "newest"
	cfg.ResyncPeriod = -1
	_, err := services.NewServer(cfg, vpplink.NewLink(vpplink.DefaultConfig("/x"), nil), nil)
	for _, w := range []string{"node name", "sources", "latest, oldest", "resync period"} {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("error %v does not name %q", err, w)
		}
	}
}

// Send gives up with its caller.
func TestSendEndsWithItsContext(t *testing.T) {
	a := start(t, newSim(t))
	a.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var err error
	for err == nil {
		err = a.server.Send(ctx, model.Event{Op: model.Synced})
	}
	if ctx.Err() == nil {
		t.Errorf("error %v before the end of the context", err)
	}
}

// A rolling update of 100 pods (K4) costs no more writes than the set of usable
// backends has distinct states, however the events are cut; each pod that becomes
// ready, and each that begins to terminate, makes one.
func TestRollingUpdateOf100Pods(t *testing.T) {
	const pods = 100
	a := synced(t, newSim(t), service("web", "10.96.0.1", 1))
	yes, no := true, false
	old := func(i int) string { return fmt.Sprintf("10.244.1.%d", i+1) }
	fresh := func(i int) string { return fmt.Sprintf("10.244.2.%d", i+1) }
	// at is the slice after n pods have been replaced: pod n's successor is there
	// and maybe ready, and pod n may be terminating.
	at := func(n int, ready, terminating bool) *discoveryv1.EndpointSlice {
		s := slice("web-1", "web")
		add := func(ip string, ready, terminating bool) {
			r, term := &no, &no
			if ready {
				r = &yes
			}
			if terminating {
				term = &yes
			}
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: r, Serving: r, Terminating: term}})
		}
		for i := range pods {
			switch {
			case i < n:
				add(fresh(i), true, false)
			case i == n:
				add(fresh(i), ready, false)
				add(old(i), !terminating, terminating)
			default:
				add(old(i), true, false)
			}
		}
		return s
	}
	a.apply(at(0, false, false))
	a.settle()
	states := map[string]bool{a.vpp(): true}
	before := a.calls.Read()
	for n := range pods {
		a.apply(at(n, false, false))
		a.apply(at(n, true, false), at(n, true, false)) // told twice
		a.settle()
		states[a.vpp()] = true
		a.apply(at(n, true, true))
		a.settle()
		states[a.vpp()] = true
		a.apply(at(n+1, false, false))
		a.settle()
		states[a.vpp()] = true
	}
	c := a.calls.Read().Sub(before)
	if len(states) != 2*pods+1 || c.Update > uint64(len(states)-1) || c.Del != 0 {
		t.Errorf("%d updates and %d deletes for %d states; want 200 at most, none, and 201", c.Update, c.Del, len(states))
	}
	if !strings.Contains(a.vpp(), fresh(99)) || strings.Contains(a.vpp(), " 10.244.1.") {
		t.Errorf("in the end VPP holds\n%s", a.vpp())
	}
}
