// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"calico-vpp-services/vpplink"
)

// cleanupTimeout bounds the removal of what is ours at the end.
const cleanupTimeout = 8 * time.Second

// cleanup takes what is ours out of VPP: translations (in mode standalone all
// that there are), routes that refuse, and the marker of the instance. What
// cnat is on for, and source NAT, belong to the node and stay.
//
// The objects need not have been listed: nothing is wanted any more.
func (s *Server) cleanup(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	if !s.rec.Attached() {
		return fmt.Errorf("cleanup: VPP is not connected, so what is ours stays in it: %w", firstError(s.linkErr, vpplink.ErrSessionLost))
	}
	for _, id := range s.book.Services() {
		s.book.Set(id, nil)
	}
	held := s.rec.Held()
	for _, key := range held {
		s.rec.Mark(key)
		s.touched[key] = true
	}
	s.rejects.want = map[netip.Prefix]bool{}
	err := s.untilDone(ctx, func() error {
		if res := s.rec.Round(ctx); res.Err != nil {
			return res.Err
		}
		if err := s.delRejects(ctx); err != nil {
			return err
		}
		if n, _ := s.rec.Pending(); n > 0 {
			key, cause := s.rec.FirstFailure()
			return fmt.Errorf("%d keys, %s among them: %w", n, key, cause)
		}
		return s.session.RemoveInstance(ctx)
	})
	s.publish()
	if err != nil {
		return fmt.Errorf("cleanup: %w", err)
	}
	s.log.WithField("translations", len(held)-s.status.Foreign).Info("what was ours is removed from VPP")
	return nil
}

// untilDone repeats f, with pauses, until it succeeds, the session is lost or
// ctx ends.
func (s *Server) untilDone(ctx context.Context, f func() error) error {
	for n := 0; ; n++ {
		err := f()
		if err == nil || !s.rec.Attached() {
			return err
		}
		wait := time.NewTimer(s.rec.Backoff(n))
		select {
		case <-wait.C:
			s.rec.Retry()
		case <-ctx.Done():
			wait.Stop()
			return err
		}
	}
}
