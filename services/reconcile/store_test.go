// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"calico-vpp-services/vpplink/types"
)

// memory is a Store that keeps what a file would keep: copies, as JSON.
type memory struct {
	t        *testing.T
	instance string
	records  map[types.Key][]byte
	puts     int
	// dieAt is the Put at which the process is killed: it and what comes after
	// it are never recorded. -1 is never.
	dieAt int
	fail  error
}

func newMemory(t *testing.T) *memory {
	return &memory{t: t, records: map[types.Key][]byte{}, dieAt: -1}
}

func (m *memory) Begin(instance string) (map[types.Key]Record, bool, error) {
	if m.fail != nil {
		return nil, false, m.fail
	}
	if m.instance != instance {
		m.instance = instance
		clear(m.records)
		return nil, false, nil
	}
	out := map[types.Key]Record{}
	for k, v := range m.records {
		var rec Record
		if err := json.Unmarshal(v, &rec); err != nil {
			m.t.Fatal(err)
		}
		if err := rec.Check(k); err != nil {
			m.t.Fatal(err)
		}
		out[k] = rec
	}
	return out, true, nil
}

func (m *memory) Put(records map[types.Key]*Record) error {
	if m.fail != nil {
		return m.fail
	}
	if m.dieAt >= 0 && m.puts >= m.dieAt {
		return errors.New("killed")
	}
	m.puts++
	for k, rec := range records {
		if rec == nil {
			delete(m.records, k)
			continue
		}
		v, err := json.Marshal(rec)
		if err != nil {
			m.t.Fatal(err)
		}
		m.records[k] = v
	}
	return nil
}

// reborn is a bench whose agent has just been started: VPP, what is wanted and
// the store are those of b.
func (b *bench) reborn() *bench {
	b.t.Helper()
	b.vpp.lost, b.vpp.loseAt = nil, -1
	n := &bench{t: b.t, vpp: b.vpp, wanted: b.wanted, now: b.now.Add(time.Minute)}
	cfg := b.rec.cfg
	cfg.Now = func() time.Time { return n.now }
	n.rec = New(cfg, func(k types.Key) (*types.CnatTranslateEntry, bool) {
		e, ok := n.wanted[k]
		return e, ok
	})
	return n
}

func storeBench(t *testing.T, sidecar bool) (*bench, *memory) {
	b := newBench(t)
	m := newMemory(t)
	b.rec.cfg.Store, b.rec.cfg.Sidecar = m, sidecar
	b = b.reborn()
	b.attach("one")
	b.vpp.takeLog()
	return b, m
}

// TestScenario32RestartIsQuiet: with a record of what dump does not tell, a
// start makes no write, and one that finds changes writes just those.
func TestScenario32RestartIsQuiet(t *testing.T) {
	for _, sidecar := range []bool{false, true} {
		b, _ := storeBench(t, sidecar)
		b.want(with(entry(1, 5), hashed))
		b.want(with(entry(2, 5), maglev))
		b.want(with(entry(3, 5), func(e *types.CnatTranslateEntry) { e.IsRealIP = true }))
		b.want(entry(4, 5, 6))
		b.rec.Round(context.Background())
		b.vpp.takeLog()
		b = b.reborn()
		if drift := b.attach("one"); drift != 0 {
			t.Errorf("drift %d", drift)
		}
		b.round("dump")
		b.holds()
		// Meanwhile things changed (scenario 29).
		b = b.reborn()
		delete(b.wanted, key(1))
		e := entry(4, 6)
		b.wanted[key(4)] = &e
		b.attach("one")
		b.round("dump", del(1), add(entry(4, 6)))
		b.holds()
	}
}

// TestKilled kills the agent at every write and every Put of a round, in both
// modes, beside a foreign translation. The next agent ends up right, whether
// the objects are still the same or all gone: nothing of ours is forgotten,
// nothing else touched.
func TestKilled(t *testing.T) {
	for _, sidecar := range []bool{false, true} {
		for _, allGone := range []bool{false, true} {
			for kill := range 20 {
				b, m := storeBench(t, sidecar)
				b.vpp.load(entry(99, 9))
				b.attach("one")
				b.want(entry(1, 5))
				b.want(entry(2, 5))
				b.want(with(entry(3, 5), hashed))
				b.rec.Round(context.Background())
				b.unwant(key(1))
				b.want(with(entry(2, 5), hashed))
				b.want(with(entry(3, 6), hashed))
				b.want(entry(4, 5))
				b.want(entry(5, 5))
				switch {
				case kill < 16: // at a write, before or after VPP carried it out
					b.vpp.loseAt, b.vpp.loseAfter = kill/2, kill%2 == 1
				default: // at a Put; the round goes on unrecorded from there
					m.dieAt = m.puts + kill - 16
				}
				if kill == 16 { // killed before VPP hears of the round
					b.vpp.loseAt, b.vpp.loseAfter = 0, false
				}
				b.rec.Round(context.Background())
				m.dieAt = -1

				b = b.reborn()
				if allGone {
					clear(b.wanted)
				}
				b.attach("one")
				b.vpp.takeLog()
				for range 4 {
					b.rec.Round(context.Background())
					b.now = b.now.Add(time.Second)
				}
				if sidecar {
					foreign := entry(99, 9)
					b.wanted[key(99)] = &foreign // stays as it was
				}
				b.holds()
				if log := b.vpp.takeLog(); strings.Contains(log, key(99).String()) && sidecar {
					t.Errorf("kill %d: the foreign translation was written:\n%s", kill, log)
				}
				if t.Failed() {
					t.Fatalf("sidecar %v, all gone %v, kill %d", sidecar, allGone, kill)
				}
				delete(b.wanted, key(99))
				b = b.reborn()
				b.attach("one")
				b.round("dump")
			}
		}
	}
}

