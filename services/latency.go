// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"calico-vpp-services/services/model"
)

// maxTriggers bounds what is kept for a Service whose keys wait for VPP. The
// oldest are kept: they are those that waited longest.
const maxTriggers = 100

// Latency takes samples of how long it took from a change of pods to VPP, such as
// metrics.Latency. It must not block: it is called by the loop.
type Latency interface {
	// Programmed: VPP has held, since just now, what a change in family d ago
	// asked for. d can be negative, as clocks of nodes differ.
	Programmed(family corev1.IPFamily, d time.Duration)
}

// trigger is the change behind an update of a slice.
type trigger struct {
	at     time.Time
	family corev1.IPFamily
}

// triggers are the changes that VPP has not confirmed yet, by Service.
type triggers struct {
	// started: what happened before this process did is not its latency (M3).
	started time.Time
	pending map[model.ServiceID][]trigger
}

func newTriggers(started time.Time) triggers {
	return triggers{started: started, pending: map[model.ServiceID][]trigger{}}
}

// note takes up that the slice was came to be the slice is. A nil is is a deleted
// one: its time is unknown, and that of what is pending for the Service no longer
// that of what will be written (M3).
func (t *triggers) note(was, is *discoveryv1.EndpointSlice) {
	if is == nil {
		if was != nil {
			if id, ok := sliceOwner(was); ok {
				delete(t.pending, id)
			}
		}
		return
	}
	id, ok := sliceOwner(is)
	if !ok || sameEndpoints(was, is) {
		return
	}
	at, ok := triggerTime(is)
	if !ok || !at.After(t.started) || len(t.pending[id]) >= maxTriggers {
		return
	}
	family := corev1.IPv4Protocol
	if is.AddressType == discoveryv1.AddressTypeIPv6 {
		family = corev1.IPv6Protocol
	}
	t.pending[id] = append(t.pending[id], trigger{at, family})
}

// noteTrigger is note for an event, if somebody wants samples.
func (s *Server) noteTrigger(is *discoveryv1.EndpointSlice, deleted bool) {
	if s.cfg.Latency == nil {
		return
	}
	was := s.st.slices[objectKey{is.Namespace, is.Name}]
	if deleted {
		is = nil
	}
	s.triggers.note(was, is)
}

// sameEndpoints tells whether an update of a slice says nothing about endpoints.
func sameEndpoints(was, is *discoveryv1.EndpointSlice) bool {
	return was != nil && was.Labels[discoveryv1.LabelServiceName] == is.Labels[discoveryv1.LabelServiceName] &&
		equality.Semantic.DeepEqual(was.Endpoints, is.Endpoints) && equality.Semantic.DeepEqual(was.Ports, is.Ports)
}

// triggerTime reads when the change happened that a slice is the outcome of. There
// need be no such time, and one that can't be read is none (M2).
func triggerTime(s *discoveryv1.EndpointSlice) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339Nano, s.Annotations[corev1.EndpointsLastChangeTriggerTime])
	return at, err == nil
}

// observeLatency gives samples for the Services of which VPP now holds all. Those
// of a Service with a failed write wait: the longest times are the ones to know.
func (s *Server) observeLatency(now time.Time) {
	for _, id := range slices.Sorted(maps.Keys(s.triggers.pending)) {
		if s.st.services[id] != nil {
			if s.isPending(id) {
				continue
			}
			for _, t := range s.triggers.pending[id] {
				s.cfg.Latency.Programmed(t.family, now.Sub(t.at))
			}
		}
		delete(s.triggers.pending, id)
	}
}
