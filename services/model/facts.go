// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Subject is what Facts are about. Sources may speak of the same one: Felix has
// what it tells from the objects that the Calico watcher reads too.
type Subject string

// The subjects.
const (
	// SubjectPools: Calico's IP pools.
	SubjectPools Subject = "pools"
	// SubjectHosts: the nodes of the cluster and their addresses.
	SubjectHosts Subject = "hosts"
	// SubjectBGP: the default BGPConfiguration, as far as it concerns Services.
	SubjectBGP Subject = "bgp"
	// SubjectFelix: the configuration of Felix, as far as it concerns us.
	SubjectFelix Subject = "felix"
)

// Subjects returns all subjects, sorted.
func Subjects() []Subject {
	return []Subject{SubjectBGP, SubjectFelix, SubjectHosts, SubjectPools}
}

// Facts is all that one source knows of one subject, as it is now: what an
// earlier Facts of the same source and subject said and this one does not is no
// longer so. Only the field of the subject is read.
type Facts struct {
	Subject Subject
	// Unknown: the source cannot tell, for its resource is not installed or may
	// not be read. What another source says counts then. A source that has only
	// lost its connection sends nothing: what it said last stays.
	Unknown bool

	Pools []Pool
	Hosts []Host
	BGP   BGP
	Felix FelixSettings
}

// Pool is an IP pool: addresses of pods.
type Pool struct {
	// CIDR names it: pools do not overlap. It has no host bits.
	CIDR netip.Prefix `json:"cidr"`
	// NATOutgoing: what leaves the pool for anything that is not in a pool gets
	// the node's address.
	NATOutgoing bool `json:"natOutgoing"`
	// Disabled: no new addresses are taken from it; pods may still have some.
	Disabled bool `json:"disabled"`
}

// Host is a node of the cluster with the address of each family that Calico
// knows it by; an invalid one is none.
type Host struct {
	Name string     `json:"name"`
	IPv4 netip.Addr `json:"ipv4"`
	IPv6 netip.Addr `json:"ipv6"`
}

// BGP is what shall be announced of Services: prefixes without host bits.
type BGP struct {
	ServiceClusterIPs      []netip.Prefix `json:"serviceClusterIPs"`
	ServiceExternalIPs     []netip.Prefix `json:"serviceExternalIPs"`
	ServiceLoadBalancerIPs []netip.Prefix `json:"serviceLoadBalancerIPs"`
}

// FelixSettings are settings of Felix that concern us; an empty text is not set.
type FelixSettings struct {
	// LogSeverity is logSeverityScreen: Debug, Info, Warning, Error, Fatal.
	LogSeverity string `json:"logSeverity,omitempty"`
	// ServiceLoopPrevention is Drop, Reject or Disabled: what becomes of packets
	// to a service address that nothing serves.
	ServiceLoopPrevention string `json:"serviceLoopPrevention,omitempty"`
	// NATOutgoingAddress is the address that takes the node's place in
	// natOutgoing; invalid when not set.
	NATOutgoingAddress netip.Addr `json:"natOutgoingAddress"`
}

// Normalize sorts f and drops repetitions, so that the same facts in another order
// are equal. Of pools with one CIDR and of hosts with one name the last counts.
func (f *Facts) Normalize() {
	f.Pools = sortedBy(f.Pools, func(a, b Pool) int { return a.CIDR.Compare(b.CIDR) })
	f.Hosts = sortedBy(f.Hosts, func(a, b Host) int { return cmp.Compare(a.Name, b.Name) })
	for _, list := range []*[]netip.Prefix{&f.BGP.ServiceClusterIPs, &f.BGP.ServiceExternalIPs, &f.BGP.ServiceLoadBalancerIPs} {
		*list = sortedBy(*list, netip.Prefix.Compare)
	}
}

// sortedBy returns the sorted items, of equal ones the last; nil for none.
func sortedBy[T any](items []T, compare func(a, b T) int) []T {
	out := slices.Clone(items)
	slices.Reverse(out)
	slices.SortStableFunc(out, compare)
	out = slices.CompactFunc(out, func(a, b T) bool { return compare(a, b) == 0 })
	if len(out) == 0 {
		return nil
	}
	return out
}

// Empty tells whether f says nothing.
func (f *Facts) Empty() bool {
	b := &f.BGP
	return len(f.Pools) == 0 && len(f.Hosts) == 0 && f.Felix == FelixSettings{} &&
		len(b.ServiceClusterIPs) == 0 && len(b.ServiceExternalIPs) == 0 && len(b.ServiceLoadBalancerIPs) == 0
}

// String prints the facts on one line.
func (f *Facts) String() string {
	if f.Unknown {
		return "unknown"
	}
	var words []string
	switch f.Subject {
	case SubjectPools:
		for _, p := range f.Pools {
			word := p.CIDR.String()
			if p.NATOutgoing {
				word += "(natOutgoing)"
			}
			if p.Disabled {
				word += "(disabled)"
			}
			words = append(words, word)
		}
	case SubjectHosts:
		for _, h := range f.Hosts {
			word := h.Name
			for _, a := range []netip.Addr{h.IPv4, h.IPv6} {
				if a.IsValid() {
					word += " " + a.String()
				}
			}
			words = append(words, word)
		}
	case SubjectBGP:
		words = appendSetting(words, "serviceClusterIPs", f.BGP.ServiceClusterIPs)
		words = appendSetting(words, "serviceExternalIPs", f.BGP.ServiceExternalIPs)
		words = appendSetting(words, "serviceLoadBalancerIPs", f.BGP.ServiceLoadBalancerIPs)
	case SubjectFelix:
		if f.Felix.LogSeverity != "" {
			words = append(words, "logSeverity="+f.Felix.LogSeverity)
		}
		if f.Felix.ServiceLoopPrevention != "" {
			words = append(words, "serviceLoopPrevention="+f.Felix.ServiceLoopPrevention)
		}
		if f.Felix.NATOutgoingAddress.IsValid() {
			words = append(words, "natOutgoingAddress="+f.Felix.NATOutgoingAddress.String())
		}
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ", ")
}

func appendSetting(words []string, name string, prefixes []netip.Prefix) []string {
	if len(prefixes) == 0 {
		return words
	}
	return append(words, fmt.Sprintf("%s=%v", name, prefixes))
}
