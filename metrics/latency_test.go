// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
)

// TestM3Buckets: name, label and buckets are those that are read of kube-proxy.
func TestM3Buckets(t *testing.T) {
	l := NewLatency()
	l.Programmed(corev1.IPv4Protocol, 400*time.Millisecond)
	l.Programmed(corev1.IPv4Protocol, -time.Second)
	if problems, err := testutil.CollectAndLint(l); err != nil || len(problems) != 0 {
		t.Errorf("%v, %v", problems, err)
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(l)
	families, err := reg.Gather()
	if err != nil || len(families) != 1 {
		t.Fatalf("%d families, %v", len(families), err)
	}
	if got := families[0].GetName(); got != "kubeproxy_network_programming_duration_seconds" {
		t.Error(got)
	}
	var v4 *dto.Metric
	for _, m := range families[0].GetMetric() {
		if m.GetLabel()[0].GetName() == "ip_family" && m.GetLabel()[0].GetValue() == "IPv4" {
			v4 = m
		}
	}
	if v4 == nil {
		t.Fatal("no samples of IPv4")
	}
	h := v4.GetHistogram()
	if h.GetSampleCount() != 2 || h.GetSampleSum() != 0.4 {
		t.Errorf("%d samples, sum %v; want 2 and 0.4", h.GetSampleCount(), h.GetSampleSum())
	}
	b := h.GetBucket()
	if len(b) != 80 {
		t.Fatalf("%d buckets, want 80", len(b))
	}
	for i, want := range map[int]float64{0: .25, 1: .5, 2: 1, 60: 59, 61: 60, 62: 65, 72: 115, 73: 120, 79: 300} {
		if b[i].GetUpperBound() != want {
			t.Errorf("bucket %d ends at %v, want %v", i, b[i].GetUpperBound(), want)
		}
	}
	if b[0].GetCumulativeCount() != 1 || b[1].GetCumulativeCount() != 2 {
		t.Errorf("0.4 s is not between 0.25 and 0.5: %d, %d", b[0].GetCumulativeCount(), b[1].GetCumulativeCount())
	}
}
