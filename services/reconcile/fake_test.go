// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"calico-vpp-services/vpplink/types"
)

var errRefused = errors.New("refused")

// fakeVPP is the slots of cnat with the quirks that a reconciler must know:
// ids are reused at once (F2), an update keeps hash and flags (F3), and dump
// does not tell them (F5).
type fakeVPP struct {
	t     *testing.T
	slots map[uint32]*types.CnatTranslateEntry
	free  []uint32
	log   []string
	// refuse makes VPP answer the writes of a key with an error. "del" and "add"
	// restrict that to one kind of write.
	refuse map[types.Key]string
	// loseAt loses the session before the n-th write of the next batch is
	// answered; the writes before it, and it if loseAfter, are carried out.
	loseAt    int
	loseAfter bool
	lost      error
}

func newFakeVPP(t *testing.T) *fakeVPP {
	return &fakeVPP{t: t, slots: map[uint32]*types.CnatTranslateEntry{}, refuse: map[types.Key]string{}, loseAt: -1}
}

func (v *fakeVPP) Err() error { return v.lost }

func (v *fakeVPP) find(k types.Key) (uint32, bool) {
	for id, e := range v.slots {
		if e.Key() == k {
			return id, true
		}
	}
	return 0, false
}

func (v *fakeVPP) load(e types.CnatTranslateEntry) uint32 {
	id := uint32(len(v.slots) + len(v.free))
	if n := len(v.free); n > 0 {
		id, v.free = v.free[n-1], v.free[:n-1]
	}
	v.slots[id] = &e
	return id
}

// drop deletes a translation behind the reconciler's back.
func (v *fakeVPP) drop(k types.Key) bool {
	id, there := v.find(k)
	if there {
		delete(v.slots, id)
		v.free = append(v.free, id)
	}
	return there
}

func (v *fakeVPP) CnatTranslationDump(context.Context) ([]types.Translation, error) {
	if v.lost != nil {
		return nil, v.lost
	}
	v.log = append(v.log, "dump")
	var out []types.Translation
	for id, e := range v.slots {
		d := types.CnatTranslateEntry{Proto: e.Proto, IP: e.IP, Port: e.Port, LBType: e.LBType, Backends: slices.Clone(e.Backends)}
		out = append(out, types.Translation{ID: id, Entry: d})
	}
	slices.SortFunc(out, func(a, b types.Translation) int { return a.Entry.Key().Compare(b.Entry.Key()) })
	return out, nil
}

func (v *fakeVPP) CnatTranslateBatch(_ context.Context, writes []types.CnatWrite) []types.CnatResult {
	out := make([]types.CnatResult, len(writes))
	for i, w := range writes {
		if v.loseAt == i && !v.loseAfter {
			v.lost = errors.New("session lost")
		}
		if v.lost == nil {
			out[i] = v.write(w)
		} else {
			out[i].Err = v.lost
		}
		if v.loseAt == i && v.loseAfter {
			v.lost = errors.New("session lost")
			out[i].Err = v.lost
		}
	}
	v.loseAt = -1
	return out
}

func (v *fakeVPP) write(w types.CnatWrite) types.CnatResult {
	if w.Entry == nil {
		e := v.slots[w.ID]
		if e == nil {
			v.t.Errorf("delete of id %d, which is free", w.ID)
			return types.CnatResult{}
		}
		if r := v.refuse[e.Key()]; r == "all" || r == "del" {
			v.log = append(v.log, "refused del "+e.Key().String())
			return types.CnatResult{Err: errRefused}
		}
		v.log = append(v.log, "del "+e.Key().String())
		delete(v.slots, w.ID)
		v.free = append(v.free, w.ID)
		return types.CnatResult{}
	}
	if err := w.Entry.Validate(); err != nil {
		v.t.Errorf("write of an invalid entry: %v", err)
	}
	if r := v.refuse[w.Entry.Key()]; r == "all" || r == "add" {
		v.log = append(v.log, "refused add "+w.Entry.Key().String())
		return types.CnatResult{Err: errRefused}
	}
	v.log = append(v.log, "add "+w.Entry.String())
	if id, there := v.find(w.Entry.Key()); there {
		old := v.slots[id]
		old.Backends = keepFlags(old.Backends, w.Entry.Backends)
		return types.CnatResult{ID: id}
	}
	return types.CnatResult{ID: v.load(w.Entry.Clone())}
}

