// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"maps"
	"slices"
	"time"

	"calico-vpp-services/vpplink/types"
)

// Retry makes every dirty key due now, as if it had not been tried yet.
func (r *Reconciler) Retry() {
	for _, d := range r.dirty {
		d.due, d.attempts = r.cfg.Now(), 0
	}
}

// Next returns when the earliest dirty key is due; ok is false when nothing is
// dirty.
func (r *Reconciler) Next() (due time.Time, ok bool) {
	for _, d := range r.dirty {
		if !ok || d.due.Before(due) {
			due, ok = d.due, true
		}
	}
	return due, ok
}

// Pending returns the number of dirty keys and the least number of attempts
// that any of them had.
func (r *Reconciler) Pending() (keys, minAttempts int) {
	for _, d := range r.dirty {
		if keys == 0 || d.attempts < minAttempts {
			minAttempts = d.attempts
		}
		keys++
	}
	return keys, minAttempts
}

// FirstFailure returns the least key that is dirty after a failed attempt, and
// the error of that.
func (r *Reconciler) FirstFailure() (types.Key, error) {
	var first types.Key
	var err error
	for key, d := range r.dirty {
		if d.err != nil && (err == nil || key.Compare(first) < 0) {
			first, err = key, d.err
		}
	}
	return first, err
}

// Status tells how key stands: VPP's id if VPP holds a translation for it,
// whether it is still dirty, and the error of the last attempt.
func (r *Reconciler) Status(key types.Key) (id uint32, held, pending bool, err error) {
	s, held := r.actual[key]
	if d := r.dirty[key]; d != nil {
		return s.id, held, true, d.err
	}
	return s.id, held, false, nil
}

// Held returns the keys that VPP holds as far as is known, sorted.
func (r *Reconciler) Held() []types.Key {
	return slices.SortedFunc(maps.Keys(r.actual), types.Key.Compare)
}

// StoreErr returns why the last use of the store failed; nil when it did not.
func (r *Reconciler) StoreErr() error { return r.storeErr }

// IsForeign tells whether VPP holds a translation of somebody else for key,
// which is left alone.
func (r *Reconciler) IsForeign(key types.Key) bool {
	s, held := r.actual[key]
	return held && s.trust == foreign && !r.outranks(key)
}

// Foreign returns the keys of the translations that are left alone, sorted.
func (r *Reconciler) Foreign() []types.Key {
	var keys []types.Key
	for key, s := range r.actual {
		if s.trust == foreign {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, types.Key.Compare)
	return keys
}
