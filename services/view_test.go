// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"calico-vpp-services/services/model"
)

// E2: the view tells why a key is unserved, while it is, and follows a change
// that causes no write to VPP.
func TestE2WhyUnserved(t *testing.T) {
	local := corev1.ServiceInternalTrafficPolicyLocal
	a := synced(t, newSim(t), service("web", "10.96.0.1", 1, func(s *corev1.Service) { s.Spec.InternalTrafficPolicy = &local }))
	here, elsewhere := slice("web-1", "web", "10.244.1.1"), slice("web-1", "web", "10.244.1.1")
	here.Endpoints[0].NodeName = new("node-a")
	elsewhere.Endpoints[0].NodeName = new("node-b")
	none := slice("web-1", "web")
	for i, step := range []struct {
		what     string
		do       func()
		state    model.State
		unserved string
	}{
		{"no slice", func() {}, model.StateUnserved, "reject"},
		{"one elsewhere", func() { a.costs(0, 0, func() { a.apply(elsewhere) }) }, model.StateUnserved, "drop"},
		{"one here", func() { a.costs(1, 0, func() { a.apply(here) }) }, model.StateProgrammed, ""},
		{"none", func() { a.costs(0, 1, func() { a.apply(none) }) }, model.StateUnserved, "reject"},
	} {
		step.do()
		rows := a.server.Translations()
		if len(rows) != 1 || rows[0].State != step.state || rows[0].Unserved != step.unserved {
			t.Errorf("step %d, %s: %+v", i, step.what, rows[0])
		}
	}
}
