// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"net/netip"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink/types"
)

// portKey ties a slice port to a Service port of one family: by name and
// protocol, and nothing else (B1).
type portKey struct {
	v6    bool
	name  string
	proto types.Protocol
}

// endpoints are the endpoints of a Service by port, each ip:port once, sorted.
type endpoints map[portKey][]endpoint

// readSlices merges all slices of the Service (B11). Who manages a slice plays
// no part (B19, B20).
func (r *resolver) readSlices(families []family) endpoints {
	out := endpoints{}
	for _, s := range r.in.Slices {
		if s == nil || !r.belongs(s) {
			continue
		}
		v6 := s.AddressType == discoveryv1.AddressTypeIPv6
		if !v6 && s.AddressType != discoveryv1.AddressTypeIPv4 {
			continue // B10
		}
		if !slices.ContainsFunc(families, func(f family) bool { return f.v6 == v6 }) {
			continue // A5
		}
		ports := r.slicePorts(s, v6)
		if len(ports) == 0 {
			continue
		}
		for i := range s.Endpoints {
			o := &s.Endpoints[i]
			ip, ok := r.endpointAddress(s, o, v6)
			if !ok {
				continue
			}
			e := readEndpoint(o, &r.in.Node)
			for _, p := range ports {
				e.addr = netip.AddrPortFrom(ip, p.number)
				out[p.portKey] = append(out[p.portKey], e)
			}
		}
	}
	for key, list := range out {
		out[key] = oneEach(list)
	}
	return out
}

// belongs tells whether a slice feeds the Service. A slice without the label
// feeds none (B16); one that was labelled anew feeds only the new one (B18);
// one labelled headless feeds no VIP (A4).
func (r *resolver) belongs(s *discoveryv1.EndpointSlice) bool {
	name, svc := s.Labels[discoveryv1.LabelServiceName], r.in.Service
	return name != "" && name == svc.Name && s.Namespace == svc.Namespace && r.selection().Selects(s)
}

// oneEach sorts endpoints by ip:port and leaves one of each: the same one in two
// slices, as while it moves between them, is one backend (B12).
func oneEach(list []endpoint) []endpoint {
	slices.SortFunc(list, func(a, b endpoint) int {
		if c := a.addr.Compare(b.addr); c != 0 {
			return c
		}
		return prefer(&a, &b)
	})
	return slices.CompactFunc(list, func(a, b endpoint) bool { return a.addr == b.addr })
}

// slicePort is a usable port of a slice.
type slicePort struct {
	portKey
	number uint16
}

// slicePorts returns the usable ports of a slice. The number is always the
// slice's own: the Service's targetPort is for controllers (B2, B3).
func (r *resolver) slicePorts(s *discoveryv1.EndpointSlice, v6 bool) []slicePort {
	var out []slicePort
	for i := range s.Ports {
		p := &s.Ports[i]
		refuse := func(sub, format string, args ...any) {
			r.problems.add(model.ReasonEndpointRefused, "EndpointSlice/"+s.Name+" "+fieldAt("ports", i, sub),
				format+"; the port is skipped", args...)
		}
		if p.Name == nil { // B5
			refuse("name", `missing; wanted the name of the Service's port, "" if it has none`)
			continue
		}
		if p.Port == nil { // B6
			refuse("port", "missing; wanted a number in 1-65535")
			continue
		}
		if *p.Port < 1 || *p.Port > 65535 { // B6
			refuse("port", "%d is not in 1-65535", *p.Port)
			continue
		}
		proto := types.TCP // B7
		if p.Protocol != nil {
			var err error
			if proto, err = types.ParseProtocol(string(*p.Protocol)); err != nil {
				refuse("protocol", "%s", err)
				continue
			}
		}
		out = append(out, slicePort{portKey{v6, *p.Name, proto}, uint16(*p.Port)})
	}
	return out
}

// endpointAddress returns the address of an endpoint that counts, the first
// (B8), unless it is none that a pod can be reached at (B21). The Problem does
// not say which endpoint of the slice it is: the index changes with every pod
// that comes or goes.
func (r *resolver) endpointAddress(s *discoveryv1.EndpointSlice, o *discoveryv1.Endpoint, v6 bool) (netip.Addr, bool) {
	refuse := func(format string, args ...any) (netip.Addr, bool) {
		r.problems.add(model.ReasonEndpointRefused, "EndpointSlice/"+s.Name+" endpoints",
			format+"; the endpoint is skipped", args...)
		return netip.Addr{}, false
	}
	if len(o.Addresses) == 0 {
		return refuse("an endpoint without address")
	}
	text := o.Addresses[0]
	ip, ok := parseIP(text)
	if !ok {
		return refuse("address %s is not an IP address", quote(text))
	}
	if ip.Is4() && strings.Contains(text, ":") {
		return refuse("address %s is IPv4 written as IPv6; wanted %s in a slice of addressType IPv4", quote(text), ip)
	}
	if ip.Is6() != v6 {
		return refuse("address %s is not of the slice's addressType, %s", ip, s.AddressType)
	}
	if why := Special(ip); why != "" {
		return refuse("address %s is %s", ip, why)
	}
	return ip, true
}
