// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"fmt"

	"calico-vpp-services/vpplink/types"
)

// Store remembers which translations of one VPP are ours, and what dump does
// not tell of them (vpp-facts F5). It outlives the process, not the VPP. A
// nil Store is no memory: every start is like the first.
type Store interface {
	// Begin says which VPP is programmed from now on. It returns what is
	// remembered of that one, and forgets all others. known is false when
	// nothing was ever recorded of it.
	Begin(instance string) (records map[types.Key]Record, known bool, err error)
	// Put records the keys as given, all of them or none; nil forgets a key.
	Put(records map[types.Key]*Record) error
}

// Record is what is remembered of one key of ours.
type Record struct {
	// Held is what VPP holds as far as is known; nil for nothing.
	Held *Held `json:"held,omitempty"`
	// Doing is the step under way. It is recorded before VPP hears of it, so
	// that nothing of ours is unlisted whenever the process is killed.
	Doing *Doing `json:"doing,omitempty"`
}

// Held is a translation that VPP holds.
type Held struct {
	ID    uint32                   `json:"id"`
	Entry types.CnatTranslateEntry `json:"entry"`
	Trust Trust                    `json:"trust"`
}

// Doing is a step whose outcome is not known yet.
type Doing struct {
	Action Action `json:"action"`
	// Entry is what the step writes; nil for Delete.
	Entry *types.CnatTranslateEntry `json:"entry,omitempty"`
}

// Check says what is wrong with a record that was read for key.
func (r *Record) Check(key types.Key) error {
	switch {
	case r.Held == nil && r.Doing == nil:
		return fmt.Errorf("record of %s: empty", key)
	case r.Held != nil && r.Held.Entry.Key() != key:
		return fmt.Errorf("record of %s: it is about %s", key, r.Held.Entry.Key())
	case r.Held != nil && r.Held.Trust > Torn:
		return fmt.Errorf("record of %s: trust %d is unknown", key, r.Held.Trust)
	case r.Doing == nil:
		return nil
	case r.Doing.Action < Delete || r.Doing.Action > Grow:
		return fmt.Errorf("record of %s: action %d is unknown", key, r.Doing.Action)
	case (r.Doing.Entry == nil) != (r.Doing.Action == Delete):
		return fmt.Errorf("record of %s: %s with the wrong entry", key, r.Doing.Action)
	case r.Doing.Entry != nil && r.Doing.Entry.Key() != key:
		return fmt.Errorf("record of %s: it is about %s", key, r.Doing.Entry.Key())
	}
	return nil
}

// recordOf returns what is to be remembered of key; nil for nothing.
func (r *Reconciler) recordOf(key types.Key) *Record {
	var rec Record
	if s, held := r.actual[key]; held && s.trust != foreign {
		rec.Held = &Held{ID: s.id, Entry: s.entry, Trust: s.trust}
	}
	if d, doubted := r.doubts[key]; doubted {
		rec.Doing = &Doing{Action: d.action, Entry: d.entry}
	}
	if rec.Held == nil && rec.Doing == nil {
		return nil
	}
	return &rec
}

// recall takes up what is remembered of the instance that is attached.
func (r *Reconciler) recall() {
	if r.cfg.Store == nil {
		return
	}
	records, known, err := r.cfg.Store.Begin(r.instance)
	if r.storeErr = err; err != nil {
		return
	}
	r.dumped = known
	for key, rec := range records {
		if rec.Held != nil {
			r.actual[key] = slot{id: rec.Held.ID, entry: rec.Held.Entry, trust: rec.Held.Trust}
		}
		if rec.Doing != nil {
			r.doubts[key] = doubt{rec.Doing.Action, rec.Doing.Entry}
		}
	}
}

// save records what has changed since it was last saved. A store that
// fails is no reason to leave VPP wrong: the records wait for the next time.
func (r *Reconciler) save() {
	if r.cfg.Store == nil || len(r.unsaved) == 0 {
		return
	}
	changes := make(map[types.Key]*Record, len(r.unsaved))
	for key := range r.unsaved {
		changes[key] = r.recordOf(key)
	}
	if r.storeErr = r.cfg.Store.Put(changes); r.storeErr == nil {
		clear(r.unsaved)
	}
}
