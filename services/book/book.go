// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package book

import (
	"maps"
	"slices"

	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink/types"
)

// Book holds all claims and the owner of each key. Create it with New.
type Book struct {
	policy Policy
	// cnatEntriesByServiceName has every claim, owning or waiting.
	cnatEntriesByServiceName map[model.ServiceID]map[types.Key]*model.Claim
	// serviceIDByKey has the owner of each claimed key: the service id that is
	// active in VPP.
	serviceIDByKey map[types.Key]model.ServiceID
	// claimsByKey lists the claims of each key, the owner first. It is the
	// index that makes a takeover cost what the key costs, not the book.
	claimsByKey map[types.Key][]*model.Claim
}

// New returns an empty book.
func New(p Policy) *Book {
	return &Book{
		policy:                   p,
		cnatEntriesByServiceName: map[model.ServiceID]map[types.Key]*model.Claim{},
		serviceIDByKey:           map[types.Key]model.ServiceID{},
		claimsByKey:              map[types.Key][]*model.Claim{},
	}
}

// Change says what a Set did to one key.
type Change struct {
	Key types.Key
	// Owner is the service id that has the key now, "" when nobody claims it.
	Owner model.ServiceID
	// Before is the one that had it.
	Before model.ServiceID
}

// Set makes claims all that id claims; none at all takes the service out of
// the book. Each claim must be of id and of a key of its own.
//
// It returns, sorted by key, the keys whose owner or whose owner's entry is
// not what it was. A claim that only waits, before and after, is in no change.
// The book keeps the claims: the caller must not modify them later.
func (b *Book) Set(id model.ServiceID, claims []model.Claim) []Change {
	old := b.cnatEntriesByServiceName[id]
	now := make(map[types.Key]*model.Claim, len(claims))
	for i := range claims {
		c := &claims[i]
		if c.Service != id {
			panic("book: a claim of " + string(c.Service) + " was set for " + string(id))
		}
		if _, twice := now[c.Key()]; twice {
			panic("book: " + string(id) + " claims " + c.Key().String() + " twice")
		}
		now[c.Key()] = c
	}
	var changes []Change
	for key, was := range old {
		if is, stays := now[key]; !stays || !sameClaim(was, is) {
			changes = b.replace(changes, key, was, is)
		} else {
			now[key] = was
		}
	}
	for key, is := range now {
		if _, had := old[key]; !had {
			changes = b.replace(changes, key, nil, is)
		}
	}
	if len(now) == 0 {
		delete(b.cnatEntriesByServiceName, id)
	} else {
		b.cnatEntriesByServiceName[id] = now
	}
	slices.SortFunc(changes, func(x, y Change) int { return x.Key.Compare(y.Key) })
	return changes
}

// replace takes was out of the claims of key, puts is in (each may be nil),
// and appends a change if the owner's entry moved.
func (b *Book) replace(changes []Change, key types.Key, was, is *model.Claim) []Change {
	list := b.claimsByKey[key]
	var before *model.Claim
	if len(list) > 0 {
		before = list[0]
	}
	if was != nil {
		list = slices.DeleteFunc(list, func(c *model.Claim) bool { return c == was })
	}
	if is != nil {
		i, _ := slices.BinarySearchFunc(list, is, b.policy.Compare)
		list = slices.Insert(list, i, is)
	}
	change := Change{Key: key}
	if before != nil {
		change.Before = before.Service
	}
	if len(list) == 0 {
		delete(b.claimsByKey, key)
		delete(b.serviceIDByKey, key)
		return append(changes, change)
	}
	b.claimsByKey[key] = list
	b.serviceIDByKey[key] = list[0].Service
	if list[0] == before {
		return changes
	}
	change.Owner = list[0].Service
	return append(changes, change)
}

// sameClaim tells whether two claims of one service id on one key are alike in
// all that the book or VPP looks at.
func sameClaim(a, b *model.Claim) bool {
	return a.Kind == b.Kind && a.UID == b.UID && a.Created.Equal(b.Created) &&
		a.Unserved == b.Unserved && a.PortName == b.PortName &&
		a.LocalPolicy == b.LocalPolicy && a.HasLocal == b.HasLocal &&
		a.Entry.Compare(&b.Entry) == types.Equal
}

// Owner returns the claim that has key, or nil.
func (b *Book) Owner(key types.Key) *model.Claim {
	if list := b.claimsByKey[key]; len(list) > 0 {
		return list[0]
	}
	return nil
}

// Waiting returns the service ids that claim key and do not have it, the next
// owner first.
func (b *Book) Waiting(key types.Key) []model.ServiceID {
	list := b.claimsByKey[key]
	if len(list) < 2 {
		return nil
	}
	out := make([]model.ServiceID, 0, len(list)-1)
	for _, c := range list[1:] {
		out = append(out, c.Service)
	}
	return out
}

// Wanted returns the entry that VPP should hold for key: the owner's, if it has
// backends. Otherwise VPP should hold nothing for it.
func (b *Book) Wanted(key types.Key) (*types.CnatTranslateEntry, bool) {
	if c := b.Owner(key); c != nil && c.Served() {
		return &c.Entry, true
	}
	return nil, false
}

// Keys returns every claimed key, sorted.
func (b *Book) Keys() []types.Key {
	return slices.SortedFunc(maps.Keys(b.serviceIDByKey), types.Key.Compare)
}

// Services returns every service id that claims something, sorted.
func (b *Book) Services() []model.ServiceID {
	return slices.Sorted(maps.Keys(b.cnatEntriesByServiceName))
}

// Claims returns what id claims, sorted by key.
func (b *Book) Claims(id model.ServiceID) []*model.Claim {
	return slices.SortedFunc(maps.Values(b.cnatEntriesByServiceName[id]), func(x, y *model.Claim) int {
		return x.Key().Compare(y.Key())
	})
}

// Len returns the number of claimed keys.
func (b *Book) Len() int { return len(b.serviceIDByKey) }
