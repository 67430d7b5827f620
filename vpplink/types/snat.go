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

var snatPolicyNames = [...]string{"none", "if-pfx", "k8s", "dnat"}

// Known tells whether VPP has such a policy.
func (p SnatPolicy) Known() bool { return int(p) < len(snatPolicyNames) }

// String returns the name of the policy.
func (p SnatPolicy) String() string {
	if p.Known() {
		return snatPolicyNames[p]
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

var snatTableNames = [...]string{"include-v4", "include-v6", "pod", "host"}

// Known tells whether VPP has such a table.
func (t SnatTable) Known() bool { return int(t) < len(snatTableNames) }

// String returns the name of the table.
func (t SnatTable) String() string {
	if t.Known() {
		return snatTableNames[t]
	}
	return fmt.Sprintf("table-%d", uint8(t))
}
