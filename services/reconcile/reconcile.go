// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"calico-vpp-services/vpplink/types"
)

// VPP is what a Reconciler needs of a session with VPP; vpplink.Session is one.
type VPP interface {
	// CnatTranslationDump returns all translations, sorted by key.
	CnatTranslationDump(ctx context.Context) ([]types.Translation, error)
	// CnatTranslateBatch carries out writes in order, one result for each.
	CnatTranslateBatch(ctx context.Context, writes []types.CnatWrite) []types.CnatResult
	// Err is not nil when the session has ended.
	Err() error
}

// Wanted returns the entry that VPP should hold for a key, if any.
type Wanted func(types.Key) (*types.CnatTranslateEntry, bool)

// Config configures a Reconciler; DefaultConfig fills it.
type Config struct {
	// MinBackoff and MaxBackoff bound the pause before a failed key is tried
	// again. The pause doubles with each failure.
	MinBackoff, MaxBackoff time.Duration
	// MaxSteps bounds the steps of one round, so that what comes in meanwhile
	// does not wait for a long plan.
	MaxSteps int
	// Store remembers what is ours; nil for no memory.
	Store Store
	// Sidecar leaves translations alone that are not ours: those that the store
	// does not list for this VPP. Without it, everything in cnat is ours.
	Sidecar bool
	// Outranks tells whether what is wanted of a key is worth taking a foreign
	// translation for; nil stands for always. It is asked with Sidecar only.
	Outranks func(types.Key) bool
	// Now is the clock.
	Now func() time.Time
	// Jitter returns a number in [0, 1) that spreads retries.
	Jitter func() float64
}

// dirty is a key whose slot is not known to be as wanted.
type dirty struct {
	// due is when it is tried next.
	due      time.Time
	attempts int
	// err is the outcome of the last attempt.
	err error
}

// Reconciler holds what is known of VPP and what is left to do. Create it
// with New.
type Reconciler struct {
	cfg    Config
	wanted Wanted

	vpp      VPP
	instance string
	// dumped: this instance was dumped before, so what is new in it is drift.
	dumped bool
	actual map[types.Key]slot
	dirty  map[types.Key]*dirty
	// doubts are the steps that were under way when the session ended. The
	// next dump settles them.
	doubts map[types.Key]doubt
	// surplus are ids of translations that share their key with another one in
	// a dump. VPP has no way to make such, but what is in VPP is believed.
	surplus []uint32
	// unsaved are the keys whose record in the store may be out of date.
	unsaved  map[types.Key]bool
	storeErr error
}

// New returns a reconciler without a VPP.
func New(cfg Config, wanted Wanted) *Reconciler {
	return &Reconciler{
		cfg: cfg, wanted: wanted,
		actual: map[types.Key]slot{}, dirty: map[types.Key]*dirty{}, doubts: map[types.Key]doubt{},
		unsaved: map[types.Key]bool{},
	}
}

// Attach takes up a new session with the VPP of that instance: it dumps, and
// every key that differs is dirty from then on. With the instance of before, what
// was confirmed is still believed where the dump agrees; with another one,
// all ids are void (vpp-facts F2, L3).
//
// It reports how many keys are not as they were left: the drift.
func (r *Reconciler) Attach(ctx context.Context, vpp VPP, instance string) (drift int, err error) {
	r.Detach()
	if instance != r.instance {
		r.instance, r.dumped = instance, false
		clear(r.actual)
		clear(r.doubts)
		clear(r.unsaved)
		r.recall()
	}
	r.vpp = vpp
	if drift, err = r.Resync(ctx); err != nil {
		r.Detach()
	}
	return drift, err
}

// Detach forgets the session. What VPP held is remembered for Attach.
func (r *Reconciler) Detach() { r.vpp = nil }

// Attached tells whether there is a living session.
func (r *Reconciler) Attached() bool { return r.vpp != nil && r.vpp.Err() == nil }

