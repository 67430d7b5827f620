// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	tomb "gopkg.in/tomb.v2"

	"calico-vpp-services/services/book"
	"calico-vpp-services/services/model"
	"calico-vpp-services/services/reconcile"
	"calico-vpp-services/services/resolve"
	"calico-vpp-services/vpplink"
	"calico-vpp-services/vpplink/types"
)

// attachRetry is the pause before a session that could not be dumped is
// tried again.
const attachRetry = time.Second

// Link delivers sessions with VPP; vpplink.Link is one.
type Link interface {
	Events() <-chan vpplink.Event
}

// Server is the services server. Create it with NewServer and run it with
// ServeService; Send, Settle, Resync, Translations and Status may be called from
// any goroutine while it runs.
type Server struct {
	cfg  Config
	link Link
	log  *logrus.Entry
	in   chan message
	view *view
	// waitingSince is when the loop was last known to have nothing to do and
	// got something, in Unix nanoseconds; 0 while it has nothing. It tells a loop
	// that hangs, which can't tell itself (J11).
	waitingSince atomic.Int64

	// Everything below belongs to the loop.

	st   *state
	book *book.Book
	rec  *reconcile.Reconciler
	// node is what nodeObject, the configuration and vppOwn make of this node.
	node, nodeObject resolve.Node
	// vppOwn are the addresses that VPP has.
	vppOwn   []netip.Addr
	unsynced map[string]bool
	dirty    map[model.ServiceID]bool
	problems map[model.ServiceID][]model.Problem
	facts    facts
	contests map[types.Key]contest
	// untold are failing keys whose Services have not been told yet.
	untold  []types.Key
	rejects rejects
	health  healthChecks
	// apiServer is what is kept of default/kubernetes.
	apiServer apiServer
	// touched are the keys whose row in the view may be out of date.
	touched map[types.Key]bool
	session *vpplink.Session
	linkErr error
	status  Status
	// prepared: VPP is, beside translations, as configured, as far as was seen
	// when it was last dumped. prepareErr is why it is not. snat is what it was told
	// of source NAT.
	prepared   bool
	prepareErr error
	// prepareFailures counts how often that failed in a row.
	prepareFailures int
	snat            snatState
	triggers        triggers
	waiters         []*waiter
	// roundAt is when the next round is due; zero for none.
	roundAt    time.Time
	lastResync time.Time
}

// message is what comes in by the one queue: events, or a request that has its
// turn after the events before it.
type message struct {
	events []model.Event
	settle *waiter
	resync chan<- error

	problem *foundProblem
}

// NewServer returns a server for the VPP behind link.
func NewServer(cfg Config, link Link, log *logrus.Entry) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("services server: %w", err)
	}
	s := &Server{
		cfg:      cfg,
		link:     link,
		log:      log,
		in:       make(chan message, 256),
		view:     newView(),
		st:       newState(),
		book:     book.New(cfg.Ownership),
		unsynced: map[string]bool{},
		dirty:    map[model.ServiceID]bool{},
		problems: map[model.ServiceID][]model.Problem{},
		facts:    facts{},
		contests: map[types.Key]contest{},
		health:   healthChecks{wanted: map[model.ServiceID]*resolve.HealthCheck{}, told: map[model.ServiceID]*resolve.HealthCheck{}},
		rejects:  newRejects(),
		touched:  map[types.Key]bool{},
		triggers: newTriggers(time.Now()),
	}
	for _, source := range cfg.Sources {
		s.unsynced[source] = true
	}
	s.nodeChanged()
	s.rec = reconcile.New(s.reconcileConfig(), s.book.Wanted)
	s.publish()
	return s, nil
}

// Send implements model.Sink.
func (s *Server) Send(ctx context.Context, events ...model.Event) error {
	return s.enqueue(ctx, message{events: events})
}

