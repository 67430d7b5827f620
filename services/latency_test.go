// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"calico-vpp-services/services"
	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink/types"
	"calico-vpp-services/vppsim"
)

// samples is a services.Latency.
type samples struct {
	mu   sync.Mutex
	list []string
	took []time.Duration
}

func (s *samples) Programmed(family corev1.IPFamily, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, string(family))
	s.took = append(s.took, d)
}

// read returns the families of the samples since the last time, sorted, and the
// longest time among them.
func (s *samples) read() (families []string, longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	families = s.list
	for _, d := range s.took {
		longest = max(longest, d)
	}
	s.list, s.took = nil, nil
	slices.Sort(families)
	return families, longest
}

// triggeredAt gives s the time of the change behind it, as the endpoints
// controller writes it.
func triggeredAt(s *discoveryv1.EndpointSlice, at string) *discoveryv1.EndpointSlice {
	s.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: at}
	return s
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func TestM2TriggerTime(t *testing.T) {
	for _, tt := range []struct {
		name, at string
		want     int
	}{
		{"none", "", 0},
		{"no time", "yesterday", 0},
		{"before the agent was started", stamp(time.Now().Add(-time.Hour)), 0},
		{"now", stamp(time.Now().Add(time.Minute)), 1},
		{"of another zone", time.Now().Add(time.Minute).In(time.FixedZone("east", 3600)).Format(time.RFC3339Nano), 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := &samples{}
			a := start(t, newSim(t), func(c *services.Config) { c.Latency = got })
			a.apply(service("web", "10.96.0.10", 1), triggeredAt(slice("web-1", "web", "10.244.1.1"), tt.at))
			a.sync()
			a.settle()
			if families, _ := got.read(); len(families) != tt.want {
				t.Errorf("samples %v, want %d", families, tt.want)
			}
		})
	}
}

func TestM3Samples(t *testing.T) {
	got := &samples{}
	sim := newSim(t)
	a := start(t, sim, func(c *services.Config) { c.Latency = got })
	web := service("web", "10.96.0.10", 1)
	a.apply(web, slice("web-1", "web", "10.244.1.1"))
	a.sync()
	a.settle()
	later := stamp(time.Now())

	step := func(name string, want []string, f func()) time.Duration {
		t.Helper()
		f()
		a.settle()
		families, longest := got.read()
		if !slices.Equal(families, want) {
			t.Errorf("%s: samples %v, want %v", name, families, want)
		}
		return longest
	}
	two := triggeredAt(slice("web-1", "web", "10.244.1.1", "10.244.1.2"), later)
	step("an endpoint comes", []string{"IPv4"}, func() { a.apply(two) })
	step("the same again", nil, func() { a.apply(two) })
	renamed := triggeredAt(slice("web-1", "web", "10.244.1.1", "10.244.1.2"), stamp(time.Now()))
	step("only the annotation is another", nil, func() { a.apply(renamed) })
	step("a slice is deleted", nil, func() { a.delete(two) })
	v6 := triggeredAt(slice("web-6", "web", "2001:db8::1"), later)
	v6.AddressType = discoveryv1.AddressTypeIPv6
	step("two changes in one round", []string{"IPv4", "IPv6"}, func() { a.apply(two, v6) })
	step("a slice of no Service", nil, func() { a.apply(triggeredAt(slice("x", "nobody", "10.244.1.9"), later)) })

	// A change that a slice's deletion comes after in the same round is not sampled:
	// what is written is that one's work.
	step("a change, then a slice is deleted", nil, func() {
		if err := a.server.Send(t.Context(),
			model.Event{Op: model.Upsert, Object: triggeredAt(slice("web-1", "web", "10.244.1.3"), later), Source: source},
			model.Event{Op: model.Delete, Object: v6, Source: source}); err != nil {
			t.Fatal(err)
		}
	})

	// Unlike kube-proxy's, a sample waits for VPP: the longest times count.
	longest := step("VPP refuses for a while", []string{"IPv4"}, func() {
		sim.SetFaults(vppsim.Faults{FailNext: 3})
		a.apply(triggeredAt(slice("web-1", "web", "10.244.1.7"), stamp(time.Now().Add(-time.Millisecond))))
	})
	if longest <= 0 || longest > time.Minute {
		t.Errorf("the sample is %s", longest)
	}
}

// TestM3Bounded: a Service that changes on and on while VPP is away keeps its
// oldest changes, and not all.
func TestM3Bounded(t *testing.T) {
	got := &samples{}
	sim := newSim(t)
	a := start(t, sim, func(c *services.Config) { c.Latency = got })
	a.apply(service("web", "10.96.0.10", 1), slice("web-1", "web", "10.244.1.1"))
	a.sync()
	a.settle()
	key := types.Key{Proto: types.TCP, IP: netip.MustParseAddr("10.96.0.10"), Port: 80}
	sim.SetFaults(vppsim.Faults{FailKeys: map[types.Key]int32{key: 0}})
	for i := range 250 {
		a.apply(triggeredAt(slice("web-1", "web", fmt.Sprintf("10.244.2.%d", i)), stamp(time.Now())))
	}
	if err := a.trySettle(20 * time.Second); err == nil {
		t.Fatal("VPP took what it was to refuse")
	}
	sim.SetFaults(vppsim.Faults{})
	a.settle()
	if families, _ := got.read(); len(families) != 100 {
		t.Errorf("%d samples, want 100", len(families))
	}
}
