// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package book

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink/types"
)

// naive is the book as one would write it first: every question is answered
// by looking at all claims.
type naive struct {
	policy Policy
	claims map[model.ServiceID][]model.Claim
}

func (n *naive) owner(k types.Key) *model.Claim {
	var best *model.Claim
	for _, list := range n.claims {
		for i := range list {
			if c := &list[i]; c.Key() == k && (best == nil || n.policy.Compare(c, best) < 0) {
				best = c
			}
		}
	}
	return best
}

// slots is VPP as far as the book's promises reach: one translation a key, ids
// that are reused at once, and an eye on who writes.
type slots struct {
	byKey map[types.Key]uint32
	owner map[uint32]model.ServiceID
	entry map[types.Key]string
	free  []uint32
	next  uint32
}

func (v *slots) add(t *testing.T, k types.Key, c *model.Claim) {
	t.Helper()
	id, there := v.byKey[k]
	if !there {
		if n := len(v.free); n > 0 {
			id, v.free = v.free[n-1], v.free[:n-1]
		} else {
			id = v.next
			v.next++
		}
		v.byKey[k] = id
	}
	v.owner[id] = c.Service
	v.entry[k] = c.Entry.String()
}

func (v *slots) del(t *testing.T, k types.Key) {
	t.Helper()
	id, there := v.byKey[k]
	if !there {
		t.Errorf("%s: deleted twice", k)
		return
	}
	delete(v.byKey, k)
	delete(v.owner, id)
	delete(v.entry, k)
	v.free = append(v.free, id)
}

// TestRandomSequences plays 12,000 random histories against the naive model.
// The invariants: one VPP entry for a key; a service that is not the owner
// causes no write; nothing is freed twice; and the end depends on the claims, not
// on the way there.
func TestRandomSequences(t *testing.T) {
	const histories, steps = 12000, 30
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for h := range histories {
		rng := rand.New(rand.NewPCG(seed, uint64(h)))
		policy := []Policy{Latest, Oldest}[rng.IntN(2)]
		b := New(policy)
		model0 := naive{policy: policy, claims: map[model.ServiceID][]model.Claim{}}
		vpp := slots{byKey: map[types.Key]uint32{}, owner: map[uint32]model.ServiceID{}, entry: map[types.Key]string{}}
		for range steps {
			id := fmt.Sprintf("ns/%c", 'a'+rune(rng.IntN(4)))
			claims := randomClaims(rng, id)
			before := map[types.Key]*model.Claim{}
			for k := range 4 {
				before[key(k)] = model0.owner(key(k))
			}
			if len(claims) == 0 {
				delete(model0.claims, model.ServiceID(id))
			} else {
				model0.claims[model.ServiceID(id)] = claims
			}
			changes := b.Set(model.ServiceID(id), slices.Clone(claims))
			for _, c := range changes {
				was, is := before[c.Key], model0.owner(c.Key)
				if (was == nil || was.Service != model.ServiceID(id)) && (is == nil || is.Service != model.ServiceID(id)) {
					t.Fatalf("history %d: %s, owner of nothing at %s, caused a write", h, id, c.Key)
				}
				if e, wanted := b.Wanted(c.Key); wanted {
					vpp.add(t, c.Key, b.Owner(c.Key))
					if e != &b.Owner(c.Key).Entry {
						t.Fatalf("history %d: the wanted entry is not the owner's", h)
					}
				} else if _, there := vpp.byKey[c.Key]; there {
					vpp.del(t, c.Key)
				}
			}
			compare(t, h, b, &model0, &vpp)
		}
		fresh := New(policy)
		ids := b.Services()
		rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		for _, id := range ids {
			fresh.Set(id, slices.Clone(model0.claims[id]))
		}
		if got, want := dump(fresh), dump(b); got != want {
			t.Fatalf("history %d: another order gives\n%swant\n%s", h, got, want)
		}
		if h%500 == 0 {
			checkInvariants(t, b)
		}
		if t.Failed() {
			t.Fatalf("history %d of seed %d", h, seed)
		}
	}
}

func randomClaims(rng *rand.Rand, id string) []model.Claim {
	var claims []model.Claim
	age := rng.IntN(3)
	for k := range 4 {
		if rng.IntN(3) == 0 {
			claims = append(claims, claim(id, k, model.Kind(rng.IntN(5)), age, rng.IntN(3)))
		}
	}
	return claims
}

// compare checks book and slots against the naive model, key by key.
func compare(t *testing.T, h int, b *Book, n *naive, vpp *slots) {
	t.Helper()
	for k := range 4 {
		want, got := n.owner(key(k)), b.Owner(key(k))
		switch {
		case want == nil && got == nil:
		case want == nil || got == nil || want.Service != got.Service || want.Entry.String() != got.Entry.String():
			t.Fatalf("history %d: owner of %s is %v, want %v", h, key(k), got, want)
		}
		id, there := vpp.byKey[key(k)]
		served := want != nil && want.Served()
		if there != served {
			t.Fatalf("history %d: %s in VPP: %v, want %v", h, key(k), there, served)
		}
		if served && (vpp.owner[id] != want.Service || vpp.entry[key(k)] != want.Entry.String()) {
			t.Fatalf("history %d: VPP holds %s of %s, want %s of %s", h, vpp.entry[key(k)], vpp.owner[id], &want.Entry, want.Service)
		}
	}
}

func BenchmarkTakeover(b *testing.B) {
	bk := New(Latest)
	for i := range 10000 {
		id := fmt.Sprintf("ns/s%d", i)
		bk.Set(model.ServiceID(id), []model.Claim{claim(id, i%200, model.KindExternalIP, i, 1)})
	}
	owner := []model.Claim{claim("ns/z", 7, model.KindExternalIP, 1<<20, 1)}
	b.ResetTimer()
	for b.Loop() {
		bk.Set("ns/z", slices.Clone(owner))
		bk.Set("ns/z", nil)
	}
}
