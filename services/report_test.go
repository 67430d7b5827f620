// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"calico-vpp-services/services"
	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink/types"
	"calico-vpp-services/vppsim"
)

// reports remembers what the authors of Services were told.
type reports struct {
	mu   sync.Mutex
	list []string
}

func (r *reports) Report(svc *corev1.Service, p model.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, fmt.Sprintf("%s %s %s: %s", svc.Name, p.Reason, p.Field, p.Message))
}

// take returns the reports since the last time, sorted.
func (r *reports) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	slices.Sort(list)
	return list
}

// expect checks that the reports are as many as words, each with its words.
func (r *reports) expect(t *testing.T, words ...string) {
	t.Helper()
	got := r.take()
	if len(got) != len(words) {
		t.Errorf("%d reports %q, want %d", len(got), got, len(words))
		return
	}
	for i, w := range words {
		for word := range strings.SplitSeq(w, " | ") {
			if !strings.Contains(got[i], word) {
				t.Errorf("report %q does not say %q", got[i], word)
			}
		}
	}
}

// Authors hear of a lost key, a wrong annotation, a refused address and a
// refused write, each once, and again when it arises anew.
func TestAuthorsAreTold(t *testing.T) {
	sim := newSim(t)
	var r reports
	a := start(t, sim, func(c *services.Config) { c.Reporter = &r })
	a.apply(node("192.0.2.11"), service("a", "10.96.0.1", 1, external("198.51.100.10")), slice("a-1", "a", "10.244.1.5"))
	a.sync()
	a.settle()
	r.expect(t)

	b := service("b", "10.96.0.2", 2, external("198.51.100.10"))
	a.apply(b, slice("b-1", "b", "10.244.1.6"))
	a.settle()
	r.expect(t, "a KeyLost TCP;198.51.100.10;80 | shop/b | ExternalIP | takes over")
	a.apply(slice("b-1", "b", "10.244.1.7"), slice("a-1", "a", "10.244.1.8"))
	a.settle()
	r.expect(t) // nothing new about that
	a.apply(service("c", "10.96.0.3", 3, external("198.51.100.10")))
	a.settle()
	r.expect(t, "a KeyLost | shop/c", "b KeyLost | shop/c")
	a.delete(service("c", "10.96.0.3", 3), b)
	a.settle()
	r.expect(t)

	a.apply(service("a", "10.96.0.1", 1, annotated("cni.projectcalico.org/vppLBType", "mglv")))
	a.settle()
	r.expect(t, "a AnnotationRefused | vppLBType | mglv | ecmp | maglev | maglevdsr")
	a.apply(service("a", "10.96.0.1", 1, external("192.0.2.11"), func(s *corev1.Service) { s.Spec.Ports[0].Port = 22 }))
	a.settle()
	r.expect(t, "a AddressRefused | 192.0.2.11 | 22 | --protected-node-ports")

	key, err := types.ParseKey("TCP;10.96.0.9;80")
	if err != nil {
		t.Fatal(err)
	}
	sim.SetFaults(vppsim.Faults{FailKeys: map[types.Key]int32{key: -12}})
	a.apply(service("d", "10.96.0.9", 1), slice("d-1", "d", "10.244.1.5"))
	if err := a.trySettle(20 * time.Second); err == nil {
		t.Error("the refused key was programmed")
	}
	r.expect(t, "d ProgrammingFailed TCP;10.96.0.9;80 | -12 | tried again")
	sim.SetFaults(vppsim.Faults{})
	a.settle()
	r.expect(t)
}

// Every Service with a failing key is told, however many there are: some in each
// round.
func TestAllAuthorsAreTold(t *testing.T) {
	sim := newSim(t)
	var r reports
	a := start(t, sim, func(c *services.Config) { c.Reporter = &r })
	a.apply(append(many(50), node("192.0.2.11"))...)
	sim.SetFaults(vppsim.Faults{Messages: []string{"cnat_translation_update"}, FailProbability: 1})
	a.sync()
	told := map[string]bool{}
	a.await("all 50 are told", func() bool {
		for _, line := range r.take() {
			name, _, _ := strings.Cut(line, " ")
			if told[name] {
				t.Errorf("%s is told twice", name)
			}
			told[name] = true
		}
		return len(told) == 50
	})
}
