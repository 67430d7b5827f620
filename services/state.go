// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netutils "k8s.io/utils/net"

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
	// outside has the Services that want each load balancer or external IP:
	// whether they get it may depend on whose address it is.
	outside map[netip.Addr]map[model.ServiceID]bool
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
		outside:      map[netip.Addr]map[model.ServiceID]bool{},
		endpoints:    map[netip.Addr]int{},
	}
}

// setService puts s in, or takes the one of that name out, and returns whose
// claims may be others now.
func (st *state) setService(s *corev1.Service, deleted bool) model.ServiceID {
	id := model.ServiceIDOf(s.Namespace, s.Name)
	for _, a := range outsideAddresses(st.services[id]) {
		if delete(st.outside[a], id); len(st.outside[a]) == 0 {
			delete(st.outside, a)
		}
	}
	if deleted {
		delete(st.services, id)
		return id
	}
	st.services[id] = s
	for _, a := range outsideAddresses(s) {
		if st.outside[a] == nil {
			st.outside[a] = map[model.ServiceID]bool{}
		}
		st.outside[a][id] = true
	}
	return id
}

// outsideAddresses are the addresses that a Service wants from outside the
// service CIDRs, as far as they are any; s may be nil.
func outsideAddresses(s *corev1.Service) []netip.Addr {
	if s == nil {
		return nil
	}
	texts := slices.Clone(s.Spec.ExternalIPs)
	for i := range s.Status.LoadBalancer.Ingress {
		texts = append(texts, s.Status.LoadBalancer.Ingress[i].IP)
	}
	var out []netip.Addr
	for _, text := range texts {
		// As resolve reads them: stored objects may have leading zeros (A7).
		if a, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(strings.TrimSpace(text))); ok {
			out = append(out, a.Unmap())
		}
	}
	return out
}

// setSlice puts s in or takes it out. A slice that was labelled for another
// Service before leaves that one (B18). Services that want an address which
// thereby becomes a pod's, or ceases to be one, may get or lose it.
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
		touched = append(touched, st.countEndpoints(old, -1)...)
		delete(st.slices, key)
	}
	if deleted {
		return touched
	}
	st.slices[key] = s
	touched = append(touched, st.countEndpoints(s, 1)...)
	if id, ok := sliceOwner(s); ok {
		if st.slicesOf[id] == nil {
			st.slicesOf[id] = map[objectKey]*discoveryv1.EndpointSlice{}
		}
		st.slicesOf[id][key] = s
		touched = append(touched, id)
	}
	return touched
}

// countEndpoints counts the addresses of pods in a slice. An endpoint without a
// target may be anything, and one of a hostNetwork pod has the node's address,
// which resolve sorts out. It returns the Services that want an address whose
// count came from or went to none.
func (st *state) countEndpoints(s *discoveryv1.EndpointSlice, n int) (touched []model.ServiceID) {
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if e.TargetRef == nil || e.TargetRef.Kind != "Pod" || len(e.Addresses) == 0 {
			continue
		}
		a, err := netip.ParseAddr(e.Addresses[0])
		if err != nil {
			continue
		}
		before := st.endpoints[a]
		if st.endpoints[a] += n; st.endpoints[a] == 0 {
			delete(st.endpoints, a)
		}
		if before == 0 || st.endpoints[a] == 0 {
			touched = slices.AppendSeq(touched, maps.Keys(st.outside[a]))
		}
	}
	return touched
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
