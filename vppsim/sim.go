// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/sirupsen/logrus"
	"gopkg.in/tomb.v2"
)

// DefaultVersion is what show_version reports unless Config says otherwise.
const DefaultVersion = "26.06-release"

// Config says what kind of VPP to simulate. Only Socket must be set.
type Config struct {
	// Socket is the path of the API socket. Its directory must exist; the
	// socket is made with mode 0600.
	Socket string
	// Seed makes the faults and the message ids repeatable; 0 picks one, see
	// Sim.Seed.
	Seed uint64
	// Log gets the simulator's own log. Nil is silent.
	Log *logrus.Entry
	// Version is what show_version reports; empty is DefaultVersion.
	Version string
	// HideMessages are names of messages, with or without _crc, that are to be
	// missing from the message table. Hiding feature_cnat_enable_disable makes
	// the simulator look like a VPP older than 26.06 (vpp-facts M2).
	HideMessages []string
	// NodeAddresses are the addresses of the uplink when Interfaces is nil.
	// None stands for 192.0.2.11/24 and 2001:db8::11/64.
	NodeAddresses []netip.Prefix
	// Interfaces are the interfaces a new VPP has beside local0, in the order
	// of their indexes from 1 on. Nil stands for one interface "uplink0", with
	// a default route for each family of its addresses; interfaces that are
	// listed here have no default route.
	Interfaces []Interface
}

// Sim is a simulated VPP, or a succession of them on one socket. All methods
// may be called at any time from any goroutine.
type Sim struct {
	cfg  Config
	log  *logrus.Entry
	seed uint64

	// turn is held by the request that is being handled. mu guards everything
	// below, and is never held while waiting.
	turn chan struct{}
	mu   sync.Mutex
	wg   sync.WaitGroup

	rnd       *rand.Rand
	listener  *net.UnixListener // nil after a crash
	inst      *instance
	clients   map[uint32]*client // by client index
	nextIndex uint32
	stalled   chan struct{} // not nil while stalled, closed by Resume
	crashed   string
	closed    bool
	faults    faults
	calls     map[string]int
	applied   map[string]int
	stats     Stats
}

// Stats counts what happened on the socket since New.
type Stats struct {
	Connections int // accepted
	Instances   int // lives of VPP, the first one included
	Malformed   int // frames that cannot be, and truncated messages
	Unknown     int // requests with an id that is not in the message table
	Stale       int // of Unknown, those whose id an earlier instance could have had

	// What a client that knows what it does has no need of.
	Needless          int // updates that left a translation as it was, by the client that had written it last
	NoSuchTranslation int // deletions of a translation that is not there (F2)
}

// New starts a simulator. It accepts connections when New returns.
func New(cfg Config) (*Sim, error) {
	if cfg.Socket == "" {
		return nil, errors.New("vppsim: Config.Socket is empty")
	}
	s := build(cfg)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.boot(); err != nil {
		return nil, err
	}
	return s, nil
}

// build makes a simulator without a VPP in it.
func build(cfg Config) *Sim {
	if cfg.Version == "" {
		cfg.Version = DefaultVersion
	}
	s := &Sim{
		cfg:     cfg,
		log:     cfg.Log,
		seed:    cfg.Seed,
		turn:    make(chan struct{}, 1),
		clients: map[uint32]*client{},
		calls:   map[string]int{},
		applied: map[string]int{},
	}
	for s.seed == 0 {
		s.seed = rand.Uint64()
	}
	if s.log == nil {
		l := logrus.New()
		l.SetOutput(io.Discard)
		s.log = logrus.NewEntry(l)
	}
	s.rnd = rand.New(rand.NewPCG(s.seed, 0))
	s.faults.reset(Faults{}, s.seed)
	return s
}

