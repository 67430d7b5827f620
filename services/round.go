// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"calico-vpp-services/services/health"
	"calico-vpp-services/services/model"
	"calico-vpp-services/services/resolve"
	"calico-vpp-services/vpplink/types"
)

// apply takes one event into the state and marks who is concerned.
func (s *Server) apply(e *model.Event) {
	deleted := e.Op == model.Delete
	if e.Op == model.Synced {
		if s.unsynced[e.Source] {
			delete(s.unsynced, e.Source)
			s.log.WithField("source", e.Source).Info("first complete list received")
		}
		return
	}
	if e.Facts != nil {
		s.setFacts(e.Source, e.Facts)
		return
	}
	switch o := e.Object.(type) {
	case *corev1.Service:
		s.markDirty(s.st.setService(o, deleted))
	case *discoveryv1.EndpointSlice:
		s.noteTrigger(o, deleted)
		s.markDirty(s.st.setSlice(o, deleted)...)
	case *networkingv1.ServiceCIDR:
		s.setServiceCIDR(o, deleted)
	case *corev1.Node:
		if o.Name == s.cfg.NodeName {
			s.setNode(o, deleted)
		}
	}
}

// markDirty has Services resolved again in the next round.
func (s *Server) markDirty(ids ...model.ServiceID) {
	for _, id := range ids {
		s.dirty[id] = true
	}
}

// round resolves what is dirty, writes what differs, and publishes the outcome.
func (s *Server) round(ctx context.Context) {
	s.roundAt = time.Time{}
	s.waitingSince.CompareAndSwap(0, time.Now().UnixNano())
	if s.session != nil && s.session.Err() == nil && !s.rec.Attached() {
		s.attach(ctx)
	}
	if len(s.unsynced) == 0 {
		s.watchAPIServer()
		s.resolveDirty()
		if s.rec.Attached() {
			err := errors.Join(s.prepare(ctx), s.addRejects(ctx))
			s.write(ctx)
			if s.rec.Attached() {
				err = errors.Join(err, s.delRejects(ctx))
			}
			s.notePreparation(err)
			s.observeLatency(time.Now())
		}
	}
	s.publish()
	s.answerWaiters()
}

// resolveDirty brings the book up to date with the state.
func (s *Server) resolveDirty() {
	before := map[types.Key]model.ServiceID{}
	options := s.cfg.Resolve
	options.ServiceCIDRs = s.serviceCIDRs()
	if options.IsPodAddress == nil {
		options.IsPodAddress = func(a netip.Addr) bool { return s.st.endpoints[a] > 0 && !s.node.Has(a) }
	}
	for _, id := range slices.Sorted(maps.Keys(s.dirty)) {
		var claims []model.Claim
		var problems []model.Problem
		if svc := s.st.services[id]; svc != nil {
			res := resolve.Service(resolve.Input{
				Service: svc, Slices: s.keepAPIServer(id, s.st.slicesFor(id)), Node: s.node, Options: options,
			})
			claims, problems = res.Claims, res.Problems
			s.setHealth(id, res.Health)
		} else {
			s.setHealth(id, nil)
		}
		s.setClaims(id, claims, before)
		s.noteProblems(id, problems)
	}
	clear(s.dirty)
	s.watchAPIServer()
	s.logTakeovers(before)
	s.noteContests(slices.SortedFunc(maps.Keys(s.touched), types.Key.Compare))
}

// logTakeovers names the keys that have gone from one Service to another.
func (s *Server) logTakeovers(before map[types.Key]model.ServiceID) {
	for _, key := range slices.SortedFunc(maps.Keys(before), types.Key.Compare) {
		owner := s.book.Owner(key)
		if owner != nil && before[key] != "" && before[key] != owner.Service {
			s.log.WithFields(logrus.Fields{"key": key.String(), "owner": owner.Service, "before": before[key]}).
				Info("key changes its owner")
		}
	}
}

