// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"time"

	"calico-vpp-services/vpplink/types"
)

// ServiceID names who claims keys: "namespace/name" for a Service,
// "pod:namespace/name" for the hostPorts of a pod.
type ServiceID string

// ServiceIDOf returns the id of a Service.
func ServiceIDOf(namespace, name string) ServiceID {
	return ServiceID(namespace + "/" + name)
}

// Kind is the field of an object that a claim comes from.
type Kind uint8

// The kinds, in order of rank.
const (
	KindClusterIP Kind = iota
	KindNodePort
	KindLoadBalancer
	KindExternalIP
	KindHostPort
)

// String returns the name used in tables and JSON.
func (k Kind) String() string {
	switch k {
	case KindClusterIP:
		return "ClusterIP"
	case KindNodePort:
		return "NodePort"
	case KindLoadBalancer:
		return "LoadBalancer"
	case KindExternalIP:
		return "ExternalIP"
	case KindHostPort:
		return "HostPort"
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// Rank orders kinds for ownership, the lowest first (design.md 4). Addresses
// that the API server hands out uniquely come before those that somebody typed
// into a Service (CVE-2020-8554); load balancer and external IPs are equals.
func (k Kind) Rank() int {
	switch k {
	case KindClusterIP:
		return 0
	case KindNodePort:
		return 1
	case KindLoadBalancer, KindExternalIP:
		return 2
	case KindHostPort:
		return 3
	}
	return 4
}

// Unserved says why a claim has no backends, and so what a client of the key
// should see (service-semantics.md E1, E2).
type Unserved uint8

// The reasons. They are only meaningful where the entry has no backends.
const (
	// Reject: nothing usable exists anywhere in the cluster; a connect should
	// be refused at once.
	Reject Unserved = iota
	// Drop: a Local policy excludes the usable endpoints, which exist
	// elsewhere; outsiders should time out and try another node.
	Drop
)

// String returns the word used in tables.
func (u Unserved) String() string {
	if u == Drop {
		return "drop"
	}
	return "reject"
}

// Claim says that a service id wants a key with this entry. Claims of one
// service id on one key are merged by resolve, so (Service, Entry.Key()) is
// unique.
type Claim struct {
	Service ServiceID
	// UID and Created are those of the object; they break ties between
	// claims of one rank (design.md 4).
	UID     string
	Created time.Time
	Kind    Kind
	// Entry is normalized. Without backends the key is claimed but unserved,
	// and its owner keeps it: readiness must not move ownership to and fro.
	Entry types.CnatTranslateEntry
	// Unserved is why the entry has no backends.
	Unserved Unserved
	// PortName is the name of the Service port, for people.
	PortName string
	// LocalPolicy says that the traffic policy that the key is under is Local:
	// the internal one for a ClusterIP, the external one for the others.
	// HasLocal says that usable endpoints are on this node; it is set
	// only under a Local policy. They decide where a route to the address
	// may be announced from (service-semantics.md G16), and can change while the
	// entry stays as it is.
	LocalPolicy, HasLocal bool
}

// Key returns the slot that is claimed.
func (c *Claim) Key() types.Key { return c.Entry.Key() }

// Served tells whether there is something to send to.
func (c *Claim) Served() bool { return len(c.Entry.Backends) > 0 }
