// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"calico-vpp-services/services/health"
	"calico-vpp-services/services/model"
	"calico-vpp-services/services/resolve"
)

// healthTick is how often the server looks at its own health while something
// waits to be written: a proxy that hangs must say so (J11).
const healthTick = 5 * time.Second

// HealthPorts is who answers on health check node ports; health.NodePorts is
// one. Set must not block.
type HealthPorts interface {
	Set(list []health.Service, proxyHealthy bool)
}

// healthChecks are what Services want answered, and what is answered.
type healthChecks struct {
	wanted, told map[model.ServiceID]*resolve.HealthCheck
	healthy      bool
}

// setHealth notes what a Service wants answered; nil for nothing.
func (s *Server) setHealth(id model.ServiceID, check *resolve.HealthCheck) {
	if check == nil {
		delete(s.health.wanted, id)
	} else {
		s.health.wanted[id] = check
	}
}

// tellHealth passes on what changed. A count follows the dataplane: it is not
// told before VPP holds all that the Service wants (J6).
func (s *Server) tellHealth(healthy bool) {
	h := &s.health
	if s.cfg.HealthPorts == nil {
		return
	}
	changed := healthy != h.healthy
	h.healthy = healthy
	for id := range h.told {
		if h.wanted[id] == nil {
			delete(h.told, id)
			changed = true
		}
	}
	for id, check := range h.wanted {
		if !reflect.DeepEqual(h.told[id], check) && !s.isPending(id) {
			h.told[id] = check
			changed = true
		}
	}
	if !changed {
		return
	}
	list := make([]health.Service, 0, len(h.told))
	for _, id := range slices.Sorted(maps.Keys(h.told)) {
		list = append(list, health.Service{ID: id, Check: *h.told[id]})
	}
	s.cfg.HealthPorts.Set(list, healthy)
}

// isPending tells whether VPP lacks something of a Service.
func (s *Server) isPending(id model.ServiceID) bool {
	if !s.rec.Attached() {
		return true
	}
	for _, c := range s.book.Claims(id) {
		if _, _, pending, _ := s.rec.Status(c.Key()); pending {
			return true
		}
	}
	return false
}

// notePending keeps the time since when something has been waiting, a VPP
// that is away included; while starting nothing is.
func (s *Server) notePending(now time.Time) {
	pending, _ := s.rec.Pending()
	st := &s.status
	switch {
	case len(s.unsynced) > 0:
		st.OldestPending = nil
	case len(s.dirty) > 0 || pending > 0 || !s.rec.Attached():
		if st.OldestPending == nil {
			st.OldestPending = &now
		}
		s.roundBy(now.Add(healthTick))
	default:
		st.OldestPending = nil
		st.LastUpdated = now
	}
	st.NodeEligible = health.NodeEligible(s.st.node)
}

// HealthState says how the proxy is, for health.Proxy.
func (s *Server) HealthState() health.State {
	st := s.Status()
	h := health.State{LastUpdated: st.LastUpdated, NodeEligible: st.NodeEligible}
	if st.OldestPending != nil {
		h.OldestPending = *st.OldestPending
	}
	if ns := s.waitingSince.Load(); ns != 0 {
		if t := time.Unix(0, ns); h.OldestPending.IsZero() || t.Before(h.OldestPending) {
			h.OldestPending = t
		}
	}
	return h
}

// taken notes that the loop is done with what it had got.
func (s *Server) taken() {
	s.waitingSince.Store(0)
	if len(s.in) > 0 {
		s.waitingSince.CompareAndSwap(0, time.Now().UnixNano())
	}
}

// ReportProblem has a Problem of a Service that somebody else found logged and
// told to its author. It never blocks: while the loop is too busy, it is only logged.
func (s *Server) ReportProblem(id model.ServiceID, p model.Problem) {
	select {
	case s.in <- message{problem: &foundProblem{id, p}}:
	default:
		s.log.WithFields(logrus.Fields{"service": id, "reason": p.Reason, "field": p.Field}).Warn(p.Message)
	}
}

// foundProblem is a Problem from outside the loop.
type foundProblem struct {
	id      model.ServiceID
	problem model.Problem
}
