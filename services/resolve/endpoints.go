// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink/types"
)

// endpoint is one ip:port behind a Service port, with what decides about its
// use. Missing conditions are read as the API means them: ready, serving, not
// terminating (C2).
type endpoint struct {
	addr                        netip.AddrPort
	ready, serving, terminating bool
	// local: it is on this node. Without nodeName it is not (B9).
	local    bool
	nodeName string
	// zones and nodes are the topology hints.
	zones, nodes []string
}

// fallback tells whether the endpoint may be used when nothing is ready (C4).
func (e *endpoint) fallback() bool { return !e.ready && e.serving && e.terminating }

// prefer orders copies of one ip:port that disagree, the one to believe first:
// one that does not terminate before one that does, since the address may have a
// new pod (B13); the rest only makes the choice independent of order.
func prefer(a, b *endpoint) int {
	no := func(v bool) int { // true first
		if v {
			return 0
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(no(!a.terminating), no(!b.terminating)),
		cmp.Compare(no(a.ready), no(b.ready)),
		cmp.Compare(no(a.serving), no(b.serving)),
		cmp.Compare(no(a.local), no(b.local)),
		cmp.Compare(a.nodeName, b.nodeName),
		slices.Compare(a.zones, b.zones),
		slices.Compare(a.nodes, b.nodes),
	)
}

// portKey is what ties a slice port to a Service port (B1).
type portKey struct {
	v6    bool
	name  string
	proto types.Protocol
}

// endpoints are the endpoints of a Service by slice port, each ip:port once,
// sorted (B12, B15).
type endpoints map[portKey][]endpoint

// collect reads all slices of a Service (B11).
func collect(in *Input, problems *problemList) endpoints {
	byPort := map[portKey]map[netip.AddrPort]endpoint{}
	for _, s := range in.Slices {
		if s == nil || s.Namespace != in.Service.Namespace || s.Labels[discoveryv1.LabelServiceName] != in.Service.Name {
			continue // B16, B18
		}
		if _, headless := s.Labels[corev1.IsHeadlessService]; headless {
			continue // A4
		}
		v6 := s.AddressType == discoveryv1.AddressTypeIPv6
		if !v6 && s.AddressType != discoveryv1.AddressTypeIPv4 {
			continue // B10
		}
		ports := slicePorts(s, v6, problems)
		if len(ports) == 0 {
			continue
		}
		for i := range s.Endpoints {
			ip, ok := endpointAddress(s, i, v6, problems)
			if !ok {
				continue
			}
			e := readEndpoint(&s.Endpoints[i], in.Node.Name)
			for key, number := range ports {
				e.addr = netip.AddrPortFrom(ip, number)
				m := byPort[key]
				if m == nil {
					m = map[netip.AddrPort]endpoint{}
					byPort[key] = m
				}
				if old, twice := m[e.addr]; !twice || prefer(&e, &old) < 0 {
					m[e.addr] = e
				}
			}
		}
	}
	out := make(endpoints, len(byPort))
	for key, m := range byPort {
		list := make([]endpoint, 0, len(m))
		for _, e := range m {
			list = append(list, e)
		}
		slices.SortFunc(list, func(a, b endpoint) int { return a.addr.Compare(b.addr) })
		out[key] = list
	}
	return out
}

// slicePorts returns the usable ports of a slice. The number is always the
// slice's, never the Service's targetPort (B2). A slice names each
// (name, protocol) once; of several the least number counts.
func slicePorts(s *discoveryv1.EndpointSlice, v6 bool, problems *problemList) map[portKey]uint16 {
	ports := map[portKey]uint16{}
	for i, p := range s.Ports {
		at := func(name string) string {
			return field("endpointslices/%s.ports[%d].%s", s.Name, i, name)
		}
		switch {
		case p.Name == nil: // B5
			problems.add(model.ReasonEndpointRefused, at("name"), "missing; the port is skipped")
			continue
		case p.Port == nil: // B6
			problems.add(model.ReasonEndpointRefused, at("port"), "missing; the port is skipped")
			continue
		case *p.Port < 1 || *p.Port > 65535:
			problems.add(model.ReasonEndpointRefused, at("port"), "%d is not in 1-65535; the port is skipped", *p.Port)
			continue
		}
		proto := types.TCP // B7
		if p.Protocol != nil {
			var err error
			if proto, err = types.ParseProtocol(string(*p.Protocol)); err != nil {
				problems.add(model.ReasonEndpointRefused, at("protocol"), "%s; the port is skipped", err)
				continue
			}
		}
		key := portKey{v6, *p.Name, proto}
		if old, twice := ports[key]; !twice || uint16(*p.Port) < old {
			ports[key] = uint16(*p.Port)
		}
	}
	return ports
}

// endpointAddress returns the one address of an endpoint that counts, the
// first (B8), unless no pod can have it (B21).
func endpointAddress(s *discoveryv1.EndpointSlice, i int, v6 bool, problems *problemList) (netip.Addr, bool) {
	e := &s.Endpoints[i]
	if len(e.Addresses) == 0 {
		return netip.Addr{}, false
	}
	refuse := func(why string) (netip.Addr, bool) {
		problems.add(model.ReasonEndpointRefused, field("endpointslices/%s.endpoints[%d].addresses[0]", s.Name, i),
			"%q %s; the endpoint is skipped", e.Addresses[0], why)
		return netip.Addr{}, false
	}
	ip, ok := parseIP(e.Addresses[0])
	switch {
	case !ok:
		return refuse("is not an IP address")
	case ip.Is6() != v6:
		return refuse("is not of the slice's addressType " + string(s.AddressType))
	case ip.IsUnspecified() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || ip.IsMulticast():
		return refuse("is not an address that others can reach")
	}
	return ip, true
}

func readEndpoint(o *discoveryv1.Endpoint, thisNode string) endpoint {
	is := func(p *bool, missing bool) bool {
		if p == nil {
			return missing
		}
		return *p
	}
	e := endpoint{
		ready:       is(o.Conditions.Ready, true),
		serving:     is(o.Conditions.Serving, true),
		terminating: is(o.Conditions.Terminating, false),
	}
	if o.NodeName != nil {
		e.nodeName = *o.NodeName
		e.local = e.nodeName != "" && e.nodeName == thisNode
	}
	if o.Hints != nil {
		for _, z := range o.Hints.ForZones {
			e.zones = append(e.zones, z.Name)
		}
		for _, n := range o.Hints.ForNodes {
			e.nodes = append(e.nodes, n.Name)
		}
	}
	return e
}
