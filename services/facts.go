// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"github.com/sirupsen/logrus"

	"calico-vpp-services/services/model"
)

// SourceFelix is the source of what Felix tells. Felix has it from the objects
// that the other sources read themselves.
const SourceFelix = "felix"

// facts is what each source says of each subject.
//
// The one rule for whose word counts: the word on a whole subject is one
// source's, the first by rank of those that know the subject. What others say of
// it is kept, shown, and counts when that source no longer knows. To mix the
// words of two sources would be to follow whichever is behind.
type facts map[model.Subject]map[string]*model.Facts

// compareSources orders sources by rank: who reads the objects comes before
// Felix, which hands on what it read, later.
func compareSources(a, b string) int {
	rank := func(source string) int {
		if source == SourceFelix {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
}

// set keeps what source says, and tells whether that is something new.
func (fs facts) set(source string, f *model.Facts) bool {
	f.Normalize()
	if fs[f.Subject] == nil {
		fs[f.Subject] = map[string]*model.Facts{}
	}
	if old := fs[f.Subject][source]; old != nil && reflect.DeepEqual(old, f) {
		return false
	}
	fs[f.Subject][source] = f
	return true
}

// sources returns who spoke of subject, by rank.
func (fs facts) sources(subject model.Subject) []string {
	return slices.SortedFunc(maps.Keys(fs[subject]), compareSources)
}

// of returns what counts of subject, and whose word it is; nothing, and "", while nobody knows.
func (fs facts) of(subject model.Subject) (*model.Facts, string) {
	for _, source := range fs.sources(subject) {
		if f := fs[subject][source]; !f.Unknown {
			return f, source
		}
	}
	return &model.Facts{Subject: subject}, ""
}

// setFacts takes up what a source says.
func (s *Server) setFacts(source string, f *model.Facts) {
	before, _ := s.facts.of(f.Subject)
	if !s.facts.set(source, f) {
		return
	}
	now, whose := s.facts.of(f.Subject)
	if now == before || reflect.DeepEqual(now, before) {
		return
	}
	s.log.WithFields(logrus.Fields{"subject": f.Subject, "source": whose}).Info("settings of the network: " + now.String())
	s.factsChanged(f.Subject)
}

// factsChanged has what depends on a subject brought up to date by the next round.
func (s *Server) factsChanged(subject model.Subject) {
	switch subject {
	case model.SubjectPools, model.SubjectHosts, model.SubjectFelix:
		s.prepared = false
	case model.SubjectBGP:
	}
}
