// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// settleAttempts is how often a failing key is tried before Settle reports it.
const settleAttempts = 5

// waiter is somebody who wants to know when everything is written.
type waiter struct {
	reply chan<- error
	// resync: only VPP matters; that not all objects are listed does not.
	resync bool
}

// Settle returns when all events sent before it have been resolved and VPP holds
// what they ask for. It returns an error that names a key when some keys keep
// failing, and one that says what is missing when ctx ends first.
func (s *Server) Settle(ctx context.Context) error {
	reply := make(chan error, 1)
	if err := s.enqueue(ctx, message{settle: &waiter{reply: reply}}); err != nil {
		return err
	}
	select {
	case err := <-reply:
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
	if len(s.waiters) == 0 || !s.rec.Attached() || len(s.dirty) > 0 && len(s.unsynced) == 0 {
		return
	}
	pending, attempts := s.rec.Pending()
	var err error
	switch {
	case len(s.unsynced) > 0: // nothing is written yet, so nothing can be mended
	case pending > 0 && attempts < settleAttempts,
		s.prepareErr != nil && s.prepareFailures < settleAttempts:
		return
	case pending > 0:
		key, cause := s.rec.FirstFailure()
		err = fmt.Errorf("%d keys could not be programmed, %s among them: %w", pending, key, cause)
	}
	if s.prepareErr != nil {
		err = errors.Join(err, fmt.Errorf("VPP beside its translations is not as configured: %w", s.prepareErr))
	}
	rest := s.waiters[:0]
	for _, w := range s.waiters {
		if len(s.unsynced) > 0 && !w.resync {
			rest = append(rest, w)
			continue
		}
		w.reply <- err
	}
	clear(s.waiters[len(rest):])
	s.waiters = rest
}
