// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"calico-vpp-services/vpplink/types"
)

func maglev(e *types.CnatTranslateEntry) { e.LBType = types.LBMaglev }
func hashed(e *types.CnatTranslateEntry) { e.Hash = types.HashSrcAddr }

func TestCreateUpdateDelete(t *testing.T) {
	b := newBench(t)
	b.round()
	b.want(entry(1, 5))
	b.round(add(entry(1, 5)))
	b.round()
	b.want(entry(1, 5))
	b.round() // wanted again as it is: no call
	b.want(entry(1, 5, 6))
	b.round(add(entry(1, 5, 6)))
	b.holds()
	b.unwant(key(1))
	b.round(del(1))
	b.unwant(key(1))
	b.round()
	b.holds()
}

// TestOrder: what takes something away goes first, and a recreate is not torn
// apart.
func TestOrder(t *testing.T) {
	b := newBench(t)
	for n := range 6 {
		b.want(entry(n, 5, 6))
	}
	b.rec.Round(context.Background())
	b.vpp.takeLog()
	b.want(entry(0, 5, 6, 7)) // grows
	b.want(entry(1, 5))       // shrinks
	b.want(with(entry(2, 5, 6), maglev))
	b.want(with(entry(3, 5, 6), hashed))
	b.unwant(key(4))
	b.want(entry(5, 6, 7)) // swaps one: a removal too
	b.want(entry(9, 5))
	b.round(
		del(4),
		del(2), add(with(entry(2, 5, 6), maglev)),
		del(3), add(with(entry(3, 5, 6), hashed)),
		add(entry(1, 5)), add(entry(5, 6, 7)),
		add(entry(9, 5)),
		add(entry(0, 5, 6, 7)),
	)
	b.holds()
}

// TestAddressTurnsReal: all translations of an address go before the first one
// comes back, since the first decides for the address (C2).
func TestAddressTurnsReal(t *testing.T) {
	b := newBench(t)
	second := with(entry(1, 5), func(e *types.CnatTranslateEntry) { e.Port = 81 })
	b.want(entry(1, 5))
	b.want(second)
	b.rec.Round(context.Background())
	b.vpp.takeLog()
	is := func(e *types.CnatTranslateEntry) { e.IsRealIP = true }
	b.want(with(entry(1, 5), is))
	b.want(with(second, is))
	b.round(del(1), "del "+second.Key().String(), add(with(entry(1, 5), is)), add(with(second, is)))
	b.holds()
}

// TestTakeover: another owner's entry replaces the first's in place, and with
// another hash by delete and create; the freed id is not used (F2).
func TestTakeover(t *testing.T) {
	b := newBench(t)
	b.want(entry(1, 5))
	b.want(entry(2, 5))
	b.round(add(entry(1, 5)), add(entry(2, 5)))
	b.want(entry(1, 9))
	b.round(add(entry(1, 9)))
	b.want(with(entry(1, 9), hashed))
	b.round(del(1), add(with(entry(1, 9), hashed)))
	b.unwant(key(1))
	b.round(del(1))
	b.holds()
}

func TestRefusedWriteIsRetriedAlone(t *testing.T) {
	b := newBench(t)
	b.vpp.refuse[key(1)] = "all"
	b.want(entry(1, 5))
	b.want(entry(2, 5))
	res := b.round("refused add "+key(1).String(), add(entry(2, 5)))
	if !slices.Equal(res.Failed, []types.Key{key(1)}) || res.Confirmed != 1 {
		t.Errorf("result %+v", res)
	}
	if _, held, pending, err := b.rec.Status(key(1)); held || !pending || !errors.Is(err, errRefused) {
		t.Errorf("status: held %v, pending %v, err %v", held, pending, err)
	}
	b.round() // not due
	b.now = b.now.Add(b.rec.cfg.MinBackoff)
	res = b.round("refused add " + key(1).String())
	if len(res.Failed) != 0 {
		t.Errorf("a failure that goes on was reported again: %v", res.Failed)
	}
	if due, ok := b.rec.Next(); !ok || due.Sub(b.now) != 2*b.rec.cfg.MinBackoff {
		t.Errorf("next attempt in %s, %v; want the double back-off", due.Sub(b.now), ok)
	}
	b.want(entry(3, 5)) // other keys go on meanwhile
	b.round(add(entry(3, 5)))
	delete(b.vpp.refuse, key(1))
	b.now = b.now.Add(time.Second)
	res = b.round(add(entry(1, 5)))
	if !slices.Equal(res.Recovered, []types.Key{key(1)}) {
		t.Errorf("recovered %v", res.Recovered)
	}
	b.holds()
}

// TestBackoffIsBounded: an entry is right within a second after it can be.
func TestBackoffIsBounded(t *testing.T) {
	b := newBench(t)
	for n := range 100 {
		if d := b.rec.Backoff(n); d <= 0 || d > time.Second {
			t.Fatalf("pause after %d attempts: %s", n, d)
		}
	}
}

