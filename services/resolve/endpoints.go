// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"cmp"
	"net/netip"

	discoveryv1 "k8s.io/api/discovery/v1"

	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink/types"
)

// endpoint is one ip:port behind a Service port, reduced to what decides about
// its use on this node.
type endpoint struct {
	addr                        netip.AddrPort
	ready, serving, terminating bool
	// local: it is on this node.
	local            bool
	forNode, forZone hint
}

// readEndpoint reads everything but the address. Missing conditions are read as
// the API means them: ready, serving, not terminating (C2); without nodeName,
// or when this node's name is unknown, an endpoint is not local (B9). The
// Service's publishNotReadyAddresses plays no part: the controller has put it
// into ready (C3).
func readEndpoint(o *discoveryv1.Endpoint, node *Node) endpoint {
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
		local:       o.NodeName != nil && node.Name != "" && *o.NodeName == node.Name,
	}
	e.forNode, e.forZone = readHints(o.Hints, node)
	return e
}

// isFallback tells whether e may be used when no endpoint is ready: it
// terminates and still serves (C4).
func (e *endpoint) isFallback() bool { return !e.ready && e.serving && e.terminating }

// prefer orders copies of one ip:port that disagree, the one to believe first.
// One that does not terminate comes first: a pod that is new at the address
// (B13). The API leaves open what else counts; the rest of the order only makes
// the choice independent of the order of slices.
func prefer(a, b *endpoint) int {
	last := func(v bool) int {
		if v {
			return 1
		}
		return 0
	}
	return cmp.Or(
		cmp.Compare(last(a.terminating), last(b.terminating)),
		cmp.Compare(last(!a.ready), last(!b.ready)),
		cmp.Compare(last(!a.serving), last(!b.serving)),
		cmp.Compare(last(!a.local), last(!b.local)),
		cmp.Compare(b.forNode, a.forNode),
		cmp.Compare(b.forZone, a.forZone),
	)
}

// sets are what a Service port has to send to in one family. Both are sorted, so that
// an unchanged set gives an unchanged program and maglev tables agree between
// nodes (B15). Several claims may share one: nobody writes to it.
type sets struct {
	// cluster is the ready endpoints that hints leave, or all that terminate and
	// serve when none is ready (C4). It is empty only if nothing usable exists
	// anywhere: hints never empty it (I10), and E3 counts the same endpoints.
	cluster []types.Backend
	// local is the same of this node alone, without hints (C5, D9).
	local []types.Backend
}

// categorise makes the sets of a Service port from its endpoints, which are
// sorted and have each ip:port once. Ready and terminating ones are never mixed
// (C6).
func categorise(list []endpoint) sets {
	isReady := func(e *endpoint) bool { return e.ready }
	topologyOK := byTopology(list)
	backends := func(keep func(*endpoint) bool, of func(*endpoint) bool) (out []types.Backend) {
		for i := range list {
			if e := &list[i]; keep(e) && of(e) {
				out = append(out, types.Backend{IP: e.addr.Addr(), Port: e.addr.Port()})
			}
		}
		return out
	}
	anywhere := func(*endpoint) bool { return true }
	here := func(e *endpoint) bool { return e.local }
	s := sets{cluster: backends(isReady, topologyOK), local: backends(isReady, here)}
	if len(s.cluster) == 0 {
		s.cluster = backends((*endpoint).isFallback, anywhere) // I7: without hints
	}
	if len(s.local) == 0 {
		s.local = backends((*endpoint).isFallback, here)
	}
	return s
}

// choice is what one frontend of a Service port gets.
type choice struct {
	backends []types.Backend
	// unserved is why there are no backends.
	unserved model.Unserved
	// localPolicy and hasLocal are those of the claim.
	localPolicy, hasLocal bool
}

// choose returns the set of a frontend under a Cluster or a Local policy. With nothing to
// send to, a client is refused at once, unless other nodes have what it looks
// for: then it should time out here and try one of those (D3, D5, E1, E2).
func (s *sets) choose(local bool) choice {
	if !local {
		return choice{backends: s.cluster}
	}
	c := choice{backends: s.local, localPolicy: true, hasLocal: len(s.local) > 0}
	if !c.hasLocal && len(s.cluster) > 0 { // there is something on other nodes
		c.unserved = model.Drop
	}
	return c
}

// chooseOrCluster is choose for externalIPs and load balancer IPs, which cnat
// can give but one set for all clients (design.md 9). Without local endpoints that
// is the cluster set: pods and the host are entitled to it (D6, D7), and the
// health port steers outsiders away (J2), as will a withdrawn route (G16).
func (s *sets) chooseOrCluster(local bool) choice {
	c := s.choose(local)
	if len(c.backends) == 0 {
		c.backends, c.unserved = s.cluster, model.Reject
	}
	return c
}
