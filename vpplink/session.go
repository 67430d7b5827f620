// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vpplink

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"go.fd.io/govpp/adapter/socketclient"
	"go.fd.io/govpp/binapi/memclnt"
	"go.fd.io/govpp/core"

	"calico-vpp-services/vpplink/binapi2606"
)

// Session is one connection to one running VPP. Its methods may be called from
// several goroutines. It ends when Close is called, when VPP goes, or when a
// reply does not come in time; it then never works again.
type Session struct {
	cfg    Config
	client *client
	conn   *core.Connection
	log    *logrus.Entry

	// ctx ends with the session; its cause wraps ErrSessionLost.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// released is closed when the connection has been given back.
	released chan struct{}
	release  sync.Once
	pinger   sync.WaitGroup
	// busy is held for reading by every exchange.
	busy sync.RWMutex

	// version is what VPP calls itself.
	version string
}

// Connect makes one attempt to reach VPP. The error says what to do about it;
// errors.Is tells ErrSocketMissing, ErrPermission and ErrIncompatible apart.
func Connect(ctx context.Context, cfg Config) (*Session, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("vpplink configuration: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := checkSocket(cfg.Socket); err != nil {
		return nil, err
	}
	binapi2606.Register()
	client := &client{Client: socketclient.NewVppClient(cfg.Socket)}
	client.SetClientName(cfg.ClientName)
	client.SetConnectTimeout(cfg.ConnectTimeout)
	conn, err := core.Connect(client)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return nil, permissionError(cfg.Socket)
		}
		return nil, fmt.Errorf("connect to VPP at %s: %w; is VPP running and answering (vppctl show version)?", cfg.Socket, err)
	}
	s := &Session{cfg: cfg, client: client, conn: conn, log: cfg.Log, released: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())

	missing, err := checkCompatible(conn)
	if err == nil {
		s.version = versionOf(ctx, s)
		if err = s.Err(); err == nil && len(missing) > 0 {
			err = &CompatError{Version: s.version, Missing: missing}
		}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.pinger.Add(1)
	go s.pingLoop()
	return s, nil
}

// checkSocket finds the mistakes that can be named before connecting.
func checkSocket(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s does not exist; start VPP with `socksvr { socket-name %s }` in its startup.conf, or give the right path", ErrSocketMissing, path, path)
	case errors.Is(err, fs.ErrPermission):
		return permissionError(path)
	case err != nil:
		return fmt.Errorf("VPP API socket: %w", err)
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("%w: %s is not a socket; give the path of VPP's API socket (socksvr in startup.conf), not of its CLI or a file", ErrSocketMissing, path)
	}
	return nil
}

func permissionError(path string) error {
	return fmt.Errorf("%w: %s: permission denied; run as root or as a member of VPP's api-segment group", ErrPermission, path)
}

// Version is what VPP calls itself, such as 26.06-release.
func (s *Session) Version() string { return s.version }

// Done is closed when the session has ended; Err then tells why.
func (s *Session) Done() <-chan struct{} { return s.ctx.Done() }

// Err returns nil while the session lives, and its cause of death after. It
// wraps ErrSessionLost.
func (s *Session) Err() error {
	if s.ctx.Err() == nil {
		return nil
	}
	return context.Cause(s.ctx)
}

// finish lets the calls under way end, for at most d, before it closes: a
// recreate that is cut in the middle would leave its key without translation.
func (s *Session) finish(d time.Duration) {
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		s.busy.Lock() // waits for all who hold it for reading
		defer s.busy.Unlock()
	}()
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-idle:
	case <-s.ctx.Done():
	case <-t.C:
	}
	s.Close()
}

// Close ends the session, takes leave of VPP (sockclnt_delete, so that VPP keeps no
// dead client), and returns when that is done or ConnectTimeout is over.
// It may be called more than once.
func (s *Session) Close() {
	if s.Err() == nil {
		s.takeLeave()
	}
	s.fail(errors.New("closed"))
	t := time.NewTimer(s.cfg.ConnectTimeout)
	defer t.Stop()
	select {
	case <-s.released:
	case <-t.C:
		// A stopped VPP with a full socket: the goroutine ends when VPP goes on
		// or goes away.
		s.log.Warn("VPP does not take our leave; giving up on the connection")
	}
}

// client is govpp's client, listening for the index by which VPP knows it: that
// is in the header of every request, and nowhere else to be had.
type client struct {
	*socketclient.Client
	index atomic.Uint32
}

// SendMsg is called by govpp for each request. It puts the index into msg.
func (c *client) SendMsg(ctx uint32, msg []byte) error {
	err := c.Client.SendMsg(ctx, msg)
	if err == nil {
		c.index.Store(binary.BigEndian.Uint32(msg[2:]))
	}
	return err
}

// takeLeave sends sockclnt_delete. govpp's client does so too, but takes the id
// of sockclnt_delete_reply for it where that one comes later in VPP's
// message table, and VPP then is left to find out about the dead client.
//
// The index must be our own: VPP believes any, and aborts when the client whose
// registration it thereby freed sends something. The one in control_ping_reply is
// never set.
func (s *Session) takeLeave() {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.ConnectTimeout)
	defer cancel()
	err := s.Ping(ctx) // so that there was a request
	if err == nil {
		_, err = call[*memclnt.SockclntDeleteReply](ctx, s, &memclnt.SockclntDelete{Index: s.client.index.Load()})
	}
	if err != nil {
		s.log.WithError(err).Debug("taking leave of VPP")
	}
}

// fail ends the session with cause, without waiting.
func (s *Session) fail(cause error) {
	s.cancel(fmt.Errorf("%w: %w", ErrSessionLost, cause))
	s.release.Do(func() {
		go func() {
			defer close(s.released)
			s.pinger.Wait()
			s.conn.Disconnect()
		}()
	})
}

// pingLoop notices a dead VPP: writing to its socket fails. govpp's client by
// itself would leave calls under way waiting for their deadline.
func (s *Session) pingLoop() {
	defer s.pinger.Done()
	tick := time.NewTicker(s.cfg.PingInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		// A call that fails with anything but VPP's own word ends the session.
		if err := s.Ping(s.ctx); err != nil {
			s.log.WithError(err).Debug("ping of VPP failed")
		}
	}
}

// Ping asks VPP for a sign of life.
func (s *Session) Ping(ctx context.Context) error {
	_, err := call[*memclnt.ControlPingReply](ctx, s, &memclnt.ControlPing{})
	return err
}
