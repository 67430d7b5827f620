// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"calico-vpp-services/services/resolve"
)

// recording is a Record on a fake API server.
type recording struct {
	logBuffer // what is recorded
	log       *logBuffer
	done      chan error
	cancel    context.CancelFunc
	flushes   int
}

// Flush implements what Record looks for.
func (r *recording) Flush() error {
	r.flushes++
	return nil
}

func startRecord(t *testing.T, api *fakeAPI) *recording {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	log, buffer := newLog()
	r := &recording{log: buffer, done: make(chan error, 1), cancel: cancel}
	go func() { r.done <- Record(ctx, api, r, log) }()
	t.Cleanup(cancel)
	return r
}

func (r *recording) end(t *testing.T) error {
	t.Helper()
	r.cancel()
	select {
	case err := <-r.done:
		return err
	case <-time.After(long):
		t.Fatal("Record does not end")
		return nil
	}
}

func TestRecordAndReplay(t *testing.T) {
	t.Parallel()
	api := newFakeAPI(t, svc("web"), svc("gone"), slice("web-1"), node("node-a"), node("node-b"), serviceCIDR("kubernetes", "10.96.0.0/16"),
		svc("other", func(s *corev1.Service) { s.Labels = map[string]string{resolve.LabelServiceProxyName: "other"} }))
	r := startRecord(t, api)
	eventually(t, long, "recording", func() bool {
		return r.log.count("recording what changes") == 1 && api.watching() && api.open()["ServiceCIDR"] != nil
	})
	api.put(svc("web", func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"198.51.100.1"} }))
	eventually(t, long, "the change", func() bool { return r.count("\n") == 8 })
	api.remove(slice("web-1"))
	eventually(t, long, "the deletion", func() bool { return r.count("\n") == 9 })
	api.put(serviceCIDR("more", "10.97.0.0/16", "fd00:97::/108"))
	eventually(t, long, "a ServiceCIDR", func() bool { return r.count("\n") == 10 })
	// What happens while the watch is broken is recorded as a difference.
	api.refuse(errors.New("away"), "list services", "watch services")
	api.open()["Service"].Stop()
	eventually(t, long, "a problem", func() bool { return r.log.count("cannot list") == 1 })
	api.remove(svc("gone"))
	api.put(svc("api"))
	api.refuse(nil, "list services", "watch services")
	eventually(t, long, "the difference", func() bool { return r.count("\n") == 12 })
	if err := r.end(t); err != nil {
		t.Fatal(err)
	}

	text := r.String()
	if strings.Contains(text, "managedFields") || strings.Count(text, `"apiVersion":"`) != 12 || r.flushes != 12 {
		t.Errorf("%d flushes; recorded:\n%s", r.flushes, text)
	}
	var types []string
	for line := range strings.Lines(text) {
		types = append(types, line[:20])
	}
	slices.Sort(types)
	if got := strings.Join(types, ""); strings.Count(got, "ADDED") != 9 || strings.Count(got, "MODIFIED") != 1 || strings.Count(got, "DELETED") != 2 {
		t.Errorf("types: %q", types)
	}

	s, errs, warnings := replay(t, Replay{}, text)
	compareLines(t, "errors", errs, nil)
	compareLines(t, "warnings", warnings, nil)
	if got, want := s.holding(), []string{"Node node-a", "Node node-b", "Service default/api", "Service default/web", "ServiceCIDR kubernetes", "ServiceCIDR more"}; !slices.Equal(got, want) {
		t.Errorf("replayed: %q, wanted %q", got, want)
	}
	for key, got := range s.snapshot() {
		want := api.objects[key]
		want.SetManagedFields(nil)
		setType(want, typeOf(want))
		if !equality.Semantic.DeepEqual(got, want) {
			t.Errorf("%s:\nreplayed %+v\nwanted   %+v", key, got, want)
		}
	}
}