func (s *Server) enqueue(ctx context.Context, m message) error {
	select {
	case s.in <- m:
		s.waitingSince.CompareAndSwap(0, time.Now().UnixNano())
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Translations returns every claimed key as it stands, sorted by key.
func (s *Server) Translations() []*model.TranslationState { return s.view.translations() }

// Status returns how the server stands.
func (s *Server) Status() Status { return s.view.readStatus() }

// Resync dumps VPP now, mends what differs, and returns when that is done. While
// not all objects have been listed, nothing is mended yet.
func (s *Server) Resync(ctx context.Context) error {
	reply := make(chan error, 1)
	if err := s.enqueue(ctx, message{resync: reply}); err != nil {
		return err
	}
	select {
	case err := <-reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ServeService runs the server until t is dying. VPP is left as it is then; a
// round under way is finished, for a plan that is cut in the middle can leave a
// key without translation. The deadlines of the calls bound it. With
// Config.CleanupOnExit, what is ours in VPP is removed first.
func (s *Server) ServeService(t *tomb.Tomb) error {
	ctx := context.Background()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(s.untilNext(time.Now()))
		select {
		case <-t.Dying():
			if s.cfg.CleanupOnExit {
				return s.cleanup(ctx)
			}
			return nil
		case m := <-s.in:
			s.accept(ctx, m)
		case e := <-s.link.Events():
			s.linkEvent(ctx, e)
		case <-timer.C:
		}
		s.drain(ctx)
		if s.roundDue(time.Now()) {
			s.round(ctx)
		}
	}
}

// drain takes what is in the queue by now, so that a burst costs one round.
func (s *Server) drain(ctx context.Context) {
	for range cap(s.in) {
		select {
		case m := <-s.in:
			s.accept(ctx, m)
		default:
			return
		}
	}
}

func (s *Server) accept(ctx context.Context, m message) {
	for i := range m.events {
		s.apply(&m.events[i])
	}
	switch {
	case m.problem != nil:
		s.report(m.problem.id, logrus.WarnLevel, m.problem.problem)
	case m.settle != nil:
		s.waiters = append(s.waiters, m.settle)
		s.retry() // what is answered is how things stand from now on
		s.roundBy(time.Now())
	case m.resync != nil:
		// Answered when what was found is mended, or when that failed.
		if err := s.resync(ctx); err != nil {
			m.resync <- err
			break
		}
		s.waiters = append(s.waiters, &waiter{reply: m.resync, resync: true})
		s.retry()
		s.roundBy(time.Now())
	default:
		s.roundBy(time.Now().Add(s.cfg.BatchWindow))
	}
}

// retry has everything that failed tried again as if for the first time.
func (s *Server) retry() {
	s.rec.Retry()
	s.prepareFailures = 0
}

// roundBy makes a round due at t at the latest.
func (s *Server) roundBy(t time.Time) {
	if s.roundAt.IsZero() || t.Before(s.roundAt) {
		s.roundAt = t
	}
}

// nextDue returns when the loop has something to do without being told.
func (s *Server) nextDue() (time.Time, bool) {
	due, ok := s.roundAt, !s.roundAt.IsZero()
	earlier := func(t time.Time) {
		if !ok || t.Before(due) {
			due, ok = t, true
		}
	}
	if s.session != nil && s.session.Err() == nil && len(s.unsynced) == 0 {
		if t, pending := s.rec.Next(); pending && s.rec.Attached() {
			earlier(t)
		}
		if s.cfg.ResyncPeriod > 0 && s.rec.Attached() {
			earlier(s.lastResync.Add(s.cfg.ResyncPeriod))
		}
	}
	return due, ok
}

func (s *Server) untilNext(now time.Time) time.Duration {
	due, ok := s.nextDue()
	if !ok {
		return time.Hour
	}
	return max(0, due.Sub(now))
}

func (s *Server) roundDue(now time.Time) bool {
	due, ok := s.nextDue()
	return ok && !due.After(now)
}

// linkEvent takes up a new session, or gives up a lost one.
func (s *Server) linkEvent(ctx context.Context, e vpplink.Event) {
	s.linkErr = e.Err
	s.session = e.Session
	s.rec.Detach()
	if s.session != nil {
		s.attach(ctx)
	}
	s.roundBy(time.Now())
}

// attach finds out which VPP the session is with and what it holds.
func (s *Server) attach(ctx context.Context) {
	instance, fresh, err := s.session.Instance(ctx)
	if err == nil {
		var drift int
		if drift, err = s.rec.Attach(ctx, s.session, instance); err == nil {
			if instance != s.status.VPPInstance {
				s.status.VPPInstance = instance
				s.forgetVPP()
			}
			err = s.readRoutes(ctx)
			s.noteDrift(drift)
		}
	}
	if err == nil {
		s.prepared = false
		s.lastResync = time.Now()
		for _, key := range s.book.Keys() {
			s.rec.Mark(key)
			s.touched[key] = true
		}
		s.log.WithFields(logrus.Fields{
			"instance": instance, "new": fresh, "translations": len(s.rec.Held()),
		}).Info("VPP dumped")
		return
	}
	s.rec.Detach()
	s.linkErr = err
	s.log.WithError(err).Warn("VPP could not be dumped; trying again")
	s.roundBy(time.Now().Add(attachRetry))
}

// forgetVPP drops what was known of a VPP that is not the one attached to,
// and takes up what the store knows of that one.
func (s *Server) forgetVPP() {
	clear(s.rejects.held)
	s.snat = snatState{}
	if s.cfg.Store != nil {
		s.recallSettings()
	}
}

func (s *Server) resync(ctx context.Context) error {
	if !s.rec.Attached() {
		return fmt.Errorf("resync: VPP is not connected: %w", firstError(s.linkErr, vpplink.ErrSessionLost))
	}
	drift, err := s.rec.Resync(ctx)
	s.lastResync = time.Now()
	if err == nil {
		s.prepared = false
		err = s.readRoutes(ctx)
	}
	if err != nil {
		s.log.WithError(err).Warn("resync failed")
		return err
	}
	s.noteDrift(drift)
	return nil
}

func (s *Server) noteDrift(drift int) {
	if drift == 0 {
		return
	}
	s.status.Drift += drift
	s.log.WithField("keys", drift).Warn("VPP did not hold what we left in it; mending")
	for _, key := range s.book.Keys() {
		s.touched[key] = true
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
