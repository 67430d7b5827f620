// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"calico-vpp-services/services/model"
)

// objectKey names an object of one kind.
type objectKey struct{ namespace, name string }

// state is the objects as they are now. It answers the only question that
// resolve asks: what is there for this service id?
type state struct {
	services map[model.ServiceID]*corev1.Service
	slices   map[objectKey]*discoveryv1.EndpointSlice
	// slicesOf has the slices labelled for each service id, also for one that
	// does not exist (yet): order of arrival must not matter
	// (service-semantics.md B17).
	slicesOf map[model.ServiceID]map[objectKey]*discoveryv1.EndpointSlice
	node     *corev1.Node
	// serviceCIDRs are the prefixes of each ServiceCIDR object.
	serviceCIDRs map[string][]netip.Prefix
	// endpoints counts the slices that each endpoint address without a node's
	// own is in: the addresses that are known to be pods'.
	endpoints map[netip.Addr]int
}

func newState() *state {
	return &state{
		services: map[model.ServiceID]*corev1.Service{},
		slices:   map[objectKey]*discoveryv1.EndpointSlice{},
		slicesOf: map[model.ServiceID]map[objectKey]*discoveryv1.EndpointSlice{},

		serviceCIDRs: map[string][]netip.Prefix{},
		endpoints:    map[netip.Addr]int{},
	}
}

// setService puts s in, or takes the one of that name out, and returns whose
// claims may be others now.
func (st *state) setService(s *corev1.Service, deleted bool) model.ServiceID {
	id := model.ServiceIDOf(s.Namespace, s.Name)
	if deleted {
		delete(st.services, id)
	} else {
		st.services[id] = s
	}
	return id
}

// setSlice puts s in or takes it out. A slice that was labelled for another
// Service before leaves that one (B18), so up to two ids are returned.
func (st *state) setSlice(s *discoveryv1.EndpointSlice, deleted bool) []model.ServiceID {
	key := objectKey{s.Namespace, s.Name}
	var touched []model.ServiceID
	if old := st.slices[key]; old != nil {
		if id, ok := sliceOwner(old); ok {
			delete(st.slicesOf[id], key)
			if len(st.slicesOf[id]) == 0 {
				delete(st.slicesOf, id)
			}
			touched = append(touched, id)
		}
		st.countEndpoints(old, -1)
		delete(st.slices, key)
	}
	if deleted {
		return touched
	}
	st.slices[key] = s
	st.countEndpoints(s, 1)
	if id, ok := sliceOwner(s); ok {
		if st.slicesOf[id] == nil {
			st.slicesOf[id] = map[objectKey]*discoveryv1.EndpointSlice{}
		}
		st.slicesOf[id][key] = s
		if !slices.Contains(touched, id) {
			touched = append(touched, id)
		}
	}
	return touched
}

// countEndpoints counts the addresses of pods in a slice. An endpoint without a
// target may be anything, and one of a hostNetwork pod has the node's address,
// which isPod sorts out.
func (st *state) countEndpoints(s *discoveryv1.EndpointSlice, n int) {
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if e.TargetRef == nil || e.TargetRef.Kind != "Pod" || len(e.Addresses) == 0 {
			continue
		}
		if a, err := netip.ParseAddr(e.Addresses[0]); err == nil {
			if st.endpoints[a] += n; st.endpoints[a] == 0 {
				delete(st.endpoints, a)
			}
		}
	}
}

// sliceOwner reads the label that ties a slice to a Service (B16).
func sliceOwner(s *discoveryv1.EndpointSlice) (model.ServiceID, bool) {
	name := s.Labels[discoveryv1.LabelServiceName]
	if name == "" {
		return "", false
	}
	return model.ServiceIDOf(s.Namespace, name), true
}

// slicesFor returns the slices of id, sorted by name.
func (st *state) slicesFor(id model.ServiceID) []*discoveryv1.EndpointSlice {
	return slices.SortedFunc(maps.Values(st.slicesOf[id]), func(a, b *discoveryv1.EndpointSlice) int {
		return cmp.Compare(a.Name, b.Name)
	})
}

// ids returns the id of every Service, sorted.
func (st *state) ids() []model.ServiceID {
	return slices.Sorted(maps.Keys(st.services))
}
