// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"slices"

	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink/types"
)

// sets are the backends that a Service port has for its kinds of frontend.
type sets struct {
	// cluster is what may be used anywhere in the cluster, local what is on
	// this node. Each is ready endpoints, or else terminating ones that still
	// serve, never both (C6).
	cluster, local []endpoint
	// any: something usable exists somewhere (E3).
	any bool
}

// categorise sorts the endpoints of one Service port and family into sets. A set
// that no policy asks for is empty.
func categorise(list []endpoint, node *Node, usesCluster, usesLocal bool) sets {
	var s sets
	if usesCluster {
		s.cluster = topology(filter(list, func(e *endpoint) bool { return e.ready }), node)
		if len(s.cluster) == 0 { // C4: all of them, hints play no part (I7)
			s.cluster = filter(list, (*endpoint).fallback)
		}
	}
	if usesLocal { // C5, D9
		s.local = filter(list, func(e *endpoint) bool { return e.local && e.ready })
		if len(s.local) == 0 {
			s.local = filter(list, func(e *endpoint) bool { return e.local && e.fallback() })
		}
	}
	s.any = len(s.cluster) > 0 || (usesLocal && slices.ContainsFunc(list, func(e endpoint) bool {
		return e.ready || e.fallback()
	}))
	return s
}

// topology narrows ready endpoints down by their hints: those for this node,
// else those for its zone, else all. A mode counts only if every ready endpoint
// has such a hint and one names us (I2 to I5), so that nothing is ever lost by it (I10).
func topology(ready []endpoint, node *Node) []endpoint {
	for _, mode := range []struct {
		me    string
		hints func(*endpoint) []string
	}{
		{node.Name, func(e *endpoint) []string { return e.nodes }},
		{node.Zone, func(e *endpoint) []string { return e.zones }},
	} {
		if mode.me == "" {
			continue
		}
		mine := filter(ready, func(e *endpoint) bool { return slices.Contains(mode.hints(e), mode.me) })
		allHinted := !slices.ContainsFunc(ready, func(e endpoint) bool { return len(mode.hints(&e)) == 0 })
		if allHinted && len(mine) > 0 {
			return mine
		}
	}
	return ready
}

func filter(list []endpoint, keep func(*endpoint) bool) []endpoint {
	var out []endpoint
	for i := range list {
		if keep(&list[i]) {
			out = append(out, list[i])
		}
	}
	return out
}

// choice is the backends of one frontend, and why there are none.
type choice struct {
	endpoints []endpoint
	unserved  model.Unserved
}

// choose says what becomes of traffic that only list may serve (E1, E2).
func (s *sets) choose(list []endpoint) choice {
	c := choice{endpoints: list}
	if len(list) == 0 && s.any {
		c.unserved = model.Drop
	}
	return c
}

// backends turns the chosen endpoints into the backends of an entry.
func (c *choice) backends(noNAT bool) []types.Backend {
	if len(c.endpoints) == 0 {
		return nil
	}
	out := make([]types.Backend, len(c.endpoints))
	for i, e := range c.endpoints {
		out[i] = types.Backend{IP: e.addr.Addr(), Port: e.addr.Port(), NoNAT: noNAT}
	}
	return out
}
