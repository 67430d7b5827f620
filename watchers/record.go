// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Record writes what happens in the cluster to w until ctx ends, for Replay: all
// Services, EndpointSlices, Nodes and ServiceCIDRs, also those that are not ours,
// one watch event a line, in order of arrival, without managedFields. No Secrets,
// nor anything else, is read. If w has a Flush method, it is called after each
// line. An API server that has no ServiceCIDRs, or keeps them from us, is recorded
// without them.
//
// A watch that breaks is taken up again; what was missed meanwhile is recorded as
// the difference. Record returns nil when ctx ends, and an error if w fails or
// the first complete list of some kind was never seen, which is then named.
func Record(ctx context.Context, client kubernetes.Interface, w io.Writer, log *logrus.Entry) error {
	ctx, cancel := context.WithCancelCause(withLogger(ctx, log))
	defer cancel(nil)
	b := newBoard(log)
	out := &recorder{w: w, board: b, fail: cancel}
	var informers []*informer
	for _, r := range []*resource{serviceResource(client), sliceResource(client), nodeResource(client), serviceCIDRResource(client)} {
		i, err := newInformer(client, r, b, true, &recordHandler{out, r})
		if err != nil {
			return fmt.Errorf("record: %s: %w", r.name, err)
		}
		informers = append(informers, i)
	}
	var running sync.WaitGroup
	for _, i := range informers {
		running.Go(func() { i.run(ctx) })
	}
	defer running.Wait()

	var missing []string
	for _, i := range informers {
		select {
		case <-i.handled.Done():
		case <-i.refused: // and known to be optional
		case <-ctx.Done():
			if !cache.IsDone(i.handled) && !i.wasRefused() {
				missing = append(missing, i.name)
			}
		}
	}
	if len(missing) == 0 {
		log.WithField("lines", out.count()).Info("recorded what there is; recording what changes")
		<-ctx.Done()
	}
	if failed := (*writeError)(nil); errors.As(context.Cause(ctx), &failed) {
		return fmt.Errorf("record: %w", failed.err)
	}
	if len(missing) > 0 {
		problems := append([]string{"ended before the first complete list of " + strings.Join(missing, ", ")}, b.status().Problems...)
		return fmt.Errorf("record: %s", strings.Join(problems, "; "))
	}
	return nil
}

// writeError ends a recording.
type writeError struct{ err error }

func (w *writeError) Error() string { return w.err.Error() }

// recorder writes lines.
type recorder struct {
	board *board
	fail  context.CancelCauseFunc

	mu    sync.Mutex
	w     io.Writer
	lines int
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines
}

func (r *recorder) write(event watch.EventType, obj metav1.Object) {
	if obj == nil {
		return
	}
	line, err := json.Marshal(struct {
		Type   watch.EventType `json:"type"`
		Object metav1.Object   `json:"object"`
	}{event, obj})
	if err != nil {
		r.board.log.WithError(err).Warnf("%s cannot be recorded", keyOf(obj))
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err = r.w.Write(append(line, '\n')); err == nil {
		if f, ok := r.w.(interface{ Flush() error }); ok {
			err = f.Flush()
		}
	}
	if err != nil {
		r.fail(&writeError{err})
		return
	}
	r.lines++
}

// recordHandler passes on what an informer tells of one resource.
type recordHandler struct {
	out *recorder
	*resource
}

// OnAdd implements cache.ResourceEventHandler.
func (h *recordHandler) OnAdd(obj any, _ bool) {
	h.out.write(watch.Added, objectOf(obj, h.resource, h.out.board))
}

// OnUpdate implements cache.ResourceEventHandler.
func (h *recordHandler) OnUpdate(old, obj any) {
	if n := objectOf(obj, h.resource, h.out.board); n != nil && !isSameVersion(old, n) {
		h.out.write(watch.Modified, n)
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (h *recordHandler) OnDelete(obj any) {
	h.out.write(watch.Deleted, deletedOf(obj, h.resource, h.out.board))
}
