// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"calico-vpp-services/services/model"
)

// apiServerID is the Service by which the cluster reaches its API server, this
// agent among others.
const apiServerID model.ServiceID = "default/kubernetes"

// apiServer keeps the way to the API server open. One that is stopped takes its
// address out of the Service's slices first. If it was the only one, an agent that
// follows cuts its own watch, and never hears that the API server is back.
type apiServer struct {
	// last are the slices that last had a ready endpoint.
	last []*discoveryv1.EndpointSlice
	// lostAt is since when there is none; zero while there is.
	lostAt time.Time
}

// keepAPIServer returns the slices to resolve id with: those of before while
// the API server is away for not longer than the configured time.
func (s *Server) keepAPIServer(id model.ServiceID, now []*discoveryv1.EndpointSlice) []*discoveryv1.EndpointSlice {
	if id != apiServerID || s.cfg.APIServerGrace == 0 {
		return now
	}
	a := &s.apiServer
	switch {
	case hasReady(now):
		if !a.lostAt.IsZero() {
			s.log.Info("the API server has endpoints again")
		}
		*a = apiServer{last: now}
		return now
	case a.last == nil:
		return now
	case a.lostAt.IsZero():
		a.lostAt = time.Now()
		s.log.WithField("for", s.cfg.APIServerGrace).Warn("the API server has no endpoint left; keeping the last ones")
	case time.Since(a.lostAt) >= s.cfg.APIServerGrace:
		s.log.Warn("the API server still has no endpoint; its last ones are given up")
		*a = apiServer{}
		return now
	}
	return a.last
}

// watchAPIServer has the Service resolved again when the time is over.
func (s *Server) watchAPIServer() {
	if s.apiServer.lostAt.IsZero() {
		return
	}
	over := s.apiServer.lostAt.Add(s.cfg.APIServerGrace)
	if !time.Now().Before(over) {
		s.markDirty(apiServerID)
		return
	}
	s.roundBy(over)
}

// hasReady tells whether a slice has an endpoint that takes new connections;
// unknown is yes (C1).
func hasReady(list []*discoveryv1.EndpointSlice) bool {
	for _, sl := range list {
		for i := range sl.Endpoints {
			if c := sl.Endpoints[i].Conditions.Ready; c == nil || *c {
				return true
			}
		}
	}
	return false
}
