// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"
	tomb "gopkg.in/tomb.v2"
	corev1 "k8s.io/api/core/v1"
)

// taintToBeDeleted is put on a node by the cluster autoscaler before it goes.
const taintToBeDeleted = "ToBeDeletedByClusterAutoscaler"

// NodeEligible tells whether load balancers should send to the node: it is
// known, and nobody is taking it away (J9, KEP-3836).
func NodeEligible(n *corev1.Node) bool {
	if n == nil || n.DeletionTimestamp != nil {
		return false
	}
	for _, t := range n.Spec.Taints {
		if t.Key == taintToBeDeleted {
			return false
		}
	}
	return true
}

// State is what the services server says of itself.
type State struct {
	// LastUpdated is when VPP was last known to hold what the objects ask for.
	LastUpdated time.Time
	// OldestPending is since when something has been waiting to be written;
	// zero when nothing is.
	OldestPending time.Time
	NodeEligible  bool
}

// Healthy tells whether the proxy keeps up: idle and starting are healthy, and a
// change may wait for up to timeout (J11).
func (s *State) Healthy(now time.Time, timeout time.Duration) bool {
	return s.OldestPending.IsZero() || now.Sub(s.OldestPending) < timeout
}

// DefaultTimeout is kube-proxy's: twice its sync period of 30 seconds.
const DefaultTimeout = 60 * time.Second

// Proxy answers /healthz and /livez (J8 to J11).
type Proxy struct {
	listener net.Listener
	state    func() State
	now      func() time.Time
	timeout  time.Duration
	log      *logrus.Entry
}

// NewProxy listens on address, such as 0.0.0.0:10256; state is asked for at each
// request, from any goroutine. Serve must be called.
func NewProxy(address string, state func() State, log *logrus.Entry) (*Proxy, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("health address %q: %w; wanted ADDRESS:PORT that nothing else listens on (kube-proxy has 10256)", address, err)
	}
	return &Proxy{listener: l, state: state, now: time.Now, timeout: DefaultTimeout, log: log}, nil
}

// Addr is where the proxy listens.
func (p *Proxy) Addr() net.Addr { return p.listener.Addr() }

// Close gives the address up, for one that is never served.
func (p *Proxy) Close() error {
	if err := p.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// ServeProxyHealth answers until t is dying.
func (p *Proxy) ServeProxyHealth(t *tomb.Tomb) error {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { p.answer(w, true) })
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { p.answer(w, false) })
	s := newHTTPServer(mux)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-t.Dying()
		if err := s.Close(); err != nil {
			p.log.WithError(err).Debug("closing the health address")
		}
	}()
	if err := s.Serve(p.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("health address: %w", err)
	}
	<-stopped
	return nil
}

// family is the state of one family; here both are one.
type family struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// body is what kube-proxy says; nodeEligible is not part of /livez (J10).
type body struct {
	LastUpdated  time.Time         `json:"lastUpdated"`
	CurrentTime  time.Time         `json:"currentTime"`
	NodeEligible *bool             `json:"nodeEligible,omitempty"`
	Healthy      bool              `json:"healthy"`
	Status       map[string]family `json:"status"`
}

func (p *Proxy) answer(w http.ResponseWriter, withNode bool) {
	st, now := p.state(), p.now()
	ok := st.Healthy(now, p.timeout)
	f := family{st.LastUpdated, ok}
	b := body{LastUpdated: st.LastUpdated, CurrentTime: now, Healthy: ok, Status: map[string]family{"IPv4": f, "IPv6": f}}
	if withNode {
		b.NodeEligible = &st.NodeEligible
		ok = ok && st.NodeEligible
	}
	if ok {
		b.LastUpdated = now // J8: healthy means up to date now
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	writeJSON(w, ok, b)
}