// Resync dumps VPP and compares: a key that is not as it was left is dirty, as
// is one that is not as wanted. The dump is always believed.
func (r *Reconciler) Resync(ctx context.Context) (drift int, err error) {
	dump, err := r.vpp.CnatTranslationDump(ctx)
	if err != nil {
		return 0, fmt.Errorf("resync: %w", err)
	}
	now := make(map[types.Key]slot, len(dump))
	r.surplus = r.surplus[:0]
	for i := range dump {
		t := &dump[i]
		key := t.Entry.Key()
		if _, twice := now[key]; twice {
			if !r.cfg.Sidecar { // which of the two is ours cannot be told
				r.surplus = append(r.surplus, t.ID)
			}
			drift++
			continue
		}
		was, had := r.actual[key]
		d, doubted := r.doubts[key]
		s, expected := recognise(t, was, had, d, doubted)
		switch {
		case doubted && s.trust == foreign && looksLike(t, d.entry):
			s.trust = Adopted
		case r.cfg.Sidecar && !doubted && (!had || was.trust == foreign):
			s.trust = foreign
		case !expected:
			drift++
		}
		now[key] = s
		if doubted || !had || !s.same(&was) {
			r.unsaved[key] = true
		}
	}
	for key, was := range r.actual {
		_, doubted := r.doubts[key]
		if _, there := now[key]; there {
			continue
		}
		r.unsaved[key] = true
		if !doubted && was.trust != foreign {
			drift++
		}
	}
	for key := range r.doubts {
		r.unsaved[key] = true
	}
	clear(r.doubts)
	if !r.dumped {
		drift, r.dumped = 0, true // whatever is there is not ours to have left
	}
	before := r.actual
	r.actual = now
	for key := range before {
		r.markIfDifferent(key)
	}
	for key := range now {
		r.markIfDifferent(key)
	}
	r.save()
	return drift, nil
}

func (r *Reconciler) markIfDifferent(key types.Key) {
	if _, differs := r.step(key); differs {
		r.Mark(key)
	}
}

// Mark says that what is wanted of key may have changed. It is due at once.
func (r *Reconciler) Mark(key types.Key) {
	d := r.dirty[key]
	if d == nil {
		d = &dirty{}
		r.dirty[key] = d
	}
	d.due = r.cfg.Now()
}

func (r *Reconciler) step(key types.Key) (Step, bool) {
	want, wanted := r.wanted(key)
	if !wanted {
		want = nil
	}
	var have *slot
	if s, there := r.actual[key]; there {
		if s.trust == foreign && (want == nil || !r.outranks(key)) {
			return Step{}, false
		}
		have = &s
	}
	return step(key, have, want)
}

func (r *Reconciler) outranks(key types.Key) bool {
	return r.cfg.Outranks == nil || r.cfg.Outranks(key)
}

// Plan returns what a round would do now: the due keys' steps, in order, at
// most MaxSteps. Dirty keys that need nothing are clean from then on.
func (r *Reconciler) Plan() Plan {
	now := r.cfg.Now()
	var plan Plan
	for key, d := range r.dirty {
		s, differs := r.step(key)
		if !differs {
			delete(r.dirty, key)
			continue
		}
		if !d.due.After(now) {
			plan = append(plan, s)
		}
	}
	plan.sort()
	if r.cfg.MaxSteps > 0 && len(plan) > r.cfg.MaxSteps {
		plan = plan[:r.cfg.MaxSteps]
	}
	return plan
}

// Result is the outcome of a round.
type Result struct {
	// Plan is what was tried.
	Plan Plan
	// Confirmed counts the steps that VPP carried out.
	Confirmed int
	// Failed and Recovered list the keys that began to fail in this round, and
	// those that had failed before and are right now. Sorted.
	Failed, Recovered []types.Key
	// TakenOver lists the keys of foreign translations that are ours now. Sorted.
	TakenOver []types.Key
	// Err is set when the session was lost; the outcome is then unknown.
	Err error
}

