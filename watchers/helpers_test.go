// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"
	tomb "gopkg.in/tomb.v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"calico-vpp-services/services/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink is a receiver with a state, as the services server is one.
type sink struct {
	mu      sync.Mutex
	objects map[objectKey]metav1.Object
	// story has one line for each event: "+Service default/web", "-...",
	// "synced kubernetes".
	story []string
	sends int
	// hold, when not nil, is waited for in Send.
	hold chan struct{}
}

func newSink() *sink { return &sink{objects: map[objectKey]metav1.Object{}} }

func (s *sink) Send(ctx context.Context, events ...model.Event) error {
	s.mu.Lock()
	hold := s.hold
	s.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sends++
	for _, e := range events {
		switch e.Op {
		case model.Upsert:
			s.objects[keyOf(e.Object)] = e.Object
			s.story = append(s.story, "+"+keyOf(e.Object).String())
		case model.Delete:
			delete(s.objects, keyOf(e.Object))
			s.story = append(s.story, "-"+keyOf(e.Object).String())
		case model.Synced:
			s.story = append(s.story, "synced "+e.Source)
		}
	}
	return ctx.Err()
}

// holding returns the names of what the receiver has, sorted.
func (s *sink) holding() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for k := range s.objects {
		names = append(names, k.String())
	}
	slices.Sort(names)
	return names
}

func (s *sink) get(kind, namespace, name string) metav1.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[objectKey{kind, namespace, name}]
}

func (s *sink) events() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.story)
}

// snapshot returns what the receiver has.
func (s *sink) snapshot() map[objectKey]metav1.Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.objects)
}

// logBuffer catches log lines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// count returns how often words are in the log.
func (l *logBuffer) count(words string) int { return strings.Count(l.String(), words) }

func newLog() (*logrus.Entry, *logBuffer) {
	b := &logBuffer{}
	l := logrus.New()
	l.SetOutput(b)
	l.SetFormatter(&logrus.TextFormatter{DisableTimestamp: true, DisableQuote: true})
	return logrus.NewEntry(l), b
}

// eventually waits until ok, for at most the given time.
func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %s: %s", within, what)
		}
	}
}

// eventuallyHas waits until the receiver has exactly the named objects.
func eventuallyHas(t *testing.T, s *sink, want ...string) {
	t.Helper()
	slices.Sort(want)
	end := time.Now().Add(10 * time.Second)
	for !slices.Equal(s.holding(), want) {
		if time.Now().After(end) {
			t.Fatalf("the receiver has %q, wanted %q", s.holding(), want)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// serve runs a source until the test ends, and checks that it ends well.
func serve(t *testing.T, run func(*tomb.Tomb) error) (stop func()) {
	t.Helper()
	tb := &tomb.Tomb{}
	tb.Go(func() error { return run(tb) })
	var once sync.Once
	stop = func() {
		once.Do(func() {
			tb.Kill(nil)
			select {
			case <-tb.Dead():
				if err := tb.Err(); err != nil {
					t.Errorf("Serve: %v", err)
				}
			case <-time.After(10 * time.Second):
				t.Error("Serve does not end")
			}
		})
	}
	t.Cleanup(stop)
	return stop
}

// service is a manifest of a Service.
func service(name, clusterIP string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %s}
spec:
  clusterIP: %s
  ports: [{port: 80}]
`, name, clusterIP)
}
