// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package book

import (
	"cmp"
	"fmt"

	"calico-vpp-services/services/model"
)

// Policy chooses between claims of one rank.
type Policy string

// The policies.
const (
	// Latest gives the key to the Service that was created last (the default).
	Latest Policy = "latest"
	// Oldest gives it to the Service that was created first.
	Oldest Policy = "oldest"
)

// ParsePolicy reads a policy from configuration; empty is Latest.
func ParsePolicy(s string) (Policy, error) {
	switch Policy(s) {
	case "", Latest:
		return Latest, nil
	case Oldest:
		return Oldest, nil
	}
	return "", fmt.Errorf("ownership policy %q: accepted values are latest, oldest", s)
}

// Compare orders two claims on one key: negative when a comes before b and so
// would own the key. It is a total order over claims with different service
// ids: rank of the kind, creation time by the policy, service id, UID
// (design.md 4). Whether a claim has backends plays no part.
func (p Policy) Compare(a, b *model.Claim) int {
	created := a.Created.Compare(b.Created)
	if p != Oldest {
		created = -created
	}
	return cmp.Or(
		cmp.Compare(a.Kind.Rank(), b.Kind.Rank()),
		created,
		cmp.Compare(a.Service, b.Service),
		cmp.Compare(a.UID, b.UID),
	)
}