// takeLog returns what VPP was told since the last time.
func (v *fakeVPP) takeLog() string {
	s := strings.Join(v.log, "\n")
	v.log = nil
	return s
}

// content prints what VPP really holds.
func (v *fakeVPP) content() string {
	var lines []string
	for _, e := range v.slots {
		lines = append(lines, e.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// bench is a reconciler with a fake VPP, a clock and what is wanted.
type bench struct {
	t      *testing.T
	vpp    *fakeVPP
	rec    *Reconciler
	wanted map[types.Key]*types.CnatTranslateEntry
	now    time.Time
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t, vpp: newFakeVPP(t), wanted: map[types.Key]*types.CnatTranslateEntry{}, now: time.Unix(1e9, 0)}
	cfg := DefaultConfig()
	cfg.Now = func() time.Time { return b.now }
	cfg.Jitter = func() float64 { return 0 }
	b.rec = New(cfg, func(k types.Key) (*types.CnatTranslateEntry, bool) {
		e, ok := b.wanted[k]
		return e, ok
	})
	b.attach("one")
	b.vpp.takeLog()
	return b
}

func (b *bench) attach(instance string) int {
	b.t.Helper()
	b.vpp.lost = nil
	drift, err := b.rec.Attach(context.Background(), b.vpp, instance)
	if err != nil {
		b.t.Fatal(err)
	}
	for k := range b.wanted {
		b.rec.Mark(k)
	}
	return drift
}

func (b *bench) want(e types.CnatTranslateEntry) {
	b.wanted[e.Key()] = &e
	b.rec.Mark(e.Key())
}

func (b *bench) unwant(k types.Key) {
	delete(b.wanted, k)
	b.rec.Mark(k)
}

func (b *bench) round(want ...string) Result {
	b.t.Helper()
	res := b.rec.Round(context.Background())
	if got := b.vpp.takeLog(); got != strings.Join(want, "\n") {
		b.t.Errorf("VPP was told\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	return res
}

// holds checks that VPP holds what is wanted, and that the reconciler is done.
func (b *bench) holds() {
	b.t.Helper()
	var lines []string
	for _, e := range b.wanted {
		lines = append(lines, e.String())
	}
	slices.Sort(lines)
	if got, want := b.vpp.content(), strings.Join(lines, "\n"); got != want {
		b.t.Errorf("VPP holds\n%s\nwant\n%s", got, want)
	}
	if n, _ := b.rec.Pending(); n != 0 {
		b.t.Errorf("%d keys pending, want 0", n)
	}
}

// entry makes one on 10.96.0.n;80 with backends 10.244.1.x.
func entry(n int, backends ...int) types.CnatTranslateEntry {
	e := types.CnatTranslateEntry{Proto: types.TCP, IP: netip.AddrFrom4([4]byte{10, 96, 0, byte(n)}), Port: 80, Flags: types.FlagNoClient}
	for _, b := range backends {
		e.Backends = append(e.Backends, types.Backend{IP: netip.AddrFrom4([4]byte{10, 244, 1, byte(b)}), Port: 8080})
	}
	e.Normalize()
	return e
}

func with(e types.CnatTranslateEntry, f func(*types.CnatTranslateEntry)) types.CnatTranslateEntry {
	f(&e)
	return e
}

func key(n int) types.Key                   { e := entry(n); return e.Key() }
func add(e types.CnatTranslateEntry) string { return "add " + e.String() }
func del(n int) string                      { return "del " + key(n).String() }
