// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"fmt"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"

	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink/types"
)

// maxReports bounds the failing keys that are told in one round. The others have
// their turn in later rounds, if they still fail then.
const maxReports = 20

// Reporter tells the author of a Service about a Problem, once for each time
// that it arises. It must not block: it is called by the loop.
type Reporter interface {
	Report(svc *corev1.Service, p model.Problem)
}

// report logs a problem of a Service and tells its author.
func (s *Server) report(id model.ServiceID, level logrus.Level, p model.Problem) {
	s.log.WithFields(logrus.Fields{"service": id, "reason": p.Reason, "field": p.Field}).Log(level, p.Message)
	if svc := s.st.services[id]; svc != nil && s.cfg.Reporter != nil {
		s.cfg.Reporter.Report(svc, p)
	}
}

// noteProblems reports the problems of id that are new.
func (s *Server) noteProblems(id model.ServiceID, problems []model.Problem) {
	for _, p := range problems {
		if !slices.Contains(s.problems[id], p) {
			s.report(id, logrus.WarnLevel, p)
		}
	}
	if len(problems) == 0 {
		delete(s.problems, id)
	} else {
		s.problems[id] = problems
	}
}

// contest is how a key was contested when that was last reported.
type contest struct {
	owner   model.ServiceID
	waiting []model.ServiceID
}

// noteContests reports the Services that want a key of which another is the
// owner, whenever that arises or the owner changes.
func (s *Server) noteContests(keys []types.Key) {
	for _, key := range keys {
		owner, waiting := s.book.Owner(key), s.book.Waiting(key)
		if len(waiting) == 0 {
			delete(s.contests, key)
			continue
		}
		was := s.contests[key]
		for _, id := range waiting {
			if was.owner == owner.Service && slices.Contains(was.waiting, id) {
				continue
			}
			s.report(id, logrus.InfoLevel, model.Problem{
				Reason: model.ReasonKeyLost, Field: key.String(),
				Message: fmt.Sprintf("%s is served for %s, which claims it as %s; this Service takes over when that one lets go of it", key, owner.Service, owner.Kind),
			})
		}
		s.contests[key] = contest{owner.Service, waiting}
	}
}

// noteFailures reports keys that VPP began to refuse.
func (s *Server) noteFailures(keys []types.Key) {
	if s.cfg.Reporter == nil {
		return
	}
	s.untold = enqueue(s.untold, keys)
	for n := 0; n < maxReports && len(s.untold) > 0; {
		key := s.untold[0]
		s.untold = s.untold[1:]
		owner := s.book.Owner(key)
		if owner == nil {
			continue
		}
		svc := s.st.services[owner.Service]
		_, _, _, err := s.rec.Status(key)
		if svc == nil || err == nil {
			continue // over before it was told
		}
		n++
		s.cfg.Reporter.Report(svc, model.Problem{
			Reason: model.ReasonProgrammingFailed, Field: key.String(),
			Message: fmt.Sprintf("%s; it is tried again until VPP takes it", err),
		})
	}
	if len(s.untold) > 0 {
		s.roundBy(time.Now().Add(attachRetry))
	}
}

// enqueue appends the keys that do not wait yet: one that fails on and off is told
// once, and takes the place of no other.
func enqueue(waiting, keys []types.Key) []types.Key {
	if len(waiting) == 0 || len(keys) == 0 {
		return append(waiting, keys...)
	}
	waits := make(map[types.Key]bool, len(waiting))
	for _, key := range waiting {
		waits[key] = true
	}
	for _, key := range keys {
		if !waits[key] {
			waiting = append(waiting, key)
		}
	}
	return waiting
}