// setClaims puts the claims of id into the book and marks what that moves. It
// notes in before who owned the keys that changed, unless that is noted already.
func (s *Server) setClaims(id model.ServiceID, claims []model.Claim, before map[types.Key]model.ServiceID) {
	for _, c := range s.book.Claims(id) {
		s.touched[c.Key()] = true
	}
	for i := range claims {
		s.touched[claims[i].Key()] = true
	}
	s.status.NoLocal.count(-1, noLocalOf(s.book.Claims(id)))
	changes := s.book.Set(id, claims)
	s.status.NoLocal.count(1, noLocalOf(s.book.Claims(id)))
	s.countClaimed(changes)
	for _, change := range changes {
		s.rec.Mark(change.Key)
		if _, noted := before[change.Key]; !noted {
			before[change.Key] = change.Before
		}
	}
}

// notePreparation says once what VPP lacks beside translations; it is tried
// again with every round, and after a while without one.
func (s *Server) notePreparation(err error) {
	switch {
	case err == nil && s.prepareErr != nil:
		s.log.Info("VPP beside its translations is as configured")
	case err != nil && (s.prepareErr == nil || s.prepareErr.Error() != err.Error()):
		s.log.WithError(err).Warn("VPP beside its translations is not as configured; trying on")
	}
	s.prepareErr = err
	if err == nil {
		s.prepareFailures = 0
		return
	}
	s.roundBy(time.Now().Add(s.rec.Backoff(s.prepareFailures)))
	s.prepareFailures++
}

// write carries out one plan, after a periodic resync if that is due.
func (s *Server) write(ctx context.Context) {
	now := time.Now()
	if s.cfg.ResyncPeriod > 0 && now.Sub(s.lastResync) >= s.cfg.ResyncPeriod {
		if err := s.resync(ctx); err != nil {
			return // logged; a lost session comes back as an event
		}
	}
	res := s.rec.Round(ctx)
	for i := range res.Plan {
		s.touched[res.Plan[i].Key] = true
	}
	if len(res.Plan) > 0 {
		s.status.Rounds++
		s.log.WithFields(logrus.Fields{
			"steps": len(res.Plan), "confirmed": res.Confirmed, "first": res.Plan[0].String(),
		}).Debug("plan carried out")
	}
	if res.Err != nil {
		s.linkErr = res.Err // the link says so too
		return
	}
	s.status.TakenOver += len(res.TakenOver)
	s.logOutcome("a Service takes the key of another agent's translation", logrus.WarnLevel, res.TakenOver)
	s.noteFailures(res.Failed)
	s.logOutcome("VPP refuses a translation; trying on", logrus.WarnLevel, res.Failed)
	s.logOutcome("VPP takes a translation that had failed", logrus.InfoLevel, res.Recovered)
}

// logOutcome says once per change of state, on one line however many keys are
// concerned (scenario 80).
func (s *Server) logOutcome(text string, level logrus.Level, keys []types.Key) {
	if len(keys) == 0 {
		return
	}
	l := s.log.WithFields(logrus.Fields{"keys": len(keys), "key": keys[0].String()})
	if owner := s.book.Owner(keys[0]); owner != nil {
		l = l.WithField("service", owner.Service)
	}
	if _, _, _, err := s.rec.Status(keys[0]); err != nil {
		l = l.WithError(err)
	}
	l.Log(level, text)
}

// publish brings the view up to date.
func (s *Server) publish() {
	rows := make(map[types.Key]*model.TranslationState, len(s.touched))
	for key := range s.touched {
		rows[key] = s.row(key)
	}
	clear(s.touched)
	now := time.Now()
	s.notePending(now)
	st := &s.status
	state := health.State{}
	if st.OldestPending != nil {
		state.OldestPending = *st.OldestPending
	}
	s.tellHealth(state.Healthy(now, health.DefaultTimeout))
	s.noteStore(errors.Join(s.rec.StoreErr(), s.rejects.storeErr))
	s.noteStoreProblems()
	if s.rec.Attached() {
		s.noteForeign()
	}
	st.Mode = s.cfg.Mode
	st.Synced = len(s.unsynced) == 0
	st.WaitingFor = slices.Sorted(maps.Keys(s.unsynced))
	st.Connected = s.rec.Attached()
	st.LinkError = ""
	if !st.Connected && s.linkErr != nil {
		st.LinkError = s.linkErr.Error()
	}
	st.DataplaneError = ""
	if s.prepareErr != nil {
		st.DataplaneError = s.prepareErr.Error()
	}
	st.Keys = s.book.Len()
	st.Pending, _ = s.rec.Pending()
	s.view.publish(rows, *st)
	s.taken()
}
