// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package book

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink/types"
)

// epoch is the creation time of age 0; a claim of age n was created n seconds later.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func key(n int) types.Key {
	return types.Key{Proto: types.TCP, IP: netip.AddrFrom4([4]byte{198, 51, 100, byte(n)}), Port: 80}
}

// claim makes a claim of id on key n; backend 0 means none (unserved).
func claim(id string, n int, kind model.Kind, age, backend int) model.Claim {
	k := key(n)
	c := model.Claim{
		Service: model.ServiceID(id), UID: "uid-" + id, Kind: kind,
		Created: epoch.Add(time.Duration(age) * time.Second),
		Entry:   types.CnatTranslateEntry{Proto: k.Proto, IP: k.IP, Port: k.Port, Flags: types.FlagNoClient},
	}
	if backend > 0 {
		c.Entry.Backends = []types.Backend{{IP: netip.AddrFrom4([4]byte{10, 244, 1, byte(backend)}), Port: 8080}}
	}
	return c
}

// dump prints the book as owner [waiting...] by key.
func dump(b *Book) string {
	var out strings.Builder
	for _, k := range b.Keys() {
		o := b.Owner(k)
		fmt.Fprintf(&out, "%s %s", o.Service, &o.Entry)
		if w := b.Waiting(k); len(w) > 0 {
			fmt.Fprintf(&out, " waiting %v", w)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func owners(b *Book) string {
	var out []string
	for _, k := range b.Keys() {
		out = append(out, fmt.Sprintf("%d:%s", k.IP.As4()[3], b.Owner(k).Service))
	}
	return strings.Join(out, " ")
}

func TestOwner(t *testing.T) {
	a := func(kind model.Kind, age, backend int) model.Claim { return claim("shop/a", 1, kind, age, backend) }
	b := func(kind model.Kind, age, backend int) model.Claim { return claim("shop/b", 1, kind, age, backend) }
	for _, tc := range []struct {
		name           string
		policy         Policy
		a, b           model.Claim
		owner, waiting model.ServiceID
	}{
		{"the latest wins", Latest, a(model.KindExternalIP, 1, 5), b(model.KindExternalIP, 2, 6), "shop/b", "shop/a"},
		{"the latest wins, names turned", Latest, a(model.KindExternalIP, 2, 5), b(model.KindExternalIP, 1, 6), "shop/a", "shop/b"},
		{"the oldest wins by policy", Oldest, a(model.KindExternalIP, 1, 5), b(model.KindExternalIP, 2, 6), "shop/a", "shop/b"},
		{"one age: by name, latest", Latest, a(model.KindExternalIP, 1, 5), b(model.KindExternalIP, 1, 6), "shop/a", "shop/b"},
		{"one age: by name, oldest", Oldest, a(model.KindExternalIP, 1, 5), b(model.KindExternalIP, 1, 6), "shop/a", "shop/b"},
		{"L4 a ClusterIP is never taken away", Latest, a(model.KindClusterIP, 1, 5), b(model.KindExternalIP, 9, 6), "shop/a", "shop/b"},
		{"ClusterIP before NodePort", Latest, a(model.KindNodePort, 9, 5), b(model.KindClusterIP, 1, 6), "shop/b", "shop/a"},
		{"L6 a nodePort is not taken by an externalIP", Latest, a(model.KindNodePort, 1, 5), b(model.KindExternalIP, 9, 6), "shop/a", "shop/b"},
		{"a nodePort is not taken by a hostPort", Latest, a(model.KindNodePort, 1, 5), b(model.KindHostPort, 9, 6), "shop/a", "shop/b"},
		{"an externalIP is not taken by a hostPort", Latest, a(model.KindExternalIP, 1, 5), b(model.KindHostPort, 9, 6), "shop/a", "shop/b"},
		{"L2 load balancer and external IP are equals", Latest, a(model.KindLoadBalancer, 1, 5), b(model.KindExternalIP, 2, 6), "shop/b", "shop/a"},
		{"an unserved owner keeps its key", Latest, a(model.KindExternalIP, 1, 5), b(model.KindExternalIP, 2, 0), "shop/b", "shop/a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, order := range [][]model.Claim{{tc.a, tc.b}, {tc.b, tc.a}} {
				bk := New(tc.policy)
				for _, c := range order {
					bk.Set(c.Service, []model.Claim{c})
				}
				if o := bk.Owner(key(1)); o.Service != tc.owner {
					t.Errorf("owner %s, want %s", o.Service, tc.owner)
				}
				if w := bk.Waiting(key(1)); !slices.Equal(w, []model.ServiceID{tc.waiting}) {
					t.Errorf("waiting %v, want %s", w, tc.waiting)
				}
				_, wanted := bk.Wanted(key(1))
				if served := bk.Owner(key(1)).Served(); wanted != served {
					t.Errorf("wanted %v for an owner with served %v", wanted, served)
				}
				if got, want := bk.serviceIDByKey[key(1)], tc.owner; got != want {
					t.Errorf("serviceIDByKey has %s, want %s", got, want)
				}
			}
		})
	}
}

// TestRankIsATotalOrder: any two different claims compare, one way round.
func TestRankIsATotalOrder(t *testing.T) {
	var all []model.Claim
	for _, id := range []string{"a/a", "a/b", "a-b/c", "pod:a/a"} {
		for kind := model.KindClusterIP; kind <= model.KindHostPort; kind++ {
			for age := range 3 {
				all = append(all, claim(id, 1, kind, age, 1))
			}
		}
	}
	for _, p := range []Policy{Latest, Oldest} {
		for i := range all {
			for j := range all {
				x, y := &all[i], &all[j]
				if c, d := p.Compare(x, y), p.Compare(y, x); c != -d {
					t.Fatalf("%s: compare is not antisymmetric for %v and %v", p, x, y)
				}
				if x.Service != y.Service && p.Compare(x, y) == 0 {
					t.Fatalf("%s: %v and %v tie", p, x, y)
				}
				for k := range all {
					z := &all[k]
					if p.Compare(x, y) < 0 && p.Compare(y, z) < 0 && p.Compare(x, z) >= 0 {
						t.Fatalf("%s: not transitive: %v, %v, %v", p, x, y, z)
					}
				}
			}
		}
	}
}

// set is one event: what a service claims from then on.
type set struct {
	id     string
	claims []model.Claim
}

// TestSequences states lists of events with the owners after each, and what
// keys the reconciler hears of.
func TestSequences(t *testing.T) {
	ext := model.KindExternalIP
	one := func(id string, n, age, backend int) set {
		return set{id, []model.Claim{claim(id, n, ext, age, backend)}}
	}
	type state struct {
		set
		owners  string
		changed int
	}
	for _, tc := range []struct {
		name   string
		states []state
	}{
		{"scenario 1: the owner leaves first", []state{
			{one("shop/a", 1, 1, 5), "1:shop/a", 1},
			{one("shop/b", 1, 2, 6), "1:shop/b", 1},
			{set{"shop/b", nil}, "1:shop/a", 1},
			{set{"shop/a", nil}, "", 1},
		}},
		{"scenario 1: the waiting one leaves first", []state{
			{one("shop/a", 1, 1, 5), "1:shop/a", 1},
			{one("shop/b", 1, 2, 6), "1:shop/b", 1},
			{set{"shop/a", nil}, "1:shop/b", 0},
			{set{"shop/b", nil}, "", 1},
		}},
		{"scenario 3: the newcomer is heard of before the old one goes", []state{
			{one("shop/b", 1, 2, 6), "1:shop/b", 1},
			{one("shop/a", 1, 1, 5), "1:shop/b", 0},
			{set{"shop/b", nil}, "1:shop/a", 1},
		}},
		{"three claimants, the middle one leaves", []state{
			{one("shop/a", 1, 1, 5), "1:shop/a", 1},
			{one("shop/b", 1, 2, 6), "1:shop/b", 1},
			{one("shop/c", 1, 3, 7), "1:shop/c", 1},
			{set{"shop/b", nil}, "1:shop/c", 0},
			{set{"shop/c", nil}, "1:shop/a", 1},
		}},
		{"three claimants, owners leave in turn", []state{
			{one("shop/c", 1, 3, 7), "1:shop/c", 1},
			{one("shop/b", 1, 2, 6), "1:shop/c", 0},
			{one("shop/a", 1, 1, 5), "1:shop/c", 0},
			{set{"shop/c", nil}, "1:shop/b", 1},
			{set{"shop/b", nil}, "1:shop/a", 1},
			{set{"shop/a", nil}, "", 1},
		}},
		{"the key moves by an update of its owner", []state{
			{one("shop/a", 1, 1, 5), "1:shop/a", 1},
			{one("shop/b", 1, 2, 6), "1:shop/b", 1},
			{one("shop/b", 2, 2, 6), "1:shop/a 2:shop/b", 2},
		}},
		{"a change of the waiting one is nobody's business", []state{
			{one("shop/a", 1, 1, 5), "1:shop/a", 1},
			{one("shop/b", 1, 2, 6), "1:shop/b", 1},
			{one("shop/a", 1, 1, 9), "1:shop/b", 0},
		}},
		{"the owner's backends change", []state{
			{one("shop/a", 1, 1, 5), "1:shop/a", 1},
			{one("shop/a", 1, 1, 6), "1:shop/a", 1},
			{one("shop/a", 1, 1, 6), "1:shop/a", 0},
			{one("shop/a", 1, 1, 0), "1:shop/a", 1},
		}},
		{"deleted and created again with another age", []state{
			{one("shop/a", 1, 5, 5), "1:shop/a", 1},
			{one("shop/b", 1, 2, 6), "1:shop/a", 0},
			{one("shop/a", 1, 1, 5), "1:shop/b", 1},
		}},
		{"a service that claims nothing", []state{
			{set{"shop/a", nil}, "", 0},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := New(Latest)
			for i, st := range tc.states {
				changes := b.Set(model.ServiceID(st.id), st.claims)
				if got := owners(b); got != st.owners {
					t.Errorf("state %d: owners %q, want %q", i, got, st.owners)
				}
				if len(changes) != st.changed {
					t.Errorf("state %d: %d changes %v, want %d", i, len(changes), changes, st.changed)
				}
				checkInvariants(t, b)
			}
			var sets []set
			for _, st := range tc.states {
				sets = append(sets, st.set)
			}
			expand(t, sets)
		})
	}
}

// expand plays a list of events in other ways, all of which must end alike:
// every permutation of the last event of each service, with and without what came
// before, and squashed.
func expand(t *testing.T, events []set) {
	t.Helper()
	final := map[string]set{}
	for _, e := range events {
		final[e.id] = e
	}
	ids := slices.Sorted(func(yield func(string) bool) {
		for id := range final {
			if !yield(id) {
				return
			}
		}
	})
	play := func(list []set) string {
		b := New(Latest)
		for _, e := range list {
			b.Set(model.ServiceID(e.id), e.claims)
			b.Set("shop/none", nil) // an empty one between
		}
		checkInvariants(t, b)
		return dump(b)
	}
	want := play(events)
	permute(ids, func(p []string) {
		var squashed []set
		for _, id := range p {
			squashed = append(squashed, final[id])
		}
		if got := play(squashed); got != want {
			t.Errorf("in order %v:\n%swant:\n%s", p, got, want)
		}
		reversed := slices.Clone(events)
		slices.Reverse(reversed)
		if got := play(append(reversed, squashed...)); got != want {
			t.Errorf("reversed, then in order %v:\n%swant:\n%s", p, got, want)
		}
	})
}

func permute(s []string, f func([]string)) {
	if len(s) == 0 {
		f(nil)
		return
	}
	for i := range s {
		rest := append(slices.Clone(s[:i]), s[i+1:]...)
		permute(rest, func(p []string) { f(append([]string{s[i]}, p...)) })
	}
}

// checkInvariants compares the three maps of the book with each other.
func checkInvariants(t *testing.T, b *Book) {
	t.Helper()
	count := 0
	for id, claims := range b.cnatEntriesByServiceName {
		if len(claims) == 0 {
			t.Errorf("%s is in the book with no claim", id)
		}
		for k, c := range claims {
			count++
			if c.Service != id || c.Key() != k {
				t.Errorf("%s holds a claim of %s on %s under %s", id, c.Service, c.Key(), k)
			}
			if !slices.Contains(b.claimsByKey[k], c) {
				t.Errorf("the claim of %s on %s is in no list", id, k)
			}
		}
	}
	for k, list := range b.claimsByKey {
		count -= len(list)
		if len(list) == 0 || b.serviceIDByKey[k] != list[0].Service {
			t.Errorf("owner of %s: serviceIDByKey has %q, the list %v", k, b.serviceIDByKey[k], list)
		}
		if !slices.IsSortedFunc(list, b.policy.Compare) {
			t.Errorf("claims of %s are not in order", k)
		}
	}
	if count != 0 {
		t.Errorf("%d claims too many in the lists", -count)
	}
	if len(b.serviceIDByKey) != len(b.claimsByKey) {
		t.Errorf("%d owners for %d keys", len(b.serviceIDByKey), len(b.claimsByKey))
	}
}

func TestSetRefusesForeignAndDoubleClaims(t *testing.T) {
	for name, claims := range map[string][]model.Claim{
		"a claim of another service": {claim("shop/b", 1, model.KindClusterIP, 1, 1)},
		"one key twice":              {claim("shop/a", 1, model.KindClusterIP, 1, 1), claim("shop/a", 1, model.KindExternalIP, 1, 2)},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic for a broken invariant")
				}
			}()
			New(Latest).Set("shop/a", claims)
		})
	}
}

func TestParsePolicy(t *testing.T) {
	for in, want := range map[string]Policy{"": Latest, "latest": Latest, "oldest": Oldest} {
		if got, err := ParsePolicy(in); err != nil || got != want {
			t.Errorf("ParsePolicy(%q) = %q, %v", in, got, err)
		}
	}
	if _, err := ParsePolicy("newest"); err == nil || !strings.Contains(err.Error(), "latest, oldest") {
		t.Errorf("ParsePolicy of a wrong value: %v", err)
	}
}
