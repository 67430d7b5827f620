// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
)

// Latency is the network programming latency of this node, under kube-proxy's
// name and with its buckets: scale tests and the SLO of Kubernetes read it so
// (service-semantics.md M4). It implements services.Latency.
type Latency struct {
	*prometheus.HistogramVec
}

// NewLatency returns a histogram without samples.
func NewLatency() *Latency {
	buckets := []float64{0.25, 0.5}
	buckets = append(buckets, prometheus.LinearBuckets(1, 1, 59)...)
	buckets = append(buckets, prometheus.LinearBuckets(60, 5, 12)...)
	buckets = append(buckets, prometheus.LinearBuckets(120, 30, 7)...)
	l := &Latency{prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Subsystem: "kubeproxy",
		Name:      "network_programming_duration_seconds",
		Help:      "Time from a change of a Service's pods to VPP holding it, by the trigger time of the EndpointSlice.",
		Buckets:   buckets,
	}, []string{"ip_family"})}
	for _, family := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		l.WithLabelValues(string(family))
	}
	return l
}

// Programmed takes a sample. Where clocks disagree, no time can have passed; it
// is not less.
func (l *Latency) Programmed(family corev1.IPFamily, d time.Duration) {
	l.WithLabelValues(string(family)).Observe(max(0, d.Seconds()))
}