// TestRecoveryWakesTheOthers: when VPP takes one key again, the others do not
// sit out their pause.
func TestRecoveryWakesTheOthers(t *testing.T) {
	b := newBench(t)
	for n := range 3 {
		b.vpp.refuse[key(n)] = "all"
		b.want(entry(n, 5))
	}
	for range 6 {
		b.rec.Round(context.Background())
		b.now = b.now.Add(time.Second)
	}
	b.want(entry(0, 5)) // due now
	b.rec.dirty[key(1)].due = b.now.Add(time.Second)
	b.rec.dirty[key(2)].due = b.now.Add(time.Second)
	clear(b.vpp.refuse)
	b.vpp.takeLog()
	b.round(add(entry(0, 5)))
	b.round(add(entry(1, 5)), add(entry(2, 5)))
	b.holds()
}

// TestRefusedDeleteOfRecreate: the add then was an update, so VPP kept the old
// LB type; the reconciler must know that.
func TestRefusedDeleteOfRecreate(t *testing.T) {
	b := newBench(t)
	b.want(entry(1, 5))
	b.round(add(entry(1, 5)))
	b.vpp.refuse[key(1)] = "del"
	b.want(with(entry(1, 6), maglev))
	b.round("refused del "+key(1).String(), add(with(entry(1, 6), maglev)))
	if got := b.rec.actual[key(1)]; got.entry.LBType != types.LBDefault || got.trust != Confirmed {
		t.Errorf("believed %s, trust %v", &got.entry, got.trust)
	}
	clear(b.vpp.refuse)
	b.now = b.now.Add(time.Second)
	b.round(del(1), add(with(entry(1, 6), maglev)))
	b.holds()
}

// TestRefusedUpdateKeepsSessions: a refused update of an entry with a hash of
// its own is retried as update. Recreating would end its sessions (S5).
func TestRefusedUpdateKeepsSessions(t *testing.T) {
	b := newBench(t)
	b.want(with(entry(1, 5), hashed))
	b.rec.Round(context.Background())
	b.vpp.takeLog()
	b.vpp.refuse[key(1)] = "add"
	b.want(with(entry(1, 5, 6), hashed))
	b.round("refused add " + key(1).String())
	clear(b.vpp.refuse)
	b.now = b.now.Add(time.Second)
	b.round(add(with(entry(1, 5, 6), hashed)))
	b.holds()
}

// TestSessionLost kills the session at every write of a round, with and without
// that write being carried out: after the next dump VPP ends up right, and no
// id of before is used unseen.
func TestSessionLost(t *testing.T) {
	for at := range 7 {
		for _, after := range []bool{false, true} {
			b := newBench(t)
			b.want(entry(1, 5))
			b.want(entry(2, 5))
			b.want(with(entry(3, 5), hashed))
			b.rec.Round(context.Background())
			b.unwant(key(1))
			b.want(with(entry(2, 5), hashed))
			b.want(with(entry(3, 6), hashed))
			b.want(entry(4, 5))
			b.want(entry(5, 5))
			b.vpp.loseAt, b.vpp.loseAfter = at, after
			res := b.rec.Round(context.Background())
			if at < 6 && res.Err == nil {
				t.Fatalf("lost at %d: no error", at)
			}
			b.now = b.now.Add(time.Second)
			if res := b.rec.Round(context.Background()); at < 6 && len(res.Plan) != 0 {
				t.Errorf("lost at %d: a round without a session planned %s", at, res.Plan)
			}
			b.attach("one")
			for range 3 {
				b.rec.Round(context.Background())
			}
			b.holds()
		}
	}
}

// TestNewInstance: another VPP is empty; all ids are void and everything is
// written once (scenario 35).
func TestNewInstance(t *testing.T) {
	b := newBench(t)
	b.want(entry(1, 5))
	b.want(entry(2, 5))
	b.rec.Round(context.Background())
	b.unwant(key(1)) // its delete is queued while VPP is replaced
	b.vpp = newFakeVPP(t)
	foreign := entry(7, 5)
	b.vpp.load(foreign) // has the id that entry 1 had
	b.wanted[foreign.Key()] = &foreign
	b.attach("two")
	b.round("dump", add(entry(2, 5)), add(foreign))
	b.holds()
}

// TestSameInstance: a reconnect to the VPP of before makes no write, whatever
// dump does not tell.
func TestSameInstance(t *testing.T) {
	b := newBench(t)
	b.want(with(entry(1, 5), hashed))
	b.want(with(entry(2, 5), maglev))
	b.rec.Round(context.Background())
	b.vpp.takeLog()
	if drift := b.attach("one"); drift != 0 {
		t.Errorf("drift %d", drift)
	}
	b.round("dump")
	b.holds()
}