// TestSidecar: what the store does not list is left alone, unless something
// that outranks it wants its key.
func TestSidecar(t *testing.T) {
	b, _ := storeBench(t, true)
	b.vpp.load(entry(1, 9))
	b.vpp.load(entry(2, 9))
	b.vpp.load(entry(3, 9))
	weak := key(2)
	b.rec.cfg.Outranks = func(k types.Key) bool { return k != weak }
	if drift := b.attach("one"); drift != 0 {
		t.Errorf("drift %d; the translations of others are none", drift)
	}
	b.want(entry(1, 5))
	b.want(entry(2, 5))
	res := b.round("dump", add(entry(1, 5)))
	if !slices.Equal(res.TakenOver, []types.Key{key(1)}) {
		t.Errorf("taken over %v, want %v", res.TakenOver, key(1))
	}
	if got, want := b.rec.Foreign(), []types.Key{key(2), key(3)}; !slices.Equal(got, want) {
		t.Errorf("foreign %v, want %v", got, want)
	}
	if !b.rec.IsForeign(key(2)) || b.rec.IsForeign(key(1)) || b.rec.IsForeign(key(4)) {
		t.Error("IsForeign is wrong")
	}
	// The other agent goes, and comes again, as it likes.
	b.vpp.drop(key(3))
	b.vpp.load(entry(7, 9))
	if drift, err := b.rec.Resync(context.Background()); drift != 0 || err != nil {
		t.Errorf("drift %d, %v", drift, err)
	}
	b.round("dump")
	// What was taken is ours now, also to the next agent.
	b = b.reborn()
	delete(b.wanted, key(1))
	b.attach("one")
	b.round("dump", del(1))
	// When it gives way, the weak one gets its key.
	b.vpp.drop(key(2))
	b.wanted[key(2)] = ptr(entry(2, 5))
	if _, err := b.rec.Resync(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.rec.Mark(key(2))
	b.round("dump", add(entry(2, 5)))
}

// TestSidecarWithoutStore: without the record, everything is foreign.
func TestSidecarWithoutStore(t *testing.T) {
	b, m := storeBench(t, true)
	b.want(entry(1, 5))
	b.want(entry(2, 5))
	b.rec.Round(context.Background())
	b.vpp.takeLog()
	b = b.reborn()
	m.instance = ""
	delete(b.wanted, key(2))
	b.attach("one")
	b.round("dump", add(entry(1, 5)))
	if got := b.rec.Foreign(); !slices.Equal(got, []types.Key{key(2)}) {
		t.Errorf("foreign %v", got)
	}
}

// TestStoreFails: VPP is programmed all the same, and the records follow when
// the store works again.
func TestStoreFails(t *testing.T) {
	b, m := storeBench(t, true)
	m.fail = errors.New("no space")
	b.want(entry(1, 5))
	b.round(add(entry(1, 5)))
	if b.rec.StoreErr() == nil {
		t.Error("no word of the failing store")
	}
	m.fail = nil
	b.want(entry(2, 5))
	b.round(add(entry(2, 5)))
	if err := b.rec.StoreErr(); err != nil {
		t.Error(err)
	}
	if len(m.records) != 2 {
		t.Errorf("%d records, want both", len(m.records))
	}
}

// TestRandomKills plays random wishes, kills, refusals and another agent's doings;
// at the end VPP holds what is wanted, and beside it, in a sidecar, what the
// other agent left.
func TestRandomKills(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for h := range 3000 {
		rng := rand.New(rand.NewPCG(seed, uint64(h)))
		sidecar := h%2 == 0
		b, m := storeBench(t, sidecar)
		foreign := map[types.Key]*types.CnatTranslateEntry{}
		for range 40 {
			n := rng.IntN(5)
			switch rng.IntN(9) {
			case 0:
				b.unwant(key(n))
			case 1, 2, 3:
				e := entry(n, 1+rng.IntN(3), 1+rng.IntN(3))
				if rng.IntN(3) == 0 {
					e.Hash = types.HashSrcAddr
				}
				b.want(e)
			case 4:
				b.vpp.refuse[key(n)] = []string{"all", "add", "del", ""}[rng.IntN(4)]
			case 5:
				b.vpp.loseAt, b.vpp.loseAfter = rng.IntN(4), rng.IntN(2) == 0
			case 6:
				if rng.IntN(2) == 0 {
					m.dieAt = m.puts + rng.IntN(2)
					if m.dieAt == m.puts {
						b.vpp.loseAt, b.vpp.loseAfter = 0, false // killed while it recorded what was to come
					}
					b.rec.Round(context.Background())
					m.dieAt = -1
				}
				b = b.reborn()
				b.attach("one")
			case 7: // the other agent keeps to keys of its own
				e := entry(50+rng.IntN(3), 1+rng.IntN(9))
				_, there := b.vpp.find(e.Key())
				switch {
				case !there:
					b.vpp.load(e)
					foreign[e.Key()] = &e
				case sidecar:
					b.vpp.drop(e.Key())
					delete(foreign, e.Key())
				}
			default:
				b.now = b.now.Add(100 * time.Millisecond)
				b.rec.Round(context.Background())
			}
		}
		clear(b.vpp.refuse)
		b = b.reborn()
		b.attach("one")
		for range 4 {
			b.now = b.now.Add(time.Second)
			b.rec.Round(context.Background())
		}
		if sidecar {
			for k, e := range foreign {
				b.wanted[k] = e
			}
		}
		story := b.vpp.takeLog()
		b.holds()
		if t.Failed() {
			t.Fatalf("history %d of seed %d, VPP last heard\n%s", h, seed, story)
		}
	}
}
