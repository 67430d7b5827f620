// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	discoveryv1 "k8s.io/api/discovery/v1"
)

// hint is what an endpoint's topology hints of one sort say to this node.
type hint uint8

const (
	// hintNone: the endpoint has no hint of the sort.
	hintNone hint = iota
	// hintOthers: it has, and none of them names this node (or its zone).
	hintOthers
	// hintUs: one of them does (I6: membership).
	hintUs
)

// readHints reduces the hints of an endpoint to what they say to this node. The
// hints decide, not the Service's trafficDistribution or annotation: those are
// the controller's to read (I1).
func readHints(h *discoveryv1.EndpointHints, node *Node) (forNode, forZone hint) {
	if h == nil {
		return hintNone, hintNone
	}
	for i := range h.ForNodes {
		forNode = max(forNode, hintTo(node.Name, h.ForNodes[i].Name))
	}
	for i := range h.ForZones {
		forZone = max(forZone, hintTo(node.Zone, h.ForZones[i].Name))
	}
	return forNode, forZone
}

// hintTo reads one hint. A node that has no name or zone is never meant (I4).
func hintTo(us, name string) hint {
	if us != "" && name == us {
		return hintUs
	}
	return hintOthers
}

// byTopology returns which of the endpoints the hints let this node use: those for the
// node itself, else those for its zone, else all. A sort of hint counts only
// if every ready endpoint has one and at least one names us (I2, I3, I4), so
// that hints never empty a set (I10). Endpoints that are not ready neither
// block nor satisfy (I5). PreferSameNode needs nothing more: its endpoints carry
// both sorts (I9).
func byTopology(list []endpoint) func(*endpoint) bool {
	for _, sort := range []func(*endpoint) hint{
		func(e *endpoint) hint { return e.forNode },
		func(e *endpoint) hint { return e.forZone },
	} {
		all, some := true, false
		for i := range list {
			if e := &list[i]; e.ready {
				all = all && sort(e) != hintNone
				some = some || sort(e) == hintUs
			}
		}
		if all && some {
			return func(e *endpoint) bool { return sort(e) == hintUs }
		}
	}
	return func(*endpoint) bool { return true }
}
