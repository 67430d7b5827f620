// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"slices"

	"calico-vpp-services/vpplink/types"
)

// slot is what VPP holds for one key, as far as is known.
type slot struct {
	id    uint32
	entry types.CnatTranslateEntry
	trust Trust
}

// Trust says how much of a translation is known. The values are recorded.
type Trust uint8

const (
	// Adopted means that only what dump tells is known. LB type and backends are right,
	// hash, real and flags are not known (vpp-facts F5).
	Adopted Trust = iota
	// Confirmed means that VPP confirmed the entry when we wrote it, and nothing has
	// contradicted it since.
	Confirmed
	// Torn means that the session was lost while we were recreating it. It has the
	// attributes of before or those of after.
	Torn
	// foreign: it is somebody else's, and left alone (Config.Sidecar). That is
	// found out anew with each dump, and never recorded.
	foreign
)

// compare tells what it takes to get from the slot to want.
func (s *slot) compare(want *types.CnatTranslateEntry) types.Comparison {
	switch s.trust {
	case Confirmed:
		return s.entry.Compare(want)
	case Torn:
		return types.Recreate
	case Adopted, foreign:
	}
	// Re-asserting by update leaves sessions alone; a hash that is not VPP's
	// default can only be had by creating (F3).
	if s.entry.LBType != want.LBType || want.Hash != 0 ||
		types.ComparePaths(s.entry.Backends, want.Backends) == types.Recreate {
		return types.Recreate
	}
	return types.Update
}

// looksLike tells whether a dumped translation could be e.
func looksLike(t *types.Translation, e *types.CnatTranslateEntry) bool {
	return e != nil && e.LBType == t.Entry.LBType && slices.Equal(e.Backends, t.Entry.Backends)
}

// doubt is a step whose outcome is unknown: it was sent, and not answered.
type doubt struct {
	action Action
	// entry is what the step was to write; nil for Delete.
	entry *types.CnatTranslateEntry
}

// recognise says what the slot of a dumped translation is, given what was known
// of its key (had) and the step under way when the session ended, if any.
// expected is false when the translation is nothing that we could have left
// there. Whether it is somebody else's is for the caller to say.
func recognise(t *types.Translation, was slot, had bool, d doubt, doubted bool) (s slot, expected bool) {
	unknown := slot{id: t.ID, entry: t.Entry}
	unchanged := had && was.id == t.ID && looksLike(t, &was.entry)
	if !doubted {
		if unchanged {
			return was, true
		}
		return unknown, false
	}
	written := looksLike(t, d.entry)
	switch d.action {
	case Delete:
		if unchanged {
			return was, true
		}
	case Create:
		if written {
			return slot{id: t.ID, entry: d.entry.Clone(), trust: Confirmed}, true
		}
	case Grow, Shrink:
		// An update leaves all but the backends (F3), and the id (F1).
		if was.id == t.ID && (unchanged || written) {
			was.entry.Backends = t.Entry.Backends
			return was, true
		}
	case Recreate:
		switch {
		case written && was.entry.LBType != d.entry.LBType:
			return slot{id: t.ID, entry: d.entry.Clone(), trust: Confirmed}, true
		case unchanged && !written:
			return was, true
		}
		// Also what looks like neither: after a refused delete the add was an
		// update, which mixes the two.
		unknown.trust = Torn
		return unknown, true
	}
	return unknown, false
}

// keepFlags returns the backends of now with the flags that staying ones had
// before: what an update leaves in VPP (F3).
func keepFlags(before, now []types.Backend) []types.Backend {
	out := slices.Clone(now)
	for i := range out {
		flipped := out[i]
		flipped.NoNAT = !flipped.NoNAT
		if slices.Contains(before, flipped) {
			out[i] = flipped
		}
	}
	slices.SortFunc(out, types.Backend.Compare)
	return out
}

// same tells whether two slots are alike in all that is recorded.
func (s *slot) same(o *slot) bool {
	return s.id == o.id && s.trust == o.trust && s.entry.Compare(&o.entry) == types.Equal
}
