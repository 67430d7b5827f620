// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"calico-vpp-services/services/model"
)

// NoLocal counts Service ports under a traffic policy of Local that have usable
// endpoints, but none on this node (service-semantics.md M6).
type NoLocal struct {
	InternalV4 int `json:"internalV4"`
	InternalV6 int `json:"internalV6"`
	ExternalV4 int `json:"externalV4"`
	ExternalV6 int `json:"externalV6"`
}

// noLocalOf counts the ports of one Service: a port counts once for each policy
// and family, however many addresses it has.
func noLocalOf(claims []*model.Claim) NoLocal {
	type port struct {
		name     string
		proto    uint8
		internal bool
		v6       bool
	}
	seen := map[port]bool{}
	var n NoLocal
	for _, c := range claims {
		if !c.LocalPolicy || c.HasLocal || !c.Served() && c.Unserved != model.Drop {
			continue
		}
		p := port{c.PortName, uint8(c.Entry.Proto), c.Kind == model.KindClusterIP, c.Entry.IP.Is6()}
		if seen[p] {
			continue
		}
		seen[p] = true
		switch {
		case p.internal && p.v6:
			n.InternalV6++
		case p.internal:
			n.InternalV4++
		case p.v6:
			n.ExternalV6++
		default:
			n.ExternalV4++
		}
	}
	return n
}

// count adds, with sign 1, or takes away, with sign -1, what one Service has.
func (n *NoLocal) count(sign int, o NoLocal) {
	n.InternalV4 += sign * o.InternalV4
	n.InternalV6 += sign * o.InternalV6
	n.ExternalV4 += sign * o.ExternalV4
	n.ExternalV6 += sign * o.ExternalV6
}