// The real recording, applied to an API server, recorded, and replayed, ends
// where it ends itself.
func TestRecordTheRealRecording(t *testing.T) {
	t.Parallel()
	data := readTestdata(t)
	want, errs, _ := replay(t, Replay{}, data)
	compareLines(t, "errors", errs, nil)

	api := newFakeAPI(t)
	r := startRecord(t, api)
	eventually(t, long, "recording", func() bool { return r.log.count("recording what changes") == 1 && api.watching() })
	lines := 0
	p := Replay{Name: "r", Selection: resolve.Selection{}}
	for rec, err := range p.Events(strings.NewReader(data)) {
		if err != nil {
			t.Fatal(err)
		}
		o := rec.Event.Object.(object)
		switch rec.Type {
		case "DELETED":
			api.remove(o)
		default:
			api.put(o)
		}
		lines++
		eventually(t, long, "the line", func() bool { return r.count("\n") == lines })
	}
	if err := r.end(t); err != nil {
		t.Fatal(err)
	}
	got, errs, warnings := replay(t, Replay{}, r.String())
	compareLines(t, "errors", errs, nil)
	compareLines(t, "warnings", warnings, nil)
	if !slices.Equal(got.events(), want.events()) {
		t.Errorf("events: %q\nwanted %q", got.events(), want.events())
	}
	for key, w := range want.snapshot() {
		g := got.snapshot()[key]
		if g == nil {
			continue // told above
		}
		w.SetResourceVersion(g.GetResourceVersion()) // the fake has its own
		if !equality.Semantic.DeepEqual(g, w) {
			t.Errorf("%s:\ngot    %+v\nwanted %+v", key, g, w)
		}
	}
}

func TestRecordThatFails(t *testing.T) {
	t.Parallel()
	api := newFakeAPI(t, svc("web"))
	api.refuse(forbidden("", "nodes"), "list nodes")
	r := startRecord(t, api)
	eventually(t, long, "forbidden", func() bool { return r.log.count("cannot list") == 1 && r.count("\n") == 1 })
	err := r.end(t)
	// The lists that are empty may or may not be there by now.
	err = errors.New(strings.NewReplacer("endpointslices, ", "", ", servicecidrs", "").Replace(fmt.Sprint(err)))
	if want := `record: ended before the first complete list of nodes; cannot list resource "nodes" in API group "": the ClusterRole lacks the verb list`; err.Error() != want {
		t.Errorf("got %v, wanted %s", err, want)
	}

	full := &brokenWriter{after: 2, err: errors.New("no space left on device")}
	log, _ := newLog()
	err = Record(t.Context(), newFakeAPI(t, svc("a"), svc("b"), svc("c"), svc("d")), full, log)
	if err == nil || err.Error() != "record: no space left on device" {
		t.Errorf("got %v", err)
	}
	// A buffered writer fails when it is flushed.
	full = &brokenWriter{err: io.ErrClosedPipe}
	err = Record(t.Context(), newFakeAPI(t, svc("a")), bufio.NewWriter(full), log)
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}

// An API server that does not know ServiceCIDRs, or keeps them from us, is recorded
// all the same.
func TestRecordWithoutServiceCIDRs(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"not there": apierrors.NewNotFound(schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}, ""),
		"forbidden": forbidden("networking.k8s.io", "servicecidrs"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := newFakeAPI(t, svc("web"), node("node-a"), serviceCIDR("kubernetes", "10.96.0.0/16"))
			api.refuse(err, "list servicecidrs", "watch servicecidrs")
			r := startRecord(t, api)
			eventually(t, long, "recording", func() bool { return r.log.count("recording what changes") == 1 })
			if r.log.count("servicecidrs") == 0 {
				t.Errorf("nothing says that they are left out:\n%s", r.log)
			}
			if err := r.end(t); err != nil || r.count("\n") != 2 {
				t.Errorf("%v; recorded:\n%s", err, r)
			}
		})
	}
}

// brokenWriter fails after some writes.
type brokenWriter struct {
	mu    sync.Mutex
	after int
	err   error
	bytes.Buffer
}

func (b *brokenWriter) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.after--; b.after < 0 {
		return 0, b.err
	}
	return b.Buffer.Write(p)
}