// boot starts a new VPP on the socket. s.mu is held, there is no listener.
func (s *Sim) boot() error {
	l, err := listen(s.cfg.Socket)
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false) // a later VPP may own the path by then
	s.listener = l
	s.renew()
	s.wg.Add(1)
	go s.accept(l, s.inst)
	s.log.WithField("instance", s.inst.number).WithField("seed", s.seed).Debug("simulated VPP is up")
	return nil
}

// renew puts a new VPP in.
func (s *Sim) renew() {
	s.stats.Instances++
	s.crashed = ""
	s.inst = newInstance(s.stats.Instances, &s.cfg)
	s.inst.assignIDs(s.rnd, s.cfg.HideMessages)
}

// halt ends the current VPP: no socket, no clients. s.mu is held.
func (s *Sim) halt() {
	if s.inst != nil {
		s.inst.dead = true
	}
	if s.listener != nil {
		// The path goes first, so that nobody finds a socket that refuses.
		os.Remove(s.cfg.Socket)
		s.listener.Close()
		s.listener = nil
	}
	s.dropClients()
}

func (s *Sim) dropClients() {
	for _, c := range s.clients {
		c.drop()
	}
	clear(s.clients)
}

// crash is what a message that VPP cannot stand leads to. s.mu is held.
func (s *Sim) crash(reason string) {
	s.log.WithField("reason", reason).Error("simulated VPP aborts")
	s.crashed = reason
	s.halt()
	close(s.inst.died)
}

// Close ends the simulator and waits for everything it started.
func (s *Sim) Close() {
	s.mu.Lock()
	s.closed = true
	s.halt()
	s.mu.Unlock()
	s.wg.Wait()
}

// Serve runs until the tomb dies, then closes the simulator. The simulator
// works without it; it is for those who keep their servers in a tomb.
func (s *Sim) Serve(t *tomb.Tomb) error {
	<-t.Dying()
	s.Close()
	return nil
}

// Restart replaces VPP by a new one on the same socket: all clients are
// dropped, all state is gone, the message ids are others. It also ends the
// state after a crash.
func (s *Sim) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("vppsim: closed")
	}
	s.halt()
	return s.boot()
}

// DropLink closes all connections. VPP keeps its state and its socket.
func (s *Sim) DropLink() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropClients()
}

// Stall stops VPP from doing anything, as SIGSTOP does: connections and bytes
// are taken, nothing is answered.
func (s *Sim) Stall() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled == nil {
		s.stalled = make(chan struct{})
	}
}

// Resume ends a Stall. What was asked meanwhile is answered now.
func (s *Sim) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled != nil {
		close(s.stalled)
		s.stalled = nil
	}
}

// Crashed returns what killed VPP, or "" while it lives.
func (s *Sim) Crashed() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crashed
}

// CrashC returns a channel that is closed when the current VPP crashes.
func (s *Sim) CrashC() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inst.died
}

// Socket returns the path of the API socket.
func (s *Sim) Socket() string { return s.cfg.Socket }

// Seed returns the seed that Config gave or New picked. Print it when a test fails.
func (s *Sim) Seed() uint64 { return s.seed }

// Clients returns the number of open connections.
func (s *Sim) Clients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients)
}

// Calls returns how often each message was received since New or ResetCalls,
// failed and unanswered ones included, by name without CRC.
func (s *Sim) Calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// Applied returns how often each message that changes VPP was carried out since
// New, by name without CRC. Unlike Calls it leaves out what VPP refused, by itself
// or for a fault, so that it is the same whatever had to be tried again.
func (s *Sim) Applied() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.applied)
}

// Writes returns how many of the Calls were of messages that change VPP.
func (s *Sim) Writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, m := range s.inst.byID {
		if m.write {
			n += s.calls[m.name]
		}
	}
	return n
}

// ResetCalls sets all counts of Calls to zero.
func (s *Sim) ResetCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.calls)
}

// Stats returns the counters of the socket.
func (s *Sim) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

func (s *Sim) count(f func(*Stats)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.stats)
}
