// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vpplink

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"
	tomb "gopkg.in/tomb.v2"
)

// Event tells that the link went up or down.
type Event struct {
	// Session is the new connection; nil when the link went down.
	Session *Session
	// Err says why the link is down.
	Err error
}

// Link keeps a Session to VPP, as long as it is served.
type Link struct {
	cfg    Config
	first  *Session
	events chan Event
}

// NewLink returns a link for cfg. first, when not nil, is used as its first
// session; the link owns it from then on.
func NewLink(cfg Config, first *Session) *Link {
	return &Link{cfg: cfg, first: first, events: make(chan Event)}
}

// Events delivers ups and downs in turn, an up first or a down that says why
// there is none yet. The link goes on only when an event is taken.
func (l *Link) Events() <-chan Event { return l.events }

// Serve connects and reconnects, without limit, until t is dying; it then
// takes leave of VPP. It returns nil: an unreachable VPP is a state, not an error.
func (l *Link) Serve(t *tomb.Tomb) error {
	ctx := t.Context(context.Background())
	session := l.first
	backoff := l.cfg.MinBackoff
	said := ""
	for {
		if session == nil {
			var err error
			if session, err = Connect(ctx, l.cfg); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				if err.Error() != said {
					said = err.Error()
					l.cfg.Log.WithError(err).Warn("VPP cannot be reached; trying on")
					if !l.send(t, Event{Err: err}) {
						return nil
					}
				}
				if !sleep(ctx, backoff) {
					return nil
				}
				backoff = min(2*backoff, l.cfg.MaxBackoff)
				continue
			}
		}
		said, backoff = "", l.cfg.MinBackoff
		l.cfg.Log.WithFields(logrus.Fields{"socket": l.cfg.Socket, "version": session.Version()}).Info("connected to VPP")
		up := l.send(t, Event{Session: session})
		if up {
			select {
			case <-session.Done():
			case <-t.Dying():
				up = false
			}
		}
		err := session.Err()
		session.finish(l.cfg.FinishTimeout)
		if !up {
			return nil
		}
		session = nil
		l.cfg.Log.WithError(err).Warn("connection to VPP lost")
		if !l.send(t, Event{Err: err}) {
			return nil
		}
	}
}

func (l *Link) send(t *tomb.Tomb, e Event) bool {
	select {
	case l.events <- e:
		return true
	case <-t.Dying():
		return false
	}
}

// sleep waits for d; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
