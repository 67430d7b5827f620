// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"maps"
	"slices"
	"sync"
	"time"

	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink/types"
)

// Status says how the server as a whole stands.
type Status struct {
	// Synced: every source has delivered its first complete list.
	Synced bool `json:"synced"`
	// WaitingFor names the sources that have not.
	WaitingFor []string `json:"waitingFor"`
	// Connected: there is a session with VPP and VPP has been dumped.
	Connected bool `json:"connected"`
	// LinkError says why not.
	LinkError string `json:"linkError,omitempty"`
	// DataplaneError says what is wrong with VPP's interfaces, SNAT and routes.
	DataplaneError string `json:"dataplaneError,omitempty"`
	// Mode is the configured one.
	Mode Mode `json:"mode"`
	// StoreError says why what is ours in VPP is not remembered.
	StoreError string `json:"storeError,omitempty"`
	// StoreProblems counts the state files that were set aside and the records
	// that were dropped because they could not be read.
	StoreProblems int `json:"storeProblems,omitempty"`
	// Foreign counts the translations in VPP that are somebody else's and left
	// alone; TakenOver those that Services have taken the keys of.
	Foreign   int `json:"foreign"`
	TakenOver int `json:"takenOver"`
	// VPPInstance is the identity of the VPP that is programmed.
	VPPInstance string `json:"vppInstance,omitempty"`
	// LastUpdated is when VPP was last known to hold all that the objects ask
	// for, OldestPending since when it does not.
	LastUpdated   time.Time  `json:"lastUpdated"`
	OldestPending *time.Time `json:"oldestPending,omitempty"`
	// NodeEligible: load balancers should send to this node.
	NodeEligible bool `json:"nodeEligible"`
	// Keys is the number of claimed keys, Pending of those that VPP has not
	// confirmed (removals of unclaimed keys included).
	Keys    int `json:"keys"`
	Pending int `json:"pending"`
	// NoLocal counts ports that a Local policy leaves without endpoint here.
	NoLocal NoLocal `json:"noLocal"`
	// Drift counts keys that were found otherwise in VPP than they were left.
	Drift int `json:"drift"`
	// Rounds counts rounds that wrote something.
	Rounds int `json:"rounds"`
}

// Ready tells whether VPP holds what the objects ask for.
func (s *Status) Ready() bool {
	return s.Synced && s.Connected && s.Pending == 0 && s.DataplaneError == ""
}

// view is what everybody else may see: brought up to date by the loop after
// each round, read by anyone at any time. Its lock is held over no I/O.
type view struct {
	mu     sync.RWMutex
	rows   map[types.Key]*model.TranslationState
	status Status
}

func newView() *view { return &view{rows: map[types.Key]*model.TranslationState{}} }

// publish replaces the rows of the given keys (nil removes one) and the status.
func (v *view) publish(rows map[types.Key]*model.TranslationState, st Status) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for k, r := range rows {
		if r == nil {
			delete(v.rows, k)
		} else {
			v.rows[k] = r
		}
	}
	v.status = st
}

// Translations returns every claimed key, sorted. The rows are never modified
// after they were published.
func (v *view) translations() []*model.TranslationState {
	v.mu.RLock()
	keys := slices.SortedFunc(maps.Keys(v.rows), types.Key.Compare)
	out := make([]*model.TranslationState, len(keys))
	for i, k := range keys {
		out[i] = v.rows[k]
	}
	v.mu.RUnlock()
	return out
}

func (v *view) readStatus() Status {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.status
}

// row describes key as it is now; nil when nobody claims it.
func (s *Server) row(key types.Key) *model.TranslationState {
	owner := s.book.Owner(key)
	if owner == nil {
		return nil
	}
	e := &owner.Entry
	r := model.NewTranslationState(e)
	r.Service = owner.Service
	r.Kind = owner.Kind.String()
	r.Waiting = append(r.Waiting, s.book.Waiting(key)...)
	id, held, pending, err := s.rec.Status(key)
	if s.rec.IsForeign(key) {
		r.State, r.Error = model.StateFailed, "VPP has a translation of another agent for this key; it is left alone (mode sidecar)"
		return r
	}
	if held {
		r.VPPID = &id
	}
	switch {
	case !pending && owner.Served() && held:
		r.State = model.StateProgrammed
	case !owner.Served() && err == nil:
		r.State, r.Unserved = model.StateUnserved, owner.Unserved.String()
	default:
		r.State = model.StateFailed
		r.Error = s.whyPending(err)
	}
	return r
}

// whyPending words why VPP does not hold what it should.
func (s *Server) whyPending(err error) string {
	switch {
	case err != nil:
		return err.Error()
	case !s.rec.Attached() && s.linkErr != nil:
		return "not written: " + s.linkErr.Error()
	case !s.rec.Attached():
		return "not written: not connected to VPP"
	}
	return "not written yet"
}
