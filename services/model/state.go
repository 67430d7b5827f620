// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package model

import "calico-vpp-services/vpplink/types"

// State is where a key stands between the objects and VPP.
type State string

// The states.
const (
	// StateProgrammed: VPP confirmed the owner's entry.
	StateProgrammed State = "programmed"
	// StateUnserved: the owner has no usable backends, VPP holds nothing.
	StateUnserved State = "unserved"
	// StateFailed: VPP does not (yet) hold what the owner wants; Error says
	// why. It is retried.
	StateFailed State = "failed"
)

// BackendState is one backend of a TranslationState.
type BackendState struct {
	IP    string `json:"ip"`
	Port  uint16 `json:"port"`
	NoNAT bool   `json:"noNAT"`
}

// TranslationState is one key as users see it, in tables, JSON and YAML.
type TranslationState struct {
	Proto   string    `json:"proto"`
	IP      string    `json:"ip"`
	Port    uint16    `json:"port"`
	Service ServiceID `json:"service"`
	Kind    string    `json:"kind"`
	State   State     `json:"state"`
	// Unserved is why there is nothing to send to, while the state is unserved:
	// reject, because nothing usable exists anywhere, or drop, because a Local
	// policy leaves out what exists on other nodes. VPP refuses both alike
	// (service-semantics.md E2).
	Unserved string `json:"unserved,omitempty"`
	// VPPID is VPP's id of the translation; null while VPP has none.
	VPPID *uint32 `json:"vppID"`
	// LBType is default or maglev.
	LBType string `json:"lbType"`
	// Hash lists the fields of the flow hash; empty for VPP's default.
	Hash     []string       `json:"hash"`
	Real     bool           `json:"real"`
	Backends []BackendState `json:"backends"`
	// Waiting lists the service ids that also claim the key, next owner first.
	Waiting []ServiceID `json:"waiting"`
	// Error is why the state is failed.
	Error string `json:"error"`
}

// NewTranslationState returns the row of an entry, as far as the entry tells.
func NewTranslationState(e *types.CnatTranslateEntry) *TranslationState {
	r := &TranslationState{
		Proto:    e.Proto.String(),
		IP:       e.IP.String(),
		Port:     e.Port,
		LBType:   e.LBType.String(),
		Hash:     e.Hash.Names(),
		Real:     e.IsRealIP,
		Backends: make([]BackendState, 0, len(e.Backends)),
		Waiting:  []ServiceID{},
	}
	for _, b := range e.Backends {
		r.Backends = append(r.Backends, BackendState{IP: b.IP.String(), Port: b.Port, NoNAT: b.NoNAT})
	}
	return r
}
