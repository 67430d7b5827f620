// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"calico-vpp-services/services"
	"calico-vpp-services/services/store"
	"calico-vpp-services/vpplink"
	"calico-vpp-services/vpplink/types"
	"calico-vpp-services/vppsim"
)

// restart ends the agent and starts another one with the same memory.
func (a *agent) restart(path string, edit ...func(*services.Config)) *agent {
	a.t.Helper()
	a.stop()
	return startStored(a.t, a.sim, path, edit...)
}

func startStored(t testing.TB, sim *vppsim.Sim, path string, edit ...func(*services.Config)) *agent {
	t.Helper()
	return startOn(t, sim, sim.Socket(), path, edit...)
}

// startOn starts an agent with its memory at path; sim is nil for a real VPP.
func startOn(t testing.TB, sim *vppsim.Sim, socket, path string, edit ...func(*services.Config)) *agent {
	t.Helper()
	st, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	a := startAt(t, sim, socket, append([]func(*services.Config){func(c *services.Config) { c.Store = st }}, edit...)...)
	a.memory = st
	return a
}

func sidecar(c *services.Config) { c.Mode = services.Sidecar }

// sample is one of each thing that a dump does not tell.
func sample() []metav1.Object {
	return append(many(1000), node("192.0.2.11"), cidr("kubernetes", "10.96.0.0/16"),
		service("sticky", "10.96.0.1", 1, func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }),
		slice("sticky-1", "sticky", "10.244.1.5"),
		service("np", "10.96.0.2", 1, nodePort(30080)), slice("np-1", "np", "10.244.1.5"),
		service("lb", "10.96.0.3", 1, loadBalancer("198.51.100.80")), slice("lb-1", "lb", "10.244.1.5"),
		service("hashed", "10.96.0.4", 1, annotated("cni.projectcalico.org/vppHashConfig", "srcaddr")), slice("hashed-1", "hashed", "10.244.1.5"))
}

// Scenario 32: the agent is restarted and nothing has changed: VPP hears
// dumps and no write at all, in either mode.
func TestScenario32RestartIsQuiet(t *testing.T) {
	for _, mode := range []services.Mode{services.Standalone, services.Sidecar} {
		t.Run(string(mode), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "vpp"+store.Suffix)
			edit := func(c *services.Config) {
				c.Mode = mode
				c.Dataplane = services.Dataplane{
					Interfaces: []string{"local*"}, PodInterfaces: []string{"local*"}, SNAT: true,
					SNATExclude: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
				}
			}
			a := startStored(t, newSim(t), path, edit)
			a.apply(sample()...)
			a.sync()
			a.settle()
			writes := a.sim.Writes()
			a = a.restart(path, edit)
			a.apply(sample()...)
			a.sync()
			a.settle()
			if n := a.sim.Writes() - writes; n != 0 {
				t.Errorf("a restart with nothing changed made %d writes", n)
			}
		})
	}
}

// Scenarios 29 and 30: what changed while the agent was away is written, no
// more; nothing before all objects are listed. A route goes with its Service.
func TestScenario29And30ChangedMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vpp"+store.Suffix)
	a := startStored(t, newSim(t), path)
	web, db := service("web", "10.96.0.1", 1, loadBalancer("198.51.100.80")), service("db", "10.96.0.2", 1)
	a.apply(node("192.0.2.11"), web, slice("web-1", "web", "10.244.1.5"), db, slice("db-1", "db", "10.244.1.5"), service("same", "10.96.0.3", 1), slice("same-1", "same", "10.244.1.5"))
	a.sync()
	a.expectRefuses("10.96.0.1/32 10.96.0.2/32 10.96.0.3/32 198.51.100.80/32")
	a = a.restart(path)
	a.apply(node("192.0.2.11"), db, slice("db-1", "db", "10.244.1.6"), service("same", "10.96.0.3", 1), slice("same-1", "same", "10.244.1.5"))
	a.await("VPP is dumped", func() bool { return a.server.Status().Connected })
	if c := a.calls.Read(); c.Writes() != 0 {
		t.Errorf("%+v before all objects were listed", c)
	}
	a.costs(1, 2, a.sync)
	a.expectRefuses("10.96.0.2/32 10.96.0.3/32")
}

