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
	"k8s.io/client-go/kubernetes"
)

// Two verbs that are lacking are one sentence, though the API server tells one
// after the other.
func TestSentencesAboutAccess(t *testing.T) {
	no := forbidden("", "services")
	unauthorized := apierrors.NewUnauthorized("token expired")
	refused := func(port int) error {
		return fmt.Errorf("read tcp 192.0.2.1:%d: %w", port, errors.New("connection reset by peer"))
	}
	notFound := func(group, resource string) error {
		return apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{Group: group, Resource: resource}, "", "the server could not find the requested resource", 0, true)
	}
	type step func(*access)
	list := func(err error) step { return func(a *access) { a.listed(err) } }
	watchList := func(err error) step { return func(a *access) { a.watched(err, true) } }
	watch := func(err error) step { return func(a *access) { a.watched(err, false) } }
	for _, tc := range []struct {
		name  string
		of    func(kubernetes.Interface) *resource // services
		steps []step
		want  []string
		logs  int // lines
	}{
		{"well", nil, []step{watchList(nil)}, nil, 0},
		{"well, without streaming lists", nil, []step{list(nil), watch(nil)}, nil, 0},
		{"neither verb", nil, []step{watchList(no), list(no), watchList(no), list(no)},
			[]string{`cannot list and watch resource "services" in API group "": the ClusterRole lacks the verbs list and watch`}, 1},
		{"list was added", nil, []step{watchList(no), list(no), watchList(no), list(nil), watch(no)},
			[]string{`cannot watch resource "services" in API group "": the ClusterRole lacks the verb watch`}, 2},
		{"watch was added", nil, []step{watchList(no), list(no), watchList(nil)}, nil, 2},
		{"both were added", nil, []step{list(no), list(nil), watch(nil)}, nil, 2},
		{"the server does not stream lists", nil, []step{watchList(apierrors.NewBadRequest("sendInitialEvents")), list(nil), watch(nil)}, nil, 0},
		{"two reasons: the first", nil, []step{watchList(unauthorized), list(no)},
			[]string{`cannot list resource "services" in API group "": the ClusterRole lacks the verb list`}, 1},
		{"credentials", nil, []step{list(unauthorized)},
			[]string{`cannot list resource "services" in API group "": the API server does not accept our credentials (token expired): renew the token or the client certificate`}, 1},
		{"old server", nil, []step{list(notFound("", "services"))},
			[]string{`cannot list resource "services" in API group "": the API server does not know it (the server could not find the requested resource (get services)): check that the address is a Kubernetes API server's`}, 1},
		{"before EndpointSlices", sliceResource, []step{list(notFound("discovery.k8s.io", "endpointslices"))},
			[]string{`cannot list resource "endpointslices" in API group "discovery.k8s.io": the API server does not know it (the server could not find the requested resource (get endpointslices.discovery.k8s.io)): wanted Kubernetes 1.21 or later`}, 1},
		{"before ServiceCIDRs, which are optional", serviceCIDRResource, []step{list(notFound("networking.k8s.io", "servicecidrs"))},
			[]string{`cannot list resource "servicecidrs" in API group "networking.k8s.io": the API server does not know it (the server could not find the requested resource (get servicecidrs.networking.k8s.io)): it is left out, as before Kubernetes 1.33; the service CIDRs can be configured instead`}, 1},
		{"lost, with texts that differ", nil, []step{watch(nil), watch(refused(1)), watch(refused(2)), watch(refused(3))},
			[]string{`cannot watch resource "services" in API group "": no answer from the API server: read tcp 192.0.2.1:3: connection reset by peer`}, 1},
		{"expired versions are no trouble", nil, []step{watch(apierrors.NewResourceExpired("old")), list(apierrors.NewResourceExpired("old"))}, nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log, buffer := newLog()
			of := tc.of
			if of == nil {
				of = serviceResource
			}
			a := &access{resource: of(newFakeAPI(t)), board: newBoard(log)}
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
