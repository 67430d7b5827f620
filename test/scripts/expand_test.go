// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/google/go-cmp/cmp"

	"calico-vpp-services/services/model"
	"calico-vpp-services/vppsim"
)

// final is how things stand when nothing is left to do.
type final struct{ Table, VPP, Routes, SNAT string }

func (r *rig) final() (final, error) {
	table, err := r.table()
	return final{table, r.held(), r.routes(), r.snat()}, err
}

// order is another way in which the objects of a script may come to an agent.
// The result must not depend on it: every node has another.
type order struct {
	name string
	// batches makes them of those of the script.
	batches func(w *world, rnd *rand.Rand) [][]model.Event
	// between is done after each batch.
	between func(r *rig) error
	// late is done at the end.
	late func(r *rig) error
	// listed: everything is there before the agent may write.
	listed bool
	// faultless: no write fails.
	faultless bool
}

func allOrders() []order {
	same := func(w *world, _ *rand.Rand) [][]model.Event { return w.history }
	return []order{
		{name: "each batch reversed", batches: func(w *world, _ *rand.Rand) [][]model.Event {
			var out [][]model.Event
			for _, batch := range w.history {
				batch = slices.Clone(batch)
				slices.Reverse(batch)
				out = append(out, batch)
			}
			return out
		}},
		{name: "one object at a time", batches: func(w *world, _ *rand.Rand) [][]model.Event {
			var out [][]model.Event
			for _, e := range slices.Concat(w.history...) {
				out = append(out, []model.Event{e})
			}
			return out
		}},
		{name: "with empty rounds between, and each batch told twice", batches: func(w *world, _ *rand.Rand) [][]model.Event {
			var out [][]model.Event
			for _, batch := range w.history {
				out = append(out, batch, nil, batch)
			}
			return out
		}, between: (*rig).resync},
		{name: "all at once", batches: func(w *world, _ *rand.Rand) [][]model.Event {
			return [][]model.Event{slices.Concat(w.history...)}
		}},
		{name: "objects in a random order", batches: shuffled},
		{name: "what is left over alone, last one first", listed: true, faultless: true, batches: func(w *world, _ *rand.Rand) [][]model.Event {
			list := w.list()
			slices.Reverse(list)
			return [][]model.Event{list}
		}},
		{name: "all that ever was, then what went goes, first one last", batches: leaving},
		{name: "with a cut link and a new VPP at the end", batches: same, late: (*rig).renewVPP},
	}
}

// shuffled keeps the order of what happens to one object only.
func shuffled(w *world, rnd *rand.Rand) [][]model.Event {
	all := slices.Concat(w.history...)
	var keys []string
	of := map[string][]model.Event{}
	for _, e := range all {
		key := keyOf(e.Object)
		keys = append(keys, key)
		of[key] = append(of[key], e)
	}
	rnd.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	var out [][]model.Event
	for _, key := range keys {
		e := of[key][0]
		of[key] = of[key][1:]
		if len(out) == 0 || rnd.IntN(2) == 0 {
			out = append(out, nil)
		}
		out[len(out)-1] = append(out[len(out)-1], e)
	}
	return out
}

// leaving brings owners together with those who wait for them, whatever the
// script did, and then takes away what is not there in the end.
func leaving(w *world, _ *rand.Rand) [][]model.Event {
	var first, gone []model.Event
	last := map[string]model.Event{}
	for _, e := range slices.Concat(w.history...) {
		if e.Op == model.Upsert {
			last[keyOf(e.Object)] = e
		}
	}
	seen := map[string]bool{}
	for _, e := range slices.Concat(w.history...) {
		key := keyOf(e.Object)
		if _, was := last[key]; !was || seen[key] {
			continue
		}
		seen[key] = true
		first = append(first, last[key])
		if _, there := w.objects[key]; !there {
			gone = append(gone, model.Event{Op: model.Delete, Object: e.Object, Source: e.Source})
		}
	}
	slices.Reverse(gone)
	return [][]model.Event{first, gone}
}

// orders plays the objects of the script in other orders, each to an agent and
// a VPP of its own, and compares the end.
func (s *script) orders() {
	s.Helper()
	want, err := s.rig.final()
	if err != nil {
		s.Error(err)
		return
	}
	list := allOrders()
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i := range list {
		wg.Go(func() { errs[i] = s.play(&list[i], s.seed+uint64(i)+1, want) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			s.Errorf("in another order, %s: %v", list[i].name, err)
		}
	}
}

func (s *script) play(o *order, seed uint64, want final) (err error) {
	r, err := newRig(seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	faults := usual()
	if o.faultless {
		faults.FailProbability = 0
	}
	faults.FailKeys = s.refused
	r.sim.SetFaults(faults)
	if err := r.sim.Load(s.loaded); err != nil {
		return err
	}
	if err := r.start(s.cfg, s.flags, nil, o.listed); err != nil {
		return err
	}
	for _, batch := range o.batches(s.world, rand.New(rand.NewPCG(seed, 2))) {
		if err := r.send(batch...); err != nil {
			return err
		}
		if o.listed {
			continue
		}
		if err := s.settled(r); err != nil {
			return err
		}
		if o.between != nil {
			if err := o.between(r); err != nil {
				return err
			}
		}
	}
	if o.listed {
		if err := r.sync(); err != nil {
			return err
		}
	}
	if o.late != nil {
		if err := o.late(r); err != nil {
			return err
		}
	}
	if err := s.settled(r); err != nil {
		return err
	}
	if err := errors.Join(r.check(), r.manners()); err != nil {
		return err
	}
	got, err := r.final()
	if diff := cmp.Diff(want, got); err == nil && diff != "" {
		err = fmt.Errorf("the script ended with (-), this with (+):\n%s", diff)
	}
	return err
}

// settled is settle, unless the script has VPP refuse a key for good.
func (s *script) settled(r *rig) error {
	if err := r.settle(); err != nil && len(s.refused) == 0 {
		return err
	}
	return nil
}

func (r *rig) resync() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r.server.Resync(ctx)
}

func (r *rig) renewVPP() error {
	if err := r.dropLink(); err != nil {
		return err
	}
	before := r.server.Status().VPPInstance
	// Without faults: what must be seen is that all is there again.
	r.sim.SetFaults(vppsim.Faults{})
	if err := r.sim.Restart(); err != nil {
		return err
	}
	return r.await("on the new VPP", func() bool {
		st := r.server.Status()
		return st.Connected && st.VPPInstance != before
	})
}
