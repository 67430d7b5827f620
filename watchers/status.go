// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/sirupsen/logrus"
)

// Status is how a source stands, for readiness and for people.
type Status struct {
	// Synced: the first complete list has been handed over.
	Synced bool
	// Waiting names what the first complete list still lacks.
	Waiting []string
	// Problems has one sentence for each thing that is wrong now, sorted. A
	// source that is synced goes on with what it knows.
	Problems []string
	// Counts has, by a name fit for a metric label, what happened since the
	// start and was survived.
	Counts map[string]uint64
}

// problem is something wrong now. It is logged again only if its class changes:
// texts may hold port numbers and the like that change at each try.
type problem struct{ class, text string }

// board holds the state behind a Status. It may be used from any goroutine.
type board struct {
	log *logrus.Entry

	mu       sync.Mutex
	synced   bool
	waiting  map[string]bool
	problems map[string]problem
	counts   map[string]uint64
}

func newBoard(log *logrus.Entry, waiting ...string) *board {
	b := &board{log: log, waiting: map[string]bool{}, problems: map[string]problem{}, counts: map[string]uint64{}}
	for _, w := range waiting {
		b.waiting[w] = true
	}
	return b
}

// set notes what is wrong with subject, and logs it if that is new.
func (b *board) set(subject string, p problem) (isNew bool) {
	b.mu.Lock()
	old, had := b.problems[subject]
	b.problems[subject] = p
	b.mu.Unlock()
	isNew = !had || old.class != p.class
	if isNew {
		b.log.Warn(p.text)
	}
	return isNew
}

// clear notes that subject is well, and logs it with the given words if it was not.
func (b *board) clear(subject, words string) {
	b.mu.Lock()
	_, had := b.problems[subject]
	delete(b.problems, subject)
	b.mu.Unlock()
	if had {
		b.log.Info(words)
	}
}

// setOwnNode notes whether there is a Node of our name. Nothing else tells the
// author of a slip in that name.
func (b *board) setOwnNode(name string, there bool) {
	const subject = "own node"
	if there {
		b.clear(subject, fmt.Sprintf("there is a Node %q now", name))
		return
	}
	b.set(subject, problem{"missing", NoNode(name)})
}

// NoNode is the sentence about objects among which there is no Node of the given
// name.
func NoNode(name string) string {
	return fmt.Sprintf("there is no Node %q: its addresses and zone are not known, and if the name is wrong, no endpoint counts as local; "+
		"check that the node name is that of this node's Node object", name)
}

// count adds one to a counter and tells whether it was the first.
func (b *board) count(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts[name]++
	return b.counts[name] == 1
}

func (b *board) setSynced() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.synced = true
	clear(b.waiting)
}

func (b *board) status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := Status{Synced: b.synced, Waiting: slices.Sorted(maps.Keys(b.waiting)), Counts: maps.Clone(b.counts)}
	for _, p := range b.problems {
		s.Problems = append(s.Problems, p.text)
	}
	slices.Sort(s.Problems)
	return s
}
