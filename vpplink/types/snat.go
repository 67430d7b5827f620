// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package types

import "fmt"

// SnatPolicy is cnat's choice of what to translate the source of, by VPP's
// number on 26.06.
type SnatPolicy uint8

// The policies of cnat.
const (
	SnatNone SnatPolicy = 0
	// SnatIfPfx goes by interface and prefix lists.
	SnatIfPfx SnatPolicy = 1
	// SnatK8s translates the source unless a pod interface is involved; a pod
	// that reaches itself is translated (vpp-facts C4).
	SnatK8s  SnatPolicy = 2
	SnatDNAT SnatPolicy = 3
)

// Known tells whether VPP has such a policy.
func (p SnatPolicy) Known() bool { return p <= SnatDNAT }

// String returns the name of the policy.
func (p SnatPolicy) String() string {
	switch p {
	case SnatNone:
		return "none"
	case SnatIfPfx:
		return "if-pfx"
	case SnatK8s:
		return "k8s"
	case SnatDNAT:
		return "dnat"
	}
	return fmt.Sprintf("policy-%d", uint8(p))
}

// SnatTable is a list of interfaces that a SNAT policy looks at.
type SnatTable uint8

// The tables of cnat.
const (
	SnatIncludeV4 SnatTable = 0
	SnatIncludeV6 SnatTable = 1
	SnatPod       SnatTable = 2
	SnatHost      SnatTable = 3
)

// Known tells whether VPP has such a table.
func (t SnatTable) Known() bool { return t <= SnatHost }

// String returns the name of the table.
func (t SnatTable) String() string {
	switch t {
	case SnatIncludeV4:
		return "include-v4"
	case SnatIncludeV6:
		return "include-v6"
	case SnatPod:
		return "pod"
	case SnatHost:
		return "host"
	}
	return fmt.Sprintf("table-%d", uint8(t))
}
