// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"errors"
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
	err := s.writeAll(ctx)
	s.rejects.want = map[netip.Prefix]bool{}
	if s.rec.Attached() {
		if s.rejects.instance != s.status.VPPInstance {
			err = errors.Join(err, s.readRejects(ctx))
		}
		err = errors.Join(err, s.delRejects(ctx))
	}
	if err == nil {
		err = s.session.RemoveInstance(ctx)
	}
	s.publish()
	if err != nil {
		return fmt.Errorf("cleanup: %w", err)
	}
	s.log.WithField("translations", len(held)-s.status.Foreign).Info("what was ours is removed from VPP")
	return nil
}

// writeAll makes rounds until nothing is left to do, or ctx ends.
func (s *Server) writeAll(ctx context.Context) error {
	for s.rec.Attached() {
		if res := s.rec.Round(ctx); res.Err != nil {
			return res.Err
		}
		due, pending := s.rec.Next()
		if !pending {
			return nil
		}
		wait := time.NewTimer(time.Until(due))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			key, cause := s.rec.FirstFailure()
			return fmt.Errorf("%s could not be removed: %w", key, firstError(cause, ctx.Err()))
		}
	}
	return s.session.Err()
}