// TestAdoption is a start with translations in VPP that we know nothing about.
func TestAdoption(t *testing.T) {
	b := newBench(t)
	b.vpp.load(entry(1, 5))               // wanted as it is: re-asserted
	b.vpp.load(entry(2, 5))               // wanted with other backends
	b.vpp.load(entry(3, 5))               // wanted with another LB type
	b.vpp.load(with(entry(4, 5), maglev)) // wanted with a hash, which can't be seen
	b.vpp.load(entry(5, 5))               // not wanted
	b.attach("other")
	b.want(entry(1, 5))
	b.want(entry(2, 6))
	b.want(with(entry(3, 5), maglev))
	b.want(with(entry(4, 5), func(e *types.CnatTranslateEntry) { maglev(e); hashed(e) }))
	b.round("dump",
		del(5),
		del(3), add(with(entry(3, 5), maglev)),
		del(4), add(with(entry(4, 5), func(e *types.CnatTranslateEntry) { maglev(e); hashed(e) })),
		add(entry(2, 6)),
		add(entry(1, 5)),
	)
	b.round()
	b.holds()
}

// TestDrift: somebody adds, alters, deletes and replaces translations behind
// our back; a resync finds each and mends it.
func TestDrift(t *testing.T) {
	b := newBench(t)
	for n := 1; n <= 4; n++ {
		b.want(entry(n, 5))
	}
	b.rec.Round(context.Background())
	b.vpp.takeLog()
	b.vpp.drop(key(1))
	id, _ := b.vpp.find(key(2))
	b.vpp.slots[id].Backends = entry(2, 5, 6).Backends
	b.vpp.load(entry(9, 9))
	id, _ = b.vpp.find(key(3))
	*b.vpp.slots[id] = with(entry(3, 5), maglev)
	drift, err := b.rec.Resync(context.Background())
	if err != nil || drift != 4 {
		t.Errorf("drift %d, %v; want 4", drift, err)
	}
	b.round("dump", del(9), del(3), add(entry(3, 5)), add(entry(2, 5)), add(entry(1, 5)))
	b.holds()
	if drift, _ = b.rec.Resync(context.Background()); drift != 0 {
		t.Errorf("drift %d after mending", drift)
	}
}

// TestMaxSteps: a long plan is carried out in parts, the removals first.
func TestMaxSteps(t *testing.T) {
	b := newBench(t)
	b.rec.cfg.MaxSteps = 2
	b.want(entry(1, 5))
	b.rec.Round(context.Background())
	b.vpp.takeLog()
	for n := 2; n <= 4; n++ {
		b.want(entry(n, 5))
	}
	b.unwant(key(1))
	b.round(del(1), add(entry(2, 5)))
	if due, ok := b.rec.Next(); !ok || due.After(b.now) {
		t.Error("the rest of the plan is not due")
	}
	b.round(add(entry(3, 5)), add(entry(4, 5)))
	b.holds()
}

// TestSurplus: two translations for one key, which VPP cannot make, are
// brought down to one.
func TestSurplus(t *testing.T) {
	b := newBench(t)
	b.vpp.load(entry(1, 5))
	b.vpp.load(entry(1, 5))
	b.wanted[key(1)] = ptr(entry(1, 5))
	if drift := b.attach("other"); drift != 0 {
		t.Errorf("drift %d of a VPP that was not dumped before", drift)
	}
	b.round("dump", del(1), add(entry(1, 5)))
	b.holds()
}

func ptr[T any](v T) *T { return &v }

// name of the n-th VPP instance; newBench attaches the first.
func name(n int) string {
	if n == 0 {
		return "one"
	}
	return fmt.Sprintf("instance %d", n)
}

// TestRandomFaults plays random wishes against a VPP that refuses, loses
// sessions and is replaced. When it behaves again, it holds what is wanted.
func TestRandomFaults(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for h := range 5000 {
		rng := rand.New(rand.NewPCG(seed, uint64(h)))
		b := newBench(t)
		instance := 0
		for range 40 {
			n := rng.IntN(5)
			e := entry(n)
			switch rng.IntN(9) {
			case 0:
				b.unwant(e.Key())
			case 1, 2, 3:
				e = entry(n, 1+rng.IntN(3), 1+rng.IntN(3))
				if rng.IntN(3) == 0 {
					e.Hash = types.HashSrcAddr
				}
				if rng.IntN(3) == 0 {
					e.Backends[0].NoNAT = true
				}
				b.want(e)
			case 4:
				b.vpp.refuse[e.Key()] = []string{"all", "add", "del", ""}[rng.IntN(4)]
			case 5:
				b.vpp.loseAt, b.vpp.loseAfter = rng.IntN(4), rng.IntN(2) == 0
			case 6:
				if b.vpp.lost != nil || rng.IntN(4) == 0 {
					if rng.IntN(3) == 0 {
						instance++
						b.vpp = newFakeVPP(t)
					}
					b.attach(name(instance))
				}
			default:
				b.now = b.now.Add(100 * time.Millisecond)
				b.rec.Round(context.Background())
			}
		}
		clear(b.vpp.refuse)
		b.vpp.loseAt = -1
		if b.vpp.lost != nil {
			b.attach(name(instance))
		}
		for range 4 {
			b.now = b.now.Add(time.Second)
			b.rec.Round(context.Background())
		}
		story := b.vpp.takeLog()
		b.holds()
		if _, err := b.rec.Resync(context.Background()); err != nil {
			t.Fatal(err)
		}
		b.round("dump") // quiet
		if t.Failed() {
			t.Fatalf("history %d of seed %d, VPP last heard\n%s", h, seed, story)
		}
	}
}
