// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"fmt"
	"slices"
	"testing"

	"calico-vpp-services/services/model"
)

// TestRestOfProblemsIsOneProblem: what is not told one by one is one problem,
// which stays the same while pods come and go, and other reasons are not hidden.
func TestRestOfProblemsIsOneProblem(t *testing.T) {
	with := func(n int) []model.Problem {
		var p problemList
		for i := range n {
			p.add(model.ReasonEndpointRefused, fmt.Sprintf("endpoints[%03d]", i), "bad")
			p.add(model.ReasonEndpointRefused, fmt.Sprintf("endpoints[%03d]", i), "bad") // once
		}
		p.add(model.ReasonAnnotationRefused, "zone", "a typo")
		return p.sorted()
	}
	for n, want := range map[int]int{0: 1, 1: 2, maxProblems: maxProblems + 1, maxProblems + 1: maxProblems + 2, 500: maxProblems + 2} {
		if got := with(n); len(got) != want {
			t.Errorf("%d problems make %d, want %d", n, len(got), want)
		}
	}
	if a, b := with(maxProblems+5), with(500); !slices.Equal(a, b) {
		t.Errorf("a pod more is told again:\n%v\n%v", a, b)
	}
	if !slices.IsSortedFunc(with(500), model.Problem.Compare) {
		t.Errorf("not sorted: %v", with(500))
	}
}
