// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sirupsen/logrus"
	tomb "gopkg.in/tomb.v2"

	"calico-vpp-services/services"
	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink"
)

// prefix begins the name of each metric.
const prefix = "calico_vpp_services_"

// Source is what there is to tell; services.Server is one. Its methods may be
// called from any goroutine.
type Source interface {
	Status() services.Status
	Translations() []*model.TranslationState
}

// Collector reads a Source and the counters of calls at each scrape.
type Collector struct {
	src   Source
	calls *vpplink.Counters
	descs map[string]*prometheus.Desc
}

// NewCollector returns a collector; calls may be nil.
func NewCollector(src Source, calls *vpplink.Counters) *Collector {
	c := &Collector{src: src, calls: calls, descs: map[string]*prometheus.Desc{}}
	for _, m := range metrics() {
		c.descs[m.name] = prometheus.NewDesc(prefix+m.name, m.help, m.labels, nil)
	}
	return c
}

type metric struct {
	name, help string
	labels     []string
}

func metrics() []metric {
	return []metric{
		{"ready", "1 if VPP holds all that the objects ask for.", nil},
		{"synced", "1 if the first complete list of every source has been received.", nil},
		{"vpp_up", "1 if VPP is connected and has been dumped.", nil},
		{"dataplane_ok", "1 if VPP is as configured beside its translations: interfaces, source NAT, routes.", nil},
		{"store_ok", "1 if what is ours in VPP is remembered in the state file.", nil},
		{"store_problems_total", "State files set aside and records in them dropped because they could not be read.", nil},
		{"node_eligible", "1 if load balancers should send to this node.", nil},
		{"keys", "Claimed keys (protocol, address, port) by state.", []string{"state"}},
		{"contested_keys", "Claimed keys that more than one Service wants.", nil},
		{"pending_keys", "Keys that VPP has not confirmed, removals included.", nil},
		{"last_updated_timestamp_seconds", "When VPP was last known to hold all that the objects ask for.", nil},
		{"drift_total", "Keys found in VPP otherwise than they were left.", nil},
		{"foreign_translations", "Translations in VPP that are somebody else's and left alone.", nil},
		{"taken_over_total", "Keys of somebody else's translations that Services have taken.", nil},
		{"rounds_total", "Rounds that wrote something to VPP.", nil},
		{"vpp_calls_total", "Calls to VPP.", []string{"call"}},
		{"no_local_endpoints", "Service ports that a traffic policy of Local leaves without endpoint on this node, while others have one.", []string{"traffic_policy", "ip_family"}},
		{"vpp_call_failures_total", "Calls to VPP that ended with an error.", nil},
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range metrics() {
		out <- c.descs[m.name]
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, name string, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(c.descs[name], kind, v, labels...)
	}
	gauge := func(name string, v float64, labels ...string) { send(prometheus.GaugeValue, name, v, labels...) }
	counter := func(name string, v float64, labels ...string) { send(prometheus.CounterValue, name, v, labels...) }
	st := c.src.Status()
	gauge("ready", number(st.Ready()))
	gauge("synced", number(st.Synced))
	gauge("vpp_up", number(st.Connected))
	gauge("dataplane_ok", number(st.DataplaneError == ""))
	gauge("store_ok", number(st.StoreError == ""))
	counter("store_problems_total", float64(st.StoreProblems))
	gauge("node_eligible", number(st.NodeEligible))
	states := map[model.State]int{model.StateProgrammed: 0, model.StateUnserved: 0, model.StateFailed: 0}
	contested := 0
	for _, r := range c.src.Translations() {
		states[r.State]++
		if len(r.Waiting) > 0 {
			contested++
		}
	}
	for state, n := range states {
		gauge("keys", float64(n), string(state))
	}
	gauge("contested_keys", float64(contested))
	gauge("pending_keys", float64(st.Pending))
	if !st.LastUpdated.IsZero() {
		gauge("last_updated_timestamp_seconds", float64(st.LastUpdated.UnixMilli())/1000)
	}
	counter("drift_total", float64(st.Drift))
	gauge("foreign_translations", float64(st.Foreign))
	counter("taken_over_total", float64(st.TakenOver))
	gauge("no_local_endpoints", float64(st.NoLocal.InternalV4), "internal", "IPv4")
	gauge("no_local_endpoints", float64(st.NoLocal.InternalV6), "internal", "IPv6")
	gauge("no_local_endpoints", float64(st.NoLocal.ExternalV4), "external", "IPv4")
	gauge("no_local_endpoints", float64(st.NoLocal.ExternalV6), "external", "IPv6")
	counter("rounds_total", float64(st.Rounds))
	calls := c.calls.Read()
	counter("vpp_calls_total", float64(calls.Update), "translation_update")
	counter("vpp_calls_total", float64(calls.Del), "translation_delete")
	counter("vpp_calls_total", float64(calls.Dump), "translation_dump")
	counter("vpp_calls_total", float64(calls.Other), "other")
	counter("vpp_call_failures_total", float64(calls.Failed))
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Server answers on /metrics.
type Server struct {
	listener net.Listener
	log      *logrus.Entry
}

// NewServer listens on address, an ADDRESS:PORT.
func NewServer(address string, log *logrus.Entry) (*Server, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return &Server{listener: l, log: log}, nil
}

// Addr is where it listens.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close gives the port back if ServeMetrics was never called.
func (s *Server) Close() error {
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// ServeMetrics answers about cs until t is dying.
func (s *Server) ServeMetrics(t *tomb.Tomb, cs ...prometheus.Collector) error {
	reg := prometheus.NewRegistry()
	reg.MustRegister(cs...)
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second}))
	server := http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second,
		WriteTimeout: 15 * time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10,
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-t.Dying()
		if err := server.Close(); err != nil {
			s.log.WithError(err).Debug("metrics: close")
		}
	}()
	if err := server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics: %w", err)
	}
	<-stopped
	return nil
}
