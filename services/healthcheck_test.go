// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"calico-vpp-services/services"
	"calico-vpp-services/services/health"
	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink/types"
	"calico-vpp-services/vppsim"
)

// ports remembers what load balancers would be answered.
type ports struct {
	mu   sync.Mutex
	last string
	sets int
}

func (p *ports) Set(list []health.Service, healthy bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sets++
	var out []string
	for _, s := range list {
		for _, f := range s.Check.Families {
			out = append(out, fmt.Sprintf("%s %d %s %d", s.ID, s.Check.Port, f.Family, f.LocalEndpoints))
		}
	}
	p.last = fmt.Sprintf("%s healthy=%v", strings.Join(out, ", "), healthy)
}

func (p *ports) read() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

func local(s *corev1.Service) {
	s.Spec.Type, s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal, 32000
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.1"}}
}

// J6: counts are told when VPP holds what they speak of, and only then.
func TestJ6HealthFollowsTheDataplane(t *testing.T) {
	sim := newSim(t)
	var p ports
	a := start(t, sim, func(c *services.Config) { c.HealthPorts = &p })
	here := slice("web-1", "web", "10.244.1.5", "10.244.1.6")
	for i := range here.Endpoints {
		name := "node-a"
		here.Endpoints[i].NodeName = &name
	}
	a.apply(node("192.0.2.11"), service("web", "10.96.0.1", 1, local), slice("web-1", "web"))
	a.sync()
	a.settle()
	a.await("no endpoints", func() bool { return p.read() == "shop/web 32000 IPv4 0 healthy=true" })

	key, err := types.ParseKey("TCP;198.51.100.1;80")
	if err != nil {
		t.Fatal(err)
	}
	sim.SetFaults(vppsim.Faults{FailKeys: map[types.Key]int32{key: -12}})
	a.apply(here)
	a.settleSoon()
	if got := p.read(); got != "shop/web 32000 IPv4 0 healthy=true" {
		t.Errorf("told %q while VPP refuses", got)
	}
	sim.SetFaults(vppsim.Faults{})
	a.settle()
	a.await("two endpoints", func() bool { return p.read() == "shop/web 32000 IPv4 2 healthy=true" })
	sets := p.sets
	a.costs(0, 0, func() { a.apply(node("192.0.2.11"), here) })
	if p.sets != sets {
		t.Errorf("told again with nothing new")
	}
	a.delete(service("web", "10.96.0.1", 1))
	a.await("gone", func() bool { return p.read() == " healthy=true" })
}

// J9, J11: what /healthz is answered from.
func TestJ11HealthState(t *testing.T) {
	sim := newSim(t)
	a := start(t, sim)
	if st := a.server.HealthState(); !st.OldestPending.IsZero() || st.NodeEligible {
		t.Errorf("while starting: %+v", st)
	}
	a.apply(node("192.0.2.11"))
	a.sync()
	a.settle()
	a.await("idle", func() bool {
		st := a.server.HealthState()
		return st.OldestPending.IsZero() && st.NodeEligible && !st.LastUpdated.IsZero()
	})
	sim.SetFaults(vppsim.Faults{Messages: []string{"cnat_translation_update"}, FailProbability: 1})
	a.apply(service("web", "10.96.0.1", 1), slice("web-1", "web", "10.244.1.5"))
	a.settleSoon()
	since := a.server.HealthState().OldestPending
	if since.IsZero() {
		t.Error("nothing pending while VPP refuses")
	}
	a.settleSoon()
	if again := a.server.HealthState().OldestPending; !again.Equal(since) {
		t.Errorf("the oldest change is of %s, then of %s", since, again)
	}
	sim.SetFaults(vppsim.Faults{})
	a.settle()
	a.await("idle again", func() bool { return a.server.HealthState().OldestPending.IsZero() })
	tainted := node("192.0.2.11")
	tainted.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}}
	a.costs(0, 0, func() { a.apply(tainted) })
	a.await("not eligible", func() bool { return !a.server.HealthState().NodeEligible })
}

// A Problem that somebody else found reaches the author.
func TestReportProblem(t *testing.T) {
	var r reports
	a := start(t, newSim(t), func(c *services.Config) { c.Reporter = &r })
	a.apply(service("web", "10.96.0.1", 1))
	a.sync()
	a.settle()
	a.server.ReportProblem("shop/web", model.Problem{Reason: model.ReasonHealthCheckFailed, Field: "spec.healthCheckNodePort", Message: "taken"})
	a.settle()
	r.expect(t, "web FailedToStartServiceHealthcheck spec.healthCheckNodePort: taken")
}
