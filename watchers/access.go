// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"fmt"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// access is whether the API server lets us list and watch a resource. It says
// so in one sentence, which stands until the requests succeed.
type access struct {
	*resource
	board *board

	mu       sync.Mutex
	listErr  error
	watchErr error
}

// listed notes the outcome of a list.
func (a *access) listed(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if isExpired(err) {
		return // the list is asked for again, for another version
	}
	a.listErr = err
	if err == nil && a.watchErr != nil {
		return // a watch is tried at once, and will tell
	}
	a.publish()
}

// watched notes the outcome of a request to watch. One that was to give the
// first list as well is followed by a list at once if it fails, so that no
// sentence is needed yet.
func (a *access) watched(err error, givesList bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if isExpired(err) {
		return
	}
	a.watchErr = err
	if err != nil && givesList {
		return
	}
	if givesList {
		a.listErr = nil
	}
	a.publish()
}

// isExpired tells of an error that only means: list again.
func isExpired(err error) bool {
	return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// publish puts the sentence up, or takes it down.
func (a *access) publish() {
	var verbs []string
	err := a.listErr
	if a.listErr != nil {
		verbs = append(verbs, "list")
	}
	// Two verbs make one sentence only if the reason is one.
	if a.watchErr != nil && (err == nil || classOf(err) == classOf(a.watchErr)) {
		verbs = append(verbs, "watch")
		if err == nil {
			err = a.watchErr
		}
	}
	subject := a.name + "." + a.group
	if err == nil {
		a.board.clear(subject, fmt.Sprintf("can list and watch %s again", a.name))
		return
	}
	class := classOf(err)
	a.board.set(subject, problem{
		class: class + " " + strings.Join(verbs, ","),
		text:  fmt.Sprintf("cannot %s resource %q in API group %q: %s", strings.Join(verbs, " and "), a.name, a.group, explain(a.resource, class, verbs, err)),
	})
}

// The classes of errors.
const (
	classForbidden    = "forbidden"
	classUnauthorized = "unauthorized"
	classUnknown      = "unknown resource"
	classAnswer       = "answer"
	classNoAnswer     = "no answer"
)

func classOf(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return classForbidden
	case apierrors.IsUnauthorized(err):
		return classUnauthorized
	case apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
		return classUnknown
	case apierrors.ReasonForError(err) != "":
		return classAnswer
	}
	return classNoAnswer
}

// explain says why, and what helps.
func explain(r *resource, class string, verbs []string, err error) string {
	switch class {
	case classForbidden:
		if len(verbs) > 1 {
			return "the ClusterRole lacks the verbs " + strings.Join(verbs, " and ")
		}
		return "the ClusterRole lacks the verb " + verbs[0]
	case classUnauthorized:
		return fmt.Sprintf("the API server does not accept our credentials (%v): renew the token or the client certificate", err)
	case classUnknown:
		remedy := r.unknown
		if remedy == "" {
			remedy = "check that the address is a Kubernetes API server's"
		}
		return fmt.Sprintf("the API server does not know it (%v): %s", err, remedy)
	case classAnswer:
		return fmt.Sprintf("the API server answers: %v", err)
	}
	return fmt.Sprintf("no answer from the API server: %v", err)
}
