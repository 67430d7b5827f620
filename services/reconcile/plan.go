// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"calico-vpp-services/vpplink/types"
)

// Action is what a step does to the slot of its key.
type Action int

// The actions, in the order in which a plan carries them out: what takes
// something away comes first, so that removals never wait behind additions
// (scenario 82).
const (
	// Delete removes a translation that nobody wants.
	Delete Action = iota
	// Recreate deletes and creates, back to back (vpp-facts F3).
	Recreate
	// Shrink updates a translation and takes backends away.
	Shrink
	// Create makes a new translation.
	Create
	// Grow updates a translation and only adds backends, or re-asserts it.
	Grow
)

// String returns the name of the action.
func (a Action) String() string {
	switch a {
	case Delete:
		return "delete"
	case Recreate:
		return "recreate"
	case Shrink, Grow:
		return "update"
	case Create:
		return "create"
	}
	return fmt.Sprintf("action-%d", int(a))
}

// Step is the change to one key.
type Step struct {
	Action Action
	Key    types.Key
	// ID is VPP's id of the translation, for all but Create.
	ID uint32
	// Entry is what VPP shall hold; nil for Delete.
	Entry *types.CnatTranslateEntry
}

// String prints the step on one line.
func (s *Step) String() string {
	if s.Entry == nil {
		return fmt.Sprintf("%s %s", s.Action, s.Key)
	}
	return fmt.Sprintf("%s %s", s.Action, s.Entry)
}

// Plan is the steps of one round, in order.
type Plan []Step

// String prints one step a line.
func (p Plan) String() string {
	var b strings.Builder
	for i := range p {
		b.WriteString(p[i].String())
		b.WriteByte('\n')
	}
	return b.String()
}

// step says what turns the slot that VPP has for key (nil for none) into want
// (nil for nothing); ok is false when there is nothing to do.
func step(key types.Key, have *slot, want *types.CnatTranslateEntry) (s Step, ok bool) {
	s = Step{Key: key, Entry: want}
	switch {
	case have == nil && want == nil:
		return s, false
	case have == nil:
		s.Action = Create
		return s, true
	case want == nil:
		s.Action, s.ID = Delete, have.id
		return s, true
	}
	s.ID = have.id
	switch have.compare(want) {
	case types.Equal:
		return s, false
	case types.Recreate:
		s.Action = Recreate
	case types.Update:
		s.Action = Grow
		if removesBackends(have.entry.Backends, want.Backends) {
			s.Action = Shrink
		}
	}
	return s, true
}

func removesBackends(have, want []types.Backend) bool {
	for _, b := range have {
		if _, stays := slices.BinarySearchFunc(want, b, types.Backend.Compare); !stays {
			return true
		}
	}
	return false
}

// sort puts the steps in the order of their actions, and of keys inside each.
func (p Plan) sort() {
	slices.SortFunc(p, func(a, b Step) int {
		return cmp.Or(cmp.Compare(a.Action, b.Action), a.Key.Compare(b.Key))
	})
}

// write is one message of a plan and the step that it belongs to.
type write struct {
	types.CnatWrite
	step int
}

// writes lists the messages of the plan in order. A Recreate is a delete and an
// add next to each other, but for those of one address, whose deletes come
// first: the address's first translation decides whether it is real, until its
// last one is gone (vpp-facts C2).
func (p Plan) writes() []write {
	recreates := map[netip.Addr][]int{}
	for i := range p {
		if p[i].Action == Recreate {
			recreates[p[i].Key.IP] = append(recreates[p[i].Key.IP], i)
		}
	}
	var out []write
	for i := range p {
		s := &p[i]
		switch s.Action {
		case Delete:
			out = append(out, write{types.CnatWrite{ID: s.ID}, i})
		case Recreate:
			same := recreates[s.Key.IP]
			delete(recreates, s.Key.IP)
			for _, j := range same {
				out = append(out, write{types.CnatWrite{ID: p[j].ID}, j})
			}
			for _, j := range same {
				out = append(out, write{types.CnatWrite{Entry: p[j].Entry}, j})
			}
		case Shrink, Create, Grow:
			out = append(out, write{types.CnatWrite{Entry: s.Entry}, i})
		}
	}
	return out
}
