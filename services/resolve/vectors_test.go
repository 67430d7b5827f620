// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"calico-vpp-services/services/model"
)

// TestGoldenVectors has the table of service-semantics.md S, row by row.
//
// cnat has one set for a VIP, whoever asks, so the columns "out" (an outside
// client) and "pod" (a pod on this node, to an external address) cannot both be
// kept. design.md 9 chooses: a node port is as "out" says; another external address is as
// "out" says where that is a set, and as "pod" says otherwise.
func TestGoldenVectors(t *testing.T) {
	const (
		reject, drop = "REJECT", "DROP"
		none         = "-" // no such frontend
	)
	for _, v := range []struct {
		n                   int
		iTP, eTP            string // C, L; eTP "-": nothing external
		endpoints           string
		noZone              bool
		clusterIP, out, pod string
	}{
		{1, "C", "-", "a:r b:r", false, "a,b", none, none},
		{2, "C", "-", "a:n b:r", false, "b", none, none},
		{3, "C", "-", "a:t b:r", false, "b", none, none},
		{4, "C", "-", "a:t b:x", false, "a", none, none},
		{5, "C", "-", "a:n b:x", false, reject, none, none},
		{6, "C", "-", "a:rt b:r", false, "a,b", none, none},
		{7, "L", "-", "a:r b:r", false, "a", none, none},
		{8, "L", "-", "b:r", false, drop, none, none},
		{9, "L", "-", "a:t b:r", false, "a", none, none},
		{10, "L", "-", "a:n b:t", false, drop, none, none},
		{11, "L", "-", "a:n b:n", false, reject, none, none},
		{12, "L", "-", "u:r", false, drop, none, none},
		{13, "C", "C", "a:r b:r", false, "a,b", "a,b", "a,b"},
		{14, "C", "L", "a:r b:r", false, "a,b", "a", "a,b"},
		{15, "C", "L", "b:r", false, "b", drop, "b"},
		{16, "C", "L", "a:t b:r", false, "b", "a", "b"},
		{17, "C", "L", "a:x", false, reject, reject, reject},
		{18, "L", "C", "b:r", false, drop, "b", "b"},
		{19, "L", "L", "b:r", false, drop, drop, "b"},
		{20, "L", "L", "b:t", false, drop, drop, "b"},
		{21, "C", "-", "a:r[z1] b:r[z2]", false, "a", none, none},
		{22, "C", "-", "a:r[z2] b:r[z2]", false, "a,b", none, none},
		{23, "C", "-", "a:r[z1] b:r", false, "a,b", none, none},
		{24, "C", "-", "a:r[z1] b:r[z2]", true, "a,b", none, none},
		{25, "C", "-", "a:n[z1] b:r[z2]", false, "b", none, none},
		{26, "C", "-", "a:r{n1} b:r{n2}", false, "a", none, none},
		{27, "C", "-", "a:r{n3}[z1] b:r{n2}[z2]", false, "a", none, none},
		{28, "C", "-", "a:r{n1}[z2] b:r[z1]", false, "b", none, none},
		{29, "C", "L", "a:r[z2] b:r[z1]", false, "b", "a", "b"},
		{30, "C", "-", "a:t[z1] b:t", false, "a,b", none, none},
	} {
		t.Run(fmt.Sprintf("S%d iTP %s eTP %s %s", v.n, v.iTP, v.eTP, v.endpoints), func(t *testing.T) {
			s := newState().local(v.iTP == "L", v.eTP == "L").endpoints(v.endpoints)
			if v.noZone {
				s.Node.Zone = ""
			}
			other := v.out
			if v.eTP != "-" {
				s.svc.Spec.Type = corev1.ServiceTypeNodePort
				s.svc.Spec.Ports[0].NodePort = 30080
				s.svc.Spec.ExternalIPs = []string{"198.51.100.1"}
				if v.out == drop || v.out == reject {
					other = v.pod
				}
			}
			got := map[model.Kind]string{model.KindClusterIP: none, model.KindNodePort: none, model.KindExternalIP: none}
			for _, c := range checkedService(t, s.Input).Claims {
				got[c.Kind] = verdict(&c)
			}
			for kind, want := range map[model.Kind]string{
				model.KindClusterIP: v.clusterIP, model.KindNodePort: v.out, model.KindExternalIP: other,
			} {
				if got[kind] != want {
					t.Errorf("%s: %s, want %s", kind, got[kind], want)
				}
			}
		})
	}
}

// verdict names the endpoints of a claim as the vectors do.
func verdict(c *model.Claim) string {
	if !c.Served() {
		return strings.ToUpper(c.Unserved.String())
	}
	var names []string
	for _, b := range c.Entry.Backends {
		name := map[string]string{v4a: "a", v4b: "b", v4c: "c", v4d: "d", v4u: "u"}[b.IP.String()]
		names = append(names, name)
	}
	return strings.Join(names, ",")
}
