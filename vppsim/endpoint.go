// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"net/netip"

	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/interface_types"
	"go.fd.io/govpp/binapi/ip_types"
)

// endpoint is an address or the first address of an interface, with a port.
type endpoint struct {
	addr     netip.Addr
	port     uint16
	swIf     uint32 // invalidIndex if given by address
	v6       bool
	resolved bool
}

// asAsked is the endpoint as a request would name it: VPP's comparison of
// endpoints ignores whether they are resolved.
func (e endpoint) asAsked() endpoint {
	e.resolved = false
	return e
}

// decodeEndpoint reads an endpoint. One whose interface index is not ^0 is
// "the first address of that interface", whatever its address says: a client
// that leaves the index at 0 gets local0, and a path that never gets active.
func (in *instance) decodeEndpoint(e cnat.CnatEndpoint) (endpoint, int32) {
	out := endpoint{port: e.Port, swIf: uint32(e.SwIfIndex)}
	if out.swIf == invalidIndex {
		out.addr = goAddress(e.Addr)
		out.v6 = out.addr.Is6()
		return out, 0
	}
	if e.IfAf != ip_types.ADDRESS_IP4 && e.IfAf != ip_types.ADDRESS_IP6 {
		return out, errInvalidAddrFamily
	}
	out.v6 = e.IfAf == ip_types.ADDRESS_IP6
	return out, 0
}

func (in *instance) resolve(e *endpoint) {
	if e.swIf == invalidIndex {
		e.resolved = true
	} else if a, ok := in.firstAddress(e.swIf, e.v6); ok {
		e.addr, e.resolved = a, true
	}
}

func encodeEndpoint(e endpoint) cnat.CnatEndpoint {
	out := cnat.CnatEndpoint{SwIfIndex: interface_types.InterfaceIndex(e.swIf), Port: e.port}
	if e.v6 {
		out.IfAf = ip_types.ADDRESS_IP6
	}
	if e.resolved {
		out.Addr = apiAddress(e.addr)
	}
	return out
}