// Round carries out one plan. It needs a session; a round without one does
// nothing.
func (r *Reconciler) Round(ctx context.Context) Result {
	if !r.Attached() {
		return Result{}
	}
	if err := r.dropSurplus(ctx); err != nil {
		return Result{Err: err}
	}
	res := Result{Plan: r.Plan()}
	if len(res.Plan) == 0 {
		return res
	}
	writes := res.Plan.writes()
	batch := make([]types.CnatWrite, len(writes))
	for i, w := range writes {
		batch[i] = w.CnatWrite
	}
	for i := range res.Plan {
		s := &res.Plan[i]
		r.doubts[s.Key] = doubt{s.Action, s.Entry}
		r.unsaved[s.Key] = true
	}
	r.save()
	results := r.vpp.CnatTranslateBatch(ctx, batch)
	errs := make([]error, len(res.Plan))
	for i, w := range writes {
		if err := results[i].Err; err != nil && errs[w.step] == nil {
			errs[w.step] = err
		}
	}
	if res.Err = r.vpp.Err(); res.Err != nil {
		// Nobody knows what was done: the doubts stay for the next Attach.
		for i := range res.Plan {
			r.failed(&res, &res.Plan[i], firstOf(errs[i], res.Err))
		}
		return res
	}
	for i := range res.Plan {
		r.unsaved[res.Plan[i].Key] = true
	}
	clear(r.doubts)
	for i := range res.Plan {
		if s := &res.Plan[i]; errs[i] == nil && r.actual[s.Key].trust == foreign {
			res.TakenOver = append(res.TakenOver, s.Key)
		}
	}
	for i, w := range writes {
		if results[i].Err == nil { // a refused write leaves the slot as it was
			r.note(&res.Plan[w.step], w, results[i].ID)
		}
	}
	for i := range res.Plan {
		if errs[i] != nil {
			r.failed(&res, &res.Plan[i], errs[i])
		} else {
			r.confirmed(&res, &res.Plan[i])
		}
	}
	if len(res.Recovered) > 0 {
		// What ailed VPP may be over: the other failed keys need not wait.
		for _, d := range r.dirty {
			d.due = r.cfg.Now()
		}
	}
	slices.SortFunc(res.Failed, types.Key.Compare)
	slices.SortFunc(res.Recovered, types.Key.Compare)
	slices.SortFunc(res.TakenOver, types.Key.Compare)
	r.save()
	return res
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// note records what one confirmed write did to the slot of its key.
func (r *Reconciler) note(s *Step, w write, id uint32) {
	if w.Entry == nil {
		delete(r.actual, s.Key)
		return
	}
	now := slot{id: id, entry: w.Entry.Clone(), trust: Confirmed}
	if was, held := r.actual[s.Key]; held && s.Action == Recreate {
		// VPP refused the delete before this add, which thereby was an update:
		// all but the set of backends is as it was (F3).
		backends := keepFlags(was.entry.Backends, w.Entry.Backends)
		now = was
		if now.trust == foreign {
			now.trust = Adopted
		}
		now.entry.Backends = backends
	}
	r.actual[s.Key] = now
}

func (r *Reconciler) confirmed(res *Result, s *Step) {
	res.Confirmed++
	if d := r.dirty[s.Key]; d != nil && d.err != nil {
		res.Recovered = append(res.Recovered, s.Key)
	}
	delete(r.dirty, s.Key)
}

func (r *Reconciler) failed(res *Result, s *Step, err error) {
	d := r.dirty[s.Key]
	if d == nil {
		d = &dirty{}
		r.dirty[s.Key] = d
	}
	if d.err == nil {
		res.Failed = append(res.Failed, s.Key)
	}
	d.err = err
	d.due = r.cfg.Now().Add(r.Backoff(d.attempts))
	d.attempts++
}

// Backoff is the pause after that many failures in a row: it doubles with each,
// up to the maximum, less up to half.
func (r *Reconciler) Backoff(attempts int) time.Duration {
	d := r.cfg.MaxBackoff
	if attempts < 32 {
		d = min(d, r.cfg.MinBackoff<<attempts)
	}
	return d - time.Duration(r.cfg.Jitter()*float64(d)/2)
}

// dropSurplus deletes what shares its key with another translation.
func (r *Reconciler) dropSurplus(ctx context.Context) error {
	if len(r.surplus) == 0 {
		return nil
	}
	writes := make([]types.CnatWrite, len(r.surplus))
	for i, id := range r.surplus {
		writes[i].ID = id
	}
	r.surplus = r.surplus[:0]
	r.vpp.CnatTranslateBatch(ctx, writes) // what is refused is seen by the next Resync
	return r.vpp.Err()
}
