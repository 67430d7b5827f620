// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
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

// settleAttempts is how often a failing key is tried before Settle reports it.
const settleAttempts = 5

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

	// Everything below belongs to the loop.

	st       *state
	book     *book.Book
	rec      *reconcile.Reconciler
	node     resolve.Node
	unsynced map[string]bool
	dirty    map[model.ServiceID]bool
	problems map[model.ServiceID][]model.Problem
	contests map[types.Key]contest
	rejects  rejects
	health   healthChecks
	// touched are the keys whose row in the view may be out of date.
	touched map[types.Key]bool
	session *vpplink.Session
	linkErr error
	status  Status
	// prepared is the state of VPP beside translations; prepareErr is why it
	// is not as configured.
	prepared   preparation
	prepareErr error
	waiters    []*waiter
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
		node:     resolve.Node{Name: cfg.NodeName, Addresses: slices.Clone(cfg.NodeIPs)},
		unsynced: map[string]bool{},
		dirty:    map[model.ServiceID]bool{},
		problems: map[model.ServiceID][]model.Problem{},
		contests: map[types.Key]contest{},
		health:   healthChecks{wanted: map[model.ServiceID]*resolve.HealthCheck{}, told: map[model.ServiceID]*resolve.HealthCheck{}},
		rejects:  rejects{claimed: map[netip.Addr]int{}, held: map[netip.Prefix]bool{}},
		touched:  map[types.Key]bool{},
	}
	for _, source := range cfg.Sources {
		s.unsynced[source] = true
	}
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
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Translations returns every claimed key as it stands, sorted by key.
func (s *Server) Translations() []*model.TranslationState { return s.view.translations() }

// Status returns how the server stands.
func (s *Server) Status() Status { return s.view.readStatus() }

// Resync dumps VPP now, and has what differs mended.
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
		s.rec.Retry() // what is answered is how things stand from now on
		s.roundBy(time.Now())
	case m.resync != nil:
		m.resync <- s.resync(ctx)
		s.roundBy(time.Now())
	default:
		s.roundBy(time.Now().Add(s.cfg.BatchWindow))
	}
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
				clear(s.rejects.held)
			}
			s.rejects.instance = ""
			s.status.VPPInstance = instance
			s.noteDrift(drift)
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
	}
	s.linkErr = err
	s.log.WithError(err).Warn("VPP could not be dumped; trying again")
	s.roundBy(time.Now().Add(attachRetry))
}

func (s *Server) resync(ctx context.Context) error {
	if !s.rec.Attached() {
		return fmt.Errorf("resync: VPP is not connected: %w", firstError(s.linkErr, vpplink.ErrSessionLost))
	}
	s.rejects.instance = "" // read the routes anew too
	drift, err := s.rec.Resync(ctx)
	s.lastResync = time.Now()
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

// waiter is somebody who wants to know when everything is written.
type waiter struct{ reply chan error }

// Settle returns when all events sent before it have been resolved and VPP holds
// what they ask for. It returns an error that names a key when some keys keep
// failing, and one that says what is missing when ctx ends first.
func (s *Server) Settle(ctx context.Context) error {
	w := &waiter{reply: make(chan error, 1)}
	if err := s.enqueue(ctx, message{settle: w}); err != nil {
		return err
	}
	select {
	case err := <-w.reply:
		return err
	case <-ctx.Done():
		st := s.Status()
		switch {
		case !st.Synced:
			return fmt.Errorf("still waiting for the first complete list of %s: %w", strings.Join(st.WaitingFor, ", "), ctx.Err())
		case !st.Connected:
			return fmt.Errorf("VPP is not connected (%s): %w", st.LinkError, ctx.Err())
		}
		return fmt.Errorf("%d keys are not written: %w", st.Pending, ctx.Err())
	}
}

// answerWaiters replies to those who wait, if it is time.
func (s *Server) answerWaiters() {
	if len(s.waiters) == 0 || len(s.unsynced) > 0 || !s.rec.Attached() || len(s.dirty) > 0 {
		return
	}
	pending, attempts := s.rec.Pending()
	if pending > 0 && attempts < settleAttempts {
		return
	}
	var err error
	if pending > 0 {
		key, cause := s.rec.FirstFailure()
		err = fmt.Errorf("%d keys could not be programmed, %s among them: %w", pending, key, cause)
	}
	for _, w := range s.waiters {
		w.reply <- err
	}
	s.waiters = nil
}
