// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Two verbs that are lacking are one sentence, though the API server tells one
// after the other.
func TestSentencesAboutAccess(t *testing.T) {
	no := forbidden("", "services")
	unauthorized := apierrors.NewUnauthorized("token expired")
	refused := func(port int) error {
		return fmt.Errorf("read tcp 192.0.2.1:%d: %w", port, errors.New("connection reset by peer"))
	}
	type step func(*access)
	list := func(err error) step { return func(a *access) { a.listed(err) } }
	watchList := func(err error) step { return func(a *access) { a.watched(err, true) } }
	watch := func(err error) step { return func(a *access) { a.watched(err, false) } }
	for _, tc := range []struct {
		name  string
		steps []step
		want  []string
		logs  int // lines
	}{
		{"well", []step{watchList(nil)}, nil, 0},
		{"well, without streaming lists", []step{list(nil), watch(nil)}, nil, 0},
		{"neither verb", []step{watchList(no), list(no), watchList(no), list(no)},
			[]string{`cannot list and watch resource "services" in API group "": the ClusterRole lacks the verbs list and watch`}, 1},
		{"list was added", []step{watchList(no), list(no), watchList(no), list(nil), watch(no)},
			[]string{`cannot watch resource "services" in API group "": the ClusterRole lacks the verb watch`}, 2},
		{"watch was added", []step{watchList(no), list(no), watchList(nil)}, nil, 2},
		{"both were added", []step{list(no), list(nil), watch(nil)}, nil, 2},
		{"the server does not stream lists", []step{watchList(apierrors.NewBadRequest("sendInitialEvents")), list(nil), watch(nil)}, nil, 0},
		{"two reasons: the first", []step{watchList(unauthorized), list(no)},
			[]string{`cannot list resource "services" in API group "": the ClusterRole lacks the verb list`}, 1},
		{"credentials", []step{list(unauthorized)},
			[]string{`cannot list resource "services" in API group "": the API server does not accept our credentials (token expired): renew the token or the client certificate`}, 1},
		{"old server", []step{list(apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Resource: "services"}, "", "the server could not find the requested resource", 0, true))},
			[]string{`cannot list resource "services" in API group "": the API server does not know it (the server could not find the requested resource (get services))`}, 1},
		{"lost, with texts that differ", []step{watch(nil), watch(refused(1)), watch(refused(2)), watch(refused(3))},
			[]string{`cannot watch resource "services" in API group "": no answer from the API server: read tcp 192.0.2.1:3: connection reset by peer`}, 1},
		{"expired versions are no trouble", []step{watch(apierrors.NewResourceExpired("old")), list(apierrors.NewResourceExpired("old"))}, nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log, buffer := newLog()
			a := &access{resource: serviceResource(newFakeAPI(t)), board: newBoard(log)}
			for _, s := range tc.steps {
				s(a)
			}
			if got := a.board.status().Problems; !slices.Equal(got, tc.want) {
				t.Errorf("problems: %q, wanted %q", got, tc.want)
			}
			if got := buffer.count("\n"); got != tc.logs {
				t.Errorf("%d lines, wanted %d:\n%s", got, tc.logs, buffer)
			}
		})
	}
}
