// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"calico-vpp-services/services/model"
)

func pools(unknown bool, cidrs ...string) *model.Facts {
	f := &model.Facts{Subject: model.SubjectPools, Unknown: unknown}
	for _, c := range cidrs {
		f.Pools = append(f.Pools, model.Pool{CIDR: netip.MustParsePrefix(c), NATOutgoing: true})
	}
	return f
}

// One source has the word on a whole subject, whatever the order in which they spoke.
func TestWhoseWordCounts(t *testing.T) {
	type said struct {
		source string
		facts  func() *model.Facts
	}
	say := func(source string, unknown bool, cidrs ...string) said {
		return said{source, func() *model.Facts { return pools(unknown, cidrs...) }}
	}
	for _, tc := range []struct {
		name   string
		said   []said
		want   string
		source string
	}{
		{"nobody", nil, "none", ""},
		{"felix alone", []said{say("felix", false, "10.244.0.0/16")}, "10.244.0.0/16(natOutgoing)", "felix"},
		{"calico over felix, whole", []said{say("felix", false, "10.244.0.0/16", "10.245.0.0/16"), say("calico", false, "10.244.0.0/16")},
			"10.244.0.0/16(natOutgoing)", "calico"},
		{"calico has none", []said{say("felix", false, "10.244.0.0/16"), say("calico", false)}, "none", "calico"},
		{"calico cannot tell", []said{say("felix", false, "10.244.0.0/16"), say("calico", true)}, "10.244.0.0/16(natOutgoing)", "felix"},
		{"equals by name", []said{say("files", false, "10.1.0.0/16"), say("calico", false, "10.2.0.0/16")}, "10.2.0.0/16(natOutgoing)", "calico"},
		{"order inside", []said{say("calico", false, "10.2.0.0/16", "10.1.0.0/16", "10.2.0.0/16")},
			"10.1.0.0/16(natOutgoing), 10.2.0.0/16(natOutgoing)", "calico"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for range 2 {
				fs := facts{}
				for _, s := range tc.said {
					if !fs.set(s.source, s.facts()) {
						t.Errorf("%s: not new the first time", s.source)
					}
					if fs.set(s.source, s.facts()) {
						t.Errorf("%s: new the second time", s.source)
					}
				}
				got, source := fs.of(model.SubjectPools)
				if diff := cmp.Diff([]string{tc.want, tc.source}, []string{got.String(), source}); diff != "" {
					t.Errorf("word that counts (-want +got):\n%s", diff)
				}
				slices.Reverse(tc.said)
			}
		})
	}
}
