// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"fmt"
	"net/netip"

	"calico-vpp-services/services/model"
	"calico-vpp-services/services/reconcile"
	"calico-vpp-services/vpplink/types"
)

// Mode says what in VPP is ours to change (design.md 5).
type Mode string

// The modes.
const (
	// Standalone: every translation in VPP is ours. What no object asks for is
	// removed once all objects have been listed.
	Standalone Mode = "standalone"
	// Sidecar: another agent, such as Calico's own, programs the same VPP. Only
	// what the Store lists is ours; other translations are left alone, unless a
	// Service claims the key of one: they count as hostPorts, which any
	// Service outranks.
	Sidecar Mode = "sidecar"
)

// ParseMode reads the name of a mode.
func ParseMode(s string) (Mode, error) {
	switch m := Mode(s); m {
	case Standalone, Sidecar:
		return m, nil
	}
	return "", fmt.Errorf("mode %q: accepted values are %s, %s", s, Standalone, Sidecar)
}

// Store is a memory that outlives the server; store.Store is one. The server's
// loop alone uses it while it runs.
type Store interface {
	reconcile.Store
	// Routes returns the routes of ours in the VPP that was begun with.
	Routes() ([]netip.Prefix, error)
	// PutRoutes records routes and forgets others.
	PutRoutes(add, forget []netip.Prefix) error
	// Setting returns what PutSetting recorded under a name for the VPP that
	// was begun with; "" for nothing.
	Setting(name string) (string, error)
	PutSetting(name, value string) error
	// Problems counts what could not be read, and says why of the last.
	Problems() (int, error)
}

// reconcileConfig ties the reconciler to the mode, the store and the book.
func (s *Server) reconcileConfig() reconcile.Config {
	cfg := s.cfg.Reconcile
	if s.cfg.Store != nil {
		cfg.Store = s.cfg.Store
	}
	cfg.Sidecar = s.cfg.Mode == Sidecar
	cfg.Outranks = func(key types.Key) bool {
		owner := s.book.Owner(key)
		return owner != nil && owner.Kind.Rank() < model.KindHostPort.Rank()
	}
	return cfg
}

// noteStore says once when what is ours cannot be remembered, and when it can
// again. VPP is programmed all the same: the memory matters after a restart only.
func (s *Server) noteStore(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == s.status.StoreError {
		return
	}
	if err != nil {
		s.log.WithError(err).Warn("what is ours in VPP can't be remembered; going on")
	} else {
		s.log.Info("what is ours in VPP is remembered again")
	}
	s.status.StoreError = text
}

// noteStoreProblems says what of the store could not be read, once.
func (s *Server) noteStoreProblems() {
	if s.cfg.Store == nil {
		return
	}
	n, why := s.cfg.Store.Problems()
	if n == s.status.StoreProblems {
		return
	}
	s.log.WithError(why).WithField("problems", n).Warn("the state file can't be read in full; what is not in it is found out anew from VPP")
	s.status.StoreProblems = n
}

// noteForeign counts what is left alone and says when that changes.
func (s *Server) noteForeign() {
	keys := s.rec.Foreign()
	if len(keys) == s.status.Foreign {
		return
	}
	s.status.Foreign = len(keys)
	l := s.log.WithField("translations", len(keys))
	if len(keys) > 0 {
		l = l.WithField("first", keys[0].String())
	}
	l.Info("translations of somebody else in VPP are left alone")
}
