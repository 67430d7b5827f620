// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	tomb "gopkg.in/tomb.v2"
	corev1 "k8s.io/api/core/v1"

	"calico-vpp-services/services/model"
	"calico-vpp-services/services/resolve"
)

// Service is a Service whose load balancer asks for its local endpoints.
type Service struct {
	ID    model.ServiceID
	Check resolve.HealthCheck
}

// retryBind is the pause before an address that could not be bound is tried
// again.
const retryBind = 5 * time.Second

// NodePorts keeps the health check node ports (J1 to J7). Set may be called by
// one goroutine at a time; it never waits for the network.
type NodePorts struct {
	log *logrus.Entry

	// wanted is what Set said last; the goroutine of ServeHealth makes it so.
	mu      sync.Mutex
	wanted  map[endpoint]*answer
	changed chan struct{}
}

// endpoint is where to listen.
type endpoint struct {
	service model.ServiceID
	v6      bool
	addr    netip.AddrPort
}

func (e endpoint) compare(o endpoint) int {
	return cmp.Or(cmp.Compare(e.service, o.service), e.addr.Compare(o.addr))
}

// answer is what a listener says now. It is shared by the listener and Set.
type answer struct {
	service   model.ServiceID
	endpoints atomic.Int64
	healthy   atomic.Bool
	closed    atomic.Bool
}

// NewNodePorts returns a keeper without listeners.
func NewNodePorts(log *logrus.Entry) *NodePorts {
	return &NodePorts{log: log, wanted: map[endpoint]*answer{}, changed: make(chan struct{}, 1)}
}

// Set says all Services that want a health check, and whether the proxy is
// healthy. A listener that stays is not restarted; its count changes in place
// (J6).
func (n *NodePorts) Set(list []Service, healthy bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := map[endpoint]*answer{}
	for _, s := range list {
		for _, f := range s.Check.Families {
			for _, a := range f.Addresses {
				e := endpoint{s.ID, f.Family == corev1.IPv6Protocol, netip.AddrPortFrom(a, s.Check.Port)}
				ans := n.wanted[e]
				if ans == nil {
					ans = &answer{service: s.ID}
				}
				ans.endpoints.Store(int64(f.LocalEndpoints))
				ans.healthy.Store(healthy)
				next[e] = ans
			}
		}
	}
	for e, ans := range n.wanted {
		if next[e] == nil {
			ans.closed.Store(true) // J7: who has connected already hears 503
		}
	}
	n.wanted = next
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// ProblemFunc is told when a port cannot be bound, once until it can (J5). It must
// not block.
type ProblemFunc func(model.ServiceID, model.Problem)

// ServeHealth keeps the listeners as Set says until t is dying.
func (n *NodePorts) ServeHealth(t *tomb.Tomb, problem ProblemFunc) error {
	servers := map[endpoint]server{}
	failed := map[endpoint]string{}
	var running sync.WaitGroup
	defer running.Wait()
	defer func() {
		for _, s := range servers {
			n.close(s)
		}
	}()
	retry := time.NewTimer(retryBind)
	defer retry.Stop()
	for {
		n.adjust(servers, failed, &running, problem)
		retry.Reset(retryBind)
		select {
		case <-t.Dying():
			return nil
		case <-n.changed:
		case <-retry.C:
		}
	}
}

// server is a listener and what it answers.
type server struct {
	*http.Server
	listener net.Listener
	answer   *answer
}

// adjust closes what is not wanted, then opens what is missing: a port may go
// from one Service to another. One that left and came back has a new answer.
func (n *NodePorts) adjust(servers map[endpoint]server, failed map[endpoint]string, running *sync.WaitGroup, problem ProblemFunc) {
	n.mu.Lock()
	wanted := maps.Clone(n.wanted)
	n.mu.Unlock()
	for e, s := range servers {
		if wanted[e] != s.answer {
			n.close(s)
			delete(servers, e)
		}
	}
	for e := range failed {
		if wanted[e] == nil {
			delete(failed, e)
		}
	}
	for _, e := range slices.SortedFunc(maps.Keys(wanted), endpoint.compare) {
		if servers[e].Server != nil {
			continue
		}
		s, err := n.open(e, wanted[e], running)
		if err == nil {
			servers[e] = s
			delete(failed, e)
			continue
		}
		if failed[e] != err.Error() { // J5: told once, tried on, nobody else's business
			failed[e] = err.Error()
			n.log.WithError(err).WithField("service", e.service).Warn("health check node port cannot be bound; trying on")
			problem(e.service, model.Problem{
				Reason: model.ReasonHealthCheckFailed, Field: "spec.healthCheckNodePort",
				Message: fmt.Sprintf("%s cannot be listened on: %s; it is tried again", e.addr, err),
			})
		}
	}
}

func (n *NodePorts) open(e endpoint, ans *answer, running *sync.WaitGroup) (server, error) {
	network := "tcp4"
	if e.v6 {
		network = "tcp6"
	}
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), network, e.addr.String())
	if err != nil {
		return server{}, err
	}
	s := server{newHTTPServer(ans), l, ans}
	running.Go(func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.log.WithError(err).WithField("service", e.service).Warn("health check node port ended")
		}
	})
	return s, nil
}

// close lets go of the port before it returns. The server does not know of its
// listener until it serves, which may be later.
func (n *NodePorts) close(s server) {
	err := s.Close()
	if lerr := s.listener.Close(); !errors.Is(lerr, net.ErrClosed) {
		err = errors.Join(err, lerr)
	}
	if err != nil {
		n.log.WithError(err).Debug("closing a health check node port")
	}
}

// newHTTPServer bounds what a stranger can cost: anybody may ask.
func newHTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       5 * time.Second,
		WriteTimeout:      5 * time.Second,
		IdleTimeout:       30 * time.Second,
		MaxHeaderBytes:    8 << 10,
	}
}

// ServeHTTP answers any path and method (J2).
func (a *answer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	count, healthy := a.endpoints.Load(), a.healthy.Load()
	if a.closed.Load() {
		count = 0
	}
	namespace, name, _ := strings.Cut(string(a.service), "/")
	var body struct {
		Service struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"service"`
		LocalEndpoints      int64 `json:"localEndpoints"`
		ServiceProxyHealthy bool  `json:"serviceProxyHealthy"`
	}
	body.Service.Namespace, body.Service.Name = namespace, name
	body.LocalEndpoints, body.ServiceProxyHealthy = count, healthy
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Load-Balancing-Endpoint-Weight", strconv.FormatInt(count, 10))
	writeJSON(w, count > 0 && healthy, body)
}

// writeJSON answers 200 or 503. An asker that has gone away is no concern.
func writeJSON(w http.ResponseWriter, ok bool, body any) {
	text, err := json.MarshalIndent(body, "", "\t")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	status := http.StatusOK
	if !ok {
		status = http.StatusServiceUnavailable
	}
	w.WriteHeader(status)
	if _, err := w.Write(text); err != nil {
		return
	}
}