// In mode sidecar, what another agent left is not touched: not at the start,
// not by drift, not by cleanup; its key goes to a Service that claims it.
func TestSidecarLeavesOthersAlone(t *testing.T) {
	sim := newSim(t)
	other, err := vpplink.Connect(t.Context(), vpplink.DefaultConfig(sim.Socket()))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	hostPort := types.CnatTranslateEntry{
		Proto: types.TCP, IP: netip.MustParseAddr("192.0.2.11"), Port: 8080, IsRealIP: true, Flags: types.FlagNoClient,
		Backends: []types.Backend{{IP: netip.MustParseAddr("10.244.1.99"), Port: 80}},
	}
	contested := hostPort.Clone()
	contested.Port = 30080
	for _, e := range []*types.CnatTranslateEntry{&hostPort, &contested} {
		if _, err := other.CnatTranslateAdd(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "vpp"+store.Suffix)
	edit := func(c *services.Config) { c.RejectUnserved, c.CleanupOnExit = false, true; sidecar(c) }
	a := startStored(t, sim, path, edit)
	a.apply(node("192.0.2.11"), service("web", "10.96.0.1", 1, nodePort(30080)), slice("web-1", "web", "10.244.1.5"))
	a.sync()
	if err := a.trySettle(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	const left = "TCP;192.0.2.11;8080 -> 10.244.1.99:80 real\n"
	if got, want := a.vpp(), "TCP;10.96.0.1;80 -> 10.244.1.5:8080\n"+left+"TCP;192.0.2.11;30080 -> 10.244.1.5:8080 real\n"; got != want {
		t.Errorf("VPP holds\n%swant\n%s", got, want)
	}
	if st := a.server.Status(); st.Foreign != 1 || st.TakenOver != 1 || st.Drift != 0 {
		t.Errorf("status %+v, want 1 foreign, 1 taken over, no drift", st)
	}
	writes := sim.Writes()
	if err := a.server.Resync(t.Context()); err != nil || sim.Writes() != writes {
		t.Errorf("resync: %v, %d writes", err, sim.Writes()-writes)
	}
	a.stop() // cleans up
	if got := a.vpp(); got != left {
		t.Errorf("after cleanup VPP holds\n%swant\n%s", got, left)
	}
}

// With CleanupOnExit the agent leaves VPP as it found it, also when some
// removals are refused at first.
func TestCleanupOnExit(t *testing.T) {
	a := startStored(t, newSim(t), filepath.Join(t.TempDir(), "vpp"+store.Suffix), func(c *services.Config) { c.CleanupOnExit = true })
	a.apply(append(sample(), cidr("kubernetes", "10.96.0.0/16"))...)
	a.sync()
	a.settle()
	a.sim.SetFaults(vppsim.Faults{FailProbability: 0.1})
	a.stop()
	if got := a.vpp() + a.refuses(); got != "" {
		t.Errorf("left in VPP:\n%s", got)
	}
}

// J11: a loop that hangs is not healthy, though it can't say so itself.
func TestJ11HungLoopIsNotHealthy(t *testing.T) {
	a := synced(t, newSim(t), service("web", "10.96.0.1", 1), slice("web-1", "web", "10.244.1.5"))
	if h := a.server.HealthState(); !h.OldestPending.IsZero() {
		t.Errorf("pending since %s while nothing is to do", h.OldestPending)
	}
	a.sim.Stall()
	before := time.Now()
	a.apply(slice("web-1", "web", "10.244.1.6"))
	a.await("something is pending", func() bool { return !a.server.HealthState().OldestPending.IsZero() })
	if h := a.server.HealthState(); h.OldestPending.Before(before) || h.Healthy(before.Add(time.Hour), time.Minute) {
		t.Errorf("state %+v after an hour", h)
	}
	a.sim.Resume()
	a.settle()
	a.await("nothing is pending", func() bool { return a.server.HealthState().OldestPending.IsZero() })
}

// A resync that found drift answers when it is mended, and levels interfaces and
// SNAT too. What is missing beside translations fails Settle.
func TestResyncMendsBeforeItAnswers(t *testing.T) {
	sim := newSim(t)
	a := start(t, sim, func(c *services.Config) {
		c.Dataplane = services.Dataplane{Interfaces: []string{"local0"}, SNAT: true}
	})
	a.apply(append(many(50), node("192.0.2.11"))...)
	a.sync()
	a.settle()
	s, err := vpplink.Connect(t.Context(), vpplink.DefaultConfig(sim.Socket()))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, tr := range sim.Translations()[:7] {
		if err := s.CnatTranslateDel(t.Context(), tr.ID); err != nil {
			t.Fatal(err)
		}
	}
	names, err := s.InterfaceNames(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DisableCnatFeature(t.Context(), names["local0"]); err != nil {
		t.Fatal(err)
	}
	if err := a.server.Resync(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st := a.server.Status(); st.Drift != 7 || !st.Ready() || len(sim.Translations()) != 50 || len(sim.SNAT().Features) != 1 {
		t.Errorf("answered with status %+v, %d translations, features %v", st, len(sim.Translations()), sim.SNAT().Features)
	}

	b := start(t, newSim(t), func(c *services.Config) { c.Dataplane = services.Dataplane{Interfaces: []string{"nosuch0"}} })
	b.apply(node("192.0.2.11"))
	b.sync()
	if err := b.trySettle(10 * time.Second); err == nil || !strings.Contains(err.Error(), "nosuch0") {
		t.Errorf("settled though cnat is on nowhere: %v", err)
	}
}

// An API server that restarts takes itself out of default/kubernetes. The way to
// it stays open for a bounded time, follows a new address at once, and no
// other Service is kept like that.
func TestAPIServerGrace(t *testing.T) {
	inDefault := func(o metav1.Object) metav1.Object { o.SetNamespace("default"); return o }
	a := start(t, newSim(t), func(c *services.Config) { c.APIServerGrace = 300 * time.Millisecond })
	a.apply(node("192.0.2.11"), inDefault(service("kubernetes", "10.96.0.1", 1)), inDefault(slice("kubernetes", "kubernetes", "192.0.2.100")),
		service("web", "10.96.0.2", 1), slice("web-1", "web", "10.244.1.5"))
	a.sync()
	a.settle()
	a.costs(0, 1, func() { a.apply(inDefault(slice("kubernetes", "kubernetes")), slice("web-1", "web")) })
	if got, want := a.vpp(), "TCP;10.96.0.1;80 -> 192.0.2.100:8080\n"; got != want {
		t.Errorf("VPP holds %q, want %q", got, want)
	}
	a.costs(1, 0, func() { a.apply(inDefault(slice("kubernetes", "kubernetes", "192.0.2.101"))) })
	a.delete(inDefault(slice("kubernetes", "kubernetes")))
	gone := time.Now()
	a.await("the time is over", func() bool { return a.vpp() == "" })
	if d := time.Since(gone); d < 300*time.Millisecond {
		t.Errorf("given up after %s", d)
	}
	a.delete(inDefault(service("kubernetes", "10.96.0.1", 1)))
	a.settle()
}
