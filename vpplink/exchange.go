// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vpplink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.fd.io/govpp/adapter"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/memclnt"
	"go.fd.io/govpp/core"
)

// dumpReplySize is the room for replies that are not read yet. govpp drops a
// reply when its channel stays full for 100 ms, and a dump with a hole in it
// looks like a complete one; so the room is larger than a reader's longest
// pause lets VPP fill.
const dumpReplySize = 1 << 16

// call sends one request and returns its one reply. The reply's retval is the
// caller's to read.
func call[R api.Message](ctx context.Context, s *Session, req api.Message) (R, error) {
	var reply R
	err := s.exchange(ctx, requests{n: 1, at: func(int) api.Message { return req }},
		func(got api.Message) (bool, error) {
			var ok bool
			if reply, ok = got.(R); !ok {
				return true, unexpected(got)
			}
			return true, nil
		})
	if err != nil {
		s.countFailed()
		return reply, fmt.Errorf("%s: %w", req.GetMessageName(), err)
	}
	return reply, nil
}

// dump sends one dump request and calls each for every details message.
func dump[D api.Message](ctx context.Context, s *Session, req api.Message, each func(D)) error {
	reqs := []api.Message{req, &memclnt.ControlPing{}}
	err := s.exchange(ctx, requests{n: 2, at: func(i int) api.Message { return reqs[i] }, replySize: dumpReplySize},
		func(got api.Message) (bool, error) {
			switch m := got.(type) {
			case D:
				each(m)
				return false, nil
			case *memclnt.ControlPingReply:
				return true, nil
			default:
				return true, unexpected(got)
			}
		})
	if err != nil {
		s.countFailed()
		return fmt.Errorf("%s: %w", req.GetMessageName(), err)
	}
	return nil
}

func unexpected(m api.Message) error {
	return fmt.Errorf("unexpected reply %s", m.GetMessageName())
}

// requests is what an exchange sends.
type requests struct {
	n  int
	at func(i int) api.Message
	// replySize is the room for unread replies; 0 is enough for one reply a
	// request.
	replySize int
}

// exchange sends the requests over one stream, at most MaxInFlight ahead of
// their replies, and passes each reply to onReply until that says it was the
// last. VPP handles the messages of a client one after the other, so replies come
// in the order of the requests.
//
// Each reply must come within CallTimeout of the one before. If one does not,
// or ctx ends while replies are due, the session ends: what comes later could
// not be told from the answer to a later request.
func (s *Session) exchange(ctx context.Context, reqs requests, onReply func(api.Message) (last bool, err error)) error {
	s.busy.RLock()
	defer s.busy.RUnlock()
	if err := s.Err(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err // nothing was sent: the session is as good as before
	}
	if _, err := s.conn.GetMessageID(reqs.at(0)); err != nil {
		var unknown *adapter.UnknownMsgError
		if errors.As(err, &unknown) {
			return fmt.Errorf("VPP %s has no such message (%s): %w", s.version, unknown.MsgCrc, ErrIncompatible)
		}
		return s.lost(err)
	}
	window := max(s.cfg.MaxInFlight, 2)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(s.Err()) })()
	timeout := fmt.Errorf("no reply within %s: %w", s.cfg.CallTimeout, context.DeadlineExceeded)
	progress := time.AfterFunc(s.cfg.CallTimeout, func() { cancel(timeout) })
	defer progress.Stop()

	stream, err := s.conn.NewStream(ctx, core.WithReplySize(max(reqs.replySize, window)))
	if err != nil {
		return s.lost(err)
	}
	send := &sender{session: s, stream: stream, tokens: make(chan struct{}, window), first: make(chan struct{}), done: make(chan struct{})}
	go send.run(ctx, reqs, cancel)
	// A sender can be stuck in a write to a VPP that is stopped. The stream is
	// then given back when the write ends, as VPP goes on or goes away.
	defer func() {
		cancel(nil)
		select {
		case <-send.done:
			closeStream(stream, s)
		default:
			go func() {
				<-send.done
				closeStream(stream, s)
			}()
		}
	}()

	// govpp resolves a reply's type by the package of what was sent last, which it
	// notes only after the first message is out.
	select {
	case <-send.first:
	case <-ctx.Done():
		return s.lost(context.Cause(ctx))
	}
	for {
		msg, err := stream.RecvMsg()
		if err != nil {
			if cause := context.Cause(ctx); cause != nil {
				err = cause
			}
			return s.lost(err)
		}
		progress.Reset(s.cfg.CallTimeout)
		select {
		case <-send.tokens:
		default: // one more of a dump's many replies
		}
		last, err := onReply(msg)
		if err != nil {
			return s.lost(err)
		}
		if last {
			return nil
		}
	}
}

// lost ends the session for cause and returns the error for the call.
func (s *Session) lost(cause error) error {
	if IsSessionLost(cause) {
		return cause
	}
	s.fail(cause)
	return fmt.Errorf("%w: %w", ErrSessionLost, cause)
}

// sender writes the requests of an exchange from a goroutine of its own: a
// write blocks when VPP is stopped and its socket is full.
type sender struct {
	session *Session
	stream  api.Stream
	tokens  chan struct{} // one for each message whose reply is due
	first   chan struct{} // closed when the first message is out
	done    chan struct{}
}

func (w *sender) run(ctx context.Context, reqs requests, fail context.CancelCauseFunc) {
	defer close(w.done)
	for i := range reqs.n {
		select {
		case w.tokens <- struct{}{}:
		case <-ctx.Done():
			return
		}
		m := reqs.at(i)
		w.session.count(m)
		if err := w.stream.SendMsg(m); err != nil {
			fail(fmt.Errorf("send: %w", err))
			return
		}
		if i == 0 {
			close(w.first)
		}
	}
}

func closeStream(stream api.Stream, s *Session) {
	if err := stream.Close(); err != nil {
		s.log.WithError(err).Debug("closing a stream to VPP")
	}
}
