// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// maxPending bounds what is kept for a client that does not read. VPP would
// keep it all until its heap is full.
const maxPending = 256 << 20

// maxSocketPath is what fits into a sockaddr_un with its final zero.
const maxSocketPath = 107

// listen makes the API socket. Only the owner may connect: whoever can speak
// the API owns the node's network.
func listen(path string) (*net.UnixListener, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("socket %s: the path has %d bytes, a unix socket takes %d", path, len(path), maxSocketPath)
	}
	if fi, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	} else if !fi.IsDir() {
		return nil, fmt.Errorf("socket %s: %s is not a directory", path, filepath.Dir(path))
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	lc := net.ListenConfig{
		// The mode of a socket inode is that of the descriptor, so setting it
		// before bind leaves no moment in which others could connect.
		Control: func(_, _ string, c syscall.RawConn) error {
			var modeErr error
			err := c.Control(func(fd uintptr) { modeErr = syscall.Fchmod(int(fd), 0o600) })
			return errors.Join(err, modeErr)
		},
	}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	return l.(*net.UnixListener), nil //nolint:errcheck // what listening on "unix" gives
}

// removeStale removes a socket that a killed process left behind, and nothing else.
func removeStale(path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("socket %s: %w", path, err)
	}
	if fi.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("socket %s: there is a file of another kind", path)
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		c.Close()
		return fmt.Errorf("socket %s: something is listening on it", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("socket %s: %w", path, err)
	}
	return nil
}

// client is one connection.
type client struct {
	conn  net.Conn
	inst  *instance
	index uint32 // what sockclnt_create_reply told it
	name  string
	// unregistered: VPP's memory of it was freed under it.
	unregistered bool

	mu      sync.Mutex
	out     []byte        // frames not yet written
	leaving bool          // close once out is written
	wake    chan struct{} // cap 1: out or leaving changed
	gone    chan struct{} // closed by drop
	once    sync.Once
}

// drop closes the connection at once. It never blocks.
func (c *client) drop() {
	c.once.Do(func() {
		close(c.gone)
		c.conn.Close()
	})
}

// send queues a message from VPP.
func (c *client) send(id uint16, context uint32, m wireMessage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if c.out, err = appendFrame(c.out, id, c.index, context, m); err != nil {
		return err
	}
	if len(c.out) > maxPending {
		return fmt.Errorf("client %q does not read its replies", c.name)
	}
	c.poke()
	return nil
}

// leave closes the connection when everything queued has been written.
func (c *client) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leaving = true
	c.poke()
}

func (c *client) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write is the goroutine that empties c.out.
func (c *client) write() {
	defer c.drop()
	var spare []byte
	for {
		select {
		case <-c.gone:
			return
		case <-c.wake:
		}
		c.mu.Lock()
		batch, leaving := c.out, c.leaving
		c.out = spare[:0]
		c.mu.Unlock()
		if len(batch) > 0 {
			if _, err := c.conn.Write(batch); err != nil {
				return
			}
		}
		if leaving {
			return
		}
		spare = batch
		if cap(spare) > 1<<20 {
			spare = nil // a dump is rare, its memory need not stay
		}
	}
}

// read is the goroutine that takes requests off the connection, one by one.
func (s *Sim) read(c *client) {
	defer s.forget(c)
	r := bufio.NewReaderSize(c.conn, 64<<10)
	buf := make([]byte, 0, 64<<10)
	for {
		msg, err := readFrame(r, buf)
		if err != nil {
			if errors.Is(err, errFrame) {
				s.count(func(st *Stats) { st.Malformed++ })
				s.log.WithError(err).WithField("client", c.name).Warn("closing the client's connection")
			} else if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				s.log.WithError(err).WithField("client", c.name).Debug("client lost")
			}
			return
		}
		if !s.handle(c, msg) {
			// The client leaves or is gone; what is still to be written is the
			// writer's business.
			<-c.gone
			return
		}
	}
}

// accept is the goroutine of the listener of one instance.
func (s *Sim) accept(l *net.UnixListener, inst *instance) {
	defer s.wg.Done()
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				s.log.WithError(err).Warn("accept failed, the API socket is closed")
				l.Close()
			}
			return
		}
		s.adopt(conn, inst)
	}
}

// adopt starts serving a new connection, unless its instance is no more.
func (s *Sim) adopt(conn *net.UnixConn, inst *instance) {
	c := &client{
		conn: conn,
		inst: inst,
		wake: make(chan struct{}, 1),
		gone: make(chan struct{}),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inst != inst || s.crashed != "" || s.closed {
		conn.Close()
		return
	}
	s.stats.Connections++
	s.nextIndex++
	c.index = s.nextIndex
	s.clients[c.index] = c
	s.wg.Add(2)
	go func() { defer s.wg.Done(); c.write() }()
	go func() { defer s.wg.Done(); s.read(c) }()
}

func (s *Sim) forget(c *client) {
	c.drop()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clients[c.index] == c {
		delete(s.clients, c.index)
	}
}
