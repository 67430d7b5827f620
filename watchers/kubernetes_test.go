// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"calico-vpp-services/services/resolve"
)

// long is enough for client-go's back-off.
const long = 20 * time.Second

// watching is a Kubernetes on a fake API server.
type watching struct {
	*Kubernetes
	api  *fakeAPI
	sink *sink
	log  *logBuffer
	stop func()
}

func startKubernetes(t *testing.T, api *fakeAPI, s resolve.Selection) *watching {
	t.Helper()
	return startWithSink(t, api, s, newSink())
}

func startWithSink(t *testing.T, api *fakeAPI, s resolve.Selection, sink *sink) *watching {
	t.Helper()
	log, buffer := newLog()
	k, err := NewKubernetes(KubernetesConfig{Client: api, NodeName: "node-a", Selection: s}, sink, log)
	if err != nil {
		t.Fatal(err)
	}
	w := &watching{Kubernetes: k, api: api, sink: sink, log: buffer}
	w.stop = serve(t, k.Serve)
	return w
}

func (w *watching) untilSynced(t *testing.T) *watching {
	t.Helper()
	eventually(t, long, "synced and watching", func() bool { return w.Status().Synced && w.api.watching() })
	return w
}

func TestFirstListsThenSyncedThenChanges(t *testing.T) {
	api := newFakeAPI(t, svc("web"), svc("api"), slice("web-1"), node("node-a"), node("node-b"))
	w := startKubernetes(t, api, resolve.Selection{}).untilSynced(t)
	events := w.sink.events()
	slices.Sort(events[:len(events)-1])
	want := []string{"+EndpointSlice default/web-1", "+Node node-a", "+Service default/api", "+Service default/web", "synced kubernetes"}
	if !slices.Equal(events, want) {
		t.Errorf("events: %q, wanted %q", events, want)
	}
	if s := w.Status(); len(s.Waiting) > 0 || len(s.Problems) > 0 {
		t.Errorf("status: %+v", s)
	}
	for key, obj := range w.sink.snapshot() {
		if obj.GetManagedFields() != nil {
			t.Errorf("%s has managedFields", key)
		}
	}
	api.put(svc("blue"))
	api.put(slice("blue-1"))
	api.remove(svc("web"))
	eventuallyHas(t, w.sink, "EndpointSlice default/blue-1", "EndpointSlice default/web-1", "Node node-a", "Service default/api", "Service default/blue")
	if w.log.count("level=warning") > 0 {
		t.Errorf("nothing here is worth a warning:\n%s", w.log)
	}
}

// A3, A4: what is not ours is not listed, and labels come and go.
func TestLabels(t *testing.T) {
	foreign := func(name string) func(*corev1.Service) {
		return func(s *corev1.Service) { s.Labels = map[string]string{resolve.LabelServiceProxyName: name} }
	}
	headless := func(s *discoveryv1.EndpointSlice) { s.Labels[corev1.IsHeadlessService] = "" }
	for _, tc := range []struct {
		selection   resolve.Selection
		first, then []string
	}{
		{resolve.Selection{}, []string{"Node node-a", "Service default/plain", "EndpointSlice default/s1"}, []string{"Node node-a", "Service default/vpp", "EndpointSlice default/s2"}},
		{resolve.Selection{ProxyName: "vpp"}, []string{"Node node-a", "Service default/vpp", "EndpointSlice default/s1"}, []string{"Node node-a", "Service default/plain", "EndpointSlice default/s2"}},
	} {
		api := newFakeAPI(t, svc("plain"), svc("vpp", foreign("vpp")), svc("other", foreign("other")), svc("empty", foreign("")),
			slice("s1"), slice("s2", headless), node("node-a"))
		w := startKubernetes(t, api, tc.selection).untilSynced(t)
		eventuallyHas(t, w.sink, tc.first...)
		api.put(svc("plain", foreign("vpp")))
		api.put(svc("vpp"))
		api.put(slice("s1", headless))
		api.put(slice("s2", func(s *discoveryv1.EndpointSlice) { s.Labels[resolve.LabelServiceProxyName] = "other" })) // counts on Services only
		eventuallyHas(t, w.sink, tc.then...)
		w.stop()
	}
}

// Scenario 30: a full cache is not a receiver that has everything.
func TestSyncedOnlyAfterTheReceiverHasEverything(t *testing.T) {
	api := newFakeAPI(t, node("node-a"))
	want := []string{"Node node-a"}
	for i := range 200 {
		api.put(svc(fmt.Sprintf("s%d", i)))
		api.put(slice(fmt.Sprintf("e%d", i)))
		want = append(want, fmt.Sprintf("Service default/s%d", i), fmt.Sprintf("EndpointSlice default/e%d", i))
	}
	s := newSink()
	release := make(chan struct{})
	s.hold = release
	w := startWithSink(t, api, resolve.Selection{}, s)
	eventually(t, long, "caches full", func() bool {
		return w.informers[0].HasSynced() && w.informers[1].HasSynced() && w.informers[2].HasSynced()
	})
	if st := w.Status(); st.Synced || len(st.Waiting) != 3 {
		t.Errorf("status with nothing handed over: %+v", st)
	}
	if e := s.events(); len(e) > 0 {
		t.Fatalf("events: %q", e)
	}
	close(release)
	w.untilSynced(t)
	eventuallyHas(t, s, want...)
	if e := s.events(); len(e) != 402 || e[401] != "synced kubernetes" {
		t.Errorf("%d events, the last one %q", len(e), e[len(e)-1])
	}
}

func TestSyncedWaitsForEachKind(t *testing.T) {
	t.Parallel()
	api := newFakeAPI(t, svc("web"), slice("web-1"), node("node-a"))
	api.refuse(apierrors.NewServiceUnavailable("etcd is away"), "list endpointslices")
	w := startKubernetes(t, api, resolve.Selection{})
	eventuallyHas(t, w.sink, "Node node-a", "Service default/web")
	eventually(t, long, "a problem", func() bool { return len(w.Status().Problems) == 1 })
	st := w.Status()
	if st.Synced || !slices.Equal(st.Waiting, []string{"endpointslices"}) ||
		st.Problems[0] != `cannot list resource "endpointslices" in API group "discovery.k8s.io": the API server answers: etcd is away` {
		t.Errorf("status: %+v", st)
	}
	api.refuse(nil, "list endpointslices")
	w.untilSynced(t)
	if e := w.sink.events(); e[len(e)-1] != "synced kubernetes" || len(e) != 4 {
		t.Errorf("events: %q", e)
	}
	if len(w.Status().Problems) > 0 || w.log.count("can list and watch endpointslices again") != 1 {
		t.Errorf("the problem stands: %+v\n%s", w.Status(), w.log)
	}
}

// Scenario 88: an old ClusterRole.
func TestForbidden(t *testing.T) {
	for _, tc := range []struct {
		name     string
		requests []string
		want     string
		synced   bool
	}{
		{"no verb", []string{"list endpointslices", "watch endpointslices"}, `cannot list resource "endpointslices" in API group "discovery.k8s.io": the ClusterRole lacks the verb list`, false},
		{"list without watch", []string{"watch endpointslices"}, `cannot watch resource "endpointslices" in API group "discovery.k8s.io": the ClusterRole lacks the verb watch`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			api := newFakeAPI(t, svc("web"), slice("web-1"), node("node-a"))
			api.refuse(forbidden("discovery.k8s.io", "endpointslices"), tc.requests...)
			w := startKubernetes(t, api, resolve.Selection{})
			eventually(t, long, "a problem", func() bool { return len(w.Status().Problems) > 0 })
			// It stays one sentence, logged once, through retries.
			eventually(t, long, "a retry", func() bool { return api.called("list endpointslices") >= 2 && w.Status().Synced == tc.synced })
			if got := w.Status().Problems; !slices.Equal(got, []string{tc.want}) {
				t.Errorf("problems: %q, wanted %q", got, tc.want)
			}
			if w.log.count("level=warning") != 1 || w.log.count(tc.want) != 1 {
				t.Errorf("log:\n%s", w.log)
			}
			api.refuse(nil, tc.requests...)
			w.untilSynced(t)
			eventually(t, long, "no problem", func() bool { return len(w.Status().Problems) == 0 })
			api.put(slice("web-2"))
			eventuallyHas(t, w.sink, "EndpointSlice default/web-1", "EndpointSlice default/web-2", "Node node-a", "Service default/web")
		})
	}
}

// Scenarios 19 and 21: objects go while no watch is there.
func TestDeletedWhileTheWatchWasBroken(t *testing.T) {
	t.Parallel()
	api := newFakeAPI(t, svc("web"), svc("api"), slice("web-1"), node("node-a"))
	w := startKubernetes(t, api, resolve.Selection{}).untilSynced(t)
	away := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	api.refuse(away, "list services", "list endpointslices", "list nodes", "watch services", "watch endpointslices", "watch nodes")
	api.breakWatches()
	eventually(t, long, "three problems", func() bool { return len(w.Status().Problems) == 3 })
	if p := w.Status().Problems[1]; p != `cannot list resource "nodes" in API group "": no answer from the API server: dial tcp: connection refused` {
		t.Errorf("problem: %s", p)
	}
	api.remove(svc("web"))
	api.remove(slice("web-1"))
	api.put(svc("api", func(s *corev1.Service) { s.Spec.ClusterIP = "10.96.0.7" }))
	api.put(slice("api-1"))
	if got := w.sink.holding(); len(got) != 4 {
		t.Errorf("while the API server is away, there is %q", got)
	}
	before := len(w.sink.events())
	api.refuse(nil, "list services", "list endpointslices", "list nodes", "watch services", "watch endpointslices", "watch nodes")
	eventuallyHas(t, w.sink, "EndpointSlice default/api-1", "Node node-a", "Service default/api")
	eventually(t, long, "no problem", func() bool { return len(w.Status().Problems) == 0 && api.watching() })
	got := w.sink.events()[before:]
	slices.Sort(got)
	// The Node did not change, so nobody hears of it.
	want := []string{"+EndpointSlice default/api-1", "+Service default/api", "-EndpointSlice default/web-1", "-Service default/web"}
	if !slices.Equal(got, want) {
		t.Errorf("events: %q, wanted %q", got, want)
	}
	if n := w.Status().Counts["tombstone"]; n != 2 {
		t.Errorf("%d tombstones counted", n)
	}
	if ip := w.sink.get("Service", "default", "api").(*corev1.Service).Spec.ClusterIP; ip != "10.96.0.7" {
		t.Errorf("api has %s", ip)
	}
}

// Scenario 19: the kinds of tombstones.
func TestK2Tombstones(t *testing.T) {
	stale := svc("web", func(s *corev1.Service) { s.Spec.ClusterIP = "10.96.0.99" })
	for _, tc := range []struct {
		name string
		gone any
		want []string
		wrong,
		tombstones uint64
	}{
		{name: "object", gone: svc("web")},
		{name: "tombstone", gone: cache.DeletedFinalStateUnknown{Key: "default/web", Obj: svc("web")}, tombstones: 1},
		{name: "pointer to a tombstone", gone: &cache.DeletedFinalStateUnknown{Key: "default/web", Obj: svc("web")}, tombstones: 1},
		{name: "stale object", gone: cache.DeletedFinalStateUnknown{Key: "default/web", Obj: stale}, tombstones: 1},
		{name: "object of another name", gone: cache.DeletedFinalStateUnknown{Key: "default/web", Obj: svc("api")}, tombstones: 1},
		{name: "wrong type", gone: cache.DeletedFinalStateUnknown{Key: "default/web", Obj: node("web")}, wrong: 1, tombstones: 1},
		{name: "no object", gone: cache.DeletedFinalStateUnknown{Key: "default/web"}, wrong: 1, tombstones: 1},
		{name: "nil pointer inside", gone: cache.DeletedFinalStateUnknown{Key: "default/web", Obj: (*corev1.Service)(nil)}, wrong: 1, tombstones: 1},
		{name: "bad key, good object", gone: cache.DeletedFinalStateUnknown{Key: "a/b/c", Obj: svc("web")}, tombstones: 1},
		{name: "bad key, no object", gone: cache.DeletedFinalStateUnknown{Key: "a/b/c"}, want: []string{"Service default/web"}, wrong: 1, tombstones: 1},
		{name: "no key", gone: cache.DeletedFinalStateUnknown{Obj: svc("web")}},
		{name: "wrong type without tombstone", gone: "web", want: []string{"Service default/web"}, wrong: 1},
		{name: "nil", gone: nil, want: []string{"Service default/web"}, wrong: 1},
		{name: "nil pointer", gone: (*corev1.Service)(nil), want: []string{"Service default/web"}, wrong: 1},
		{name: "nil pointer to a tombstone", gone: (*cache.DeletedFinalStateUnknown)(nil), want: []string{"Service default/web"}, wrong: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSink()
			log, buffer := newLog()
			k, err := NewKubernetes(KubernetesConfig{Client: newFakeAPI(t), NodeName: "node-a"}, s, log)
			if err != nil {
				t.Fatal(err)
			}
			k.ctx = t.Context()
			h := &handler{k, serviceResource(newFakeAPI(t))}
			h.OnAdd(svc("web"), false)
			h.OnDelete(tc.gone)
			h.OnDelete(tc.gone)
			if got := s.holding(); !slices.Equal(got, tc.want) {
				t.Errorf("there is %q, wanted %q", got, tc.want)
			}
			c := k.Status().Counts
			if c["wrong_type"] != 2*tc.wrong || c["tombstone"] != 2*tc.tombstones || buffer.count("told once") != int(tc.wrong) {
				t.Errorf("counts %v, log:\n%s", c, buffer)
			}
			h.OnAdd("web", false)
			h.OnUpdate(nil, (*corev1.Service)(nil))
			h.OnUpdate("web", svc("web"))
		})
	}
}

// Scenario 37: what a watch may bring.
func TestOddWatchEvents(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old").Status()
	for _, tc := range []struct {
		name  string
		odd   func(w *fakeWatch)
		count string
	}{
		{"closed", func(w *fakeWatch) { w.Stop() }, "watch_closed"},
		{"error", func(w *fakeWatch) { w.Error(&expired) }, "watch_error"},
		{"error without an object", func(w *fakeWatch) { w.Error(nil) }, "watch_error"},
		{"error with a nil status", func(w *fakeWatch) { w.Error((*metav1.Status)(nil)) }, "watch_error"},
		{"error with another object", func(w *fakeWatch) { w.Error(node("x")) }, "watch_error"},
		{"bookmark", func(w *fakeWatch) {
			w.Action(watch.Bookmark, &corev1.Service{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "5"}})
		}, ""},
		{"bookmark without an object", func(w *fakeWatch) { w.Action(watch.Bookmark, nil) }, "watch_wrong_object"},
		{"no object", func(w *fakeWatch) { w.Add(nil) }, "watch_wrong_object"},
		{"nil pointer", func(w *fakeWatch) { w.Modify((*corev1.Service)(nil)) }, "watch_wrong_object"},
		{"another kind", func(w *fakeWatch) { w.Delete(node("web")) }, "watch_wrong_object"},
		{"unknown type", func(w *fakeWatch) { w.Action("PATCHED", svc("web")) }, ""},
		{"deleted, of something unknown", func(w *fakeWatch) { w.Delete(svc("nobody")) }, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			api := newFakeAPI(t, svc("web"), node("node-a"))
			w := startKubernetes(t, api, resolve.Selection{}).untilSynced(t)
			tc.odd(api.open()["Service"])
			if tc.count != "" {
				eventually(t, long, "counted", func() bool { return w.Status().Counts[tc.count] > 0 })
			}
			// It goes on, with or without a new list.
			eventually(t, long, "watching", api.watching)
			api.put(svc("later"))
			eventuallyHas(t, w.sink, "Node node-a", "Service default/later", "Service default/web")
			w.stop()
		})
	}
}

func TestOwnNodeIsMissing(t *testing.T) {
	api := newFakeAPI(t, node("node-b"))
	w := startKubernetes(t, api, resolve.Selection{}).untilSynced(t)
	if p := w.Status().Problems; len(p) != 1 || !strings.HasPrefix(p[0], `there is no Node "node-a": its addresses and zone are not known`) {
		t.Errorf("problems: %q", p)
	}
	api.put(node("node-a"))
	eventually(t, long, "no problem", func() bool { return len(w.Status().Problems) == 0 })
	api.remove(node("node-a"))
	eventually(t, long, "a problem", func() bool { return len(w.Status().Problems) == 1 })
	eventuallyHas(t, w.sink)
}

func TestKubernetesConfig(t *testing.T) {
	log, _ := newLog()
	for want, cfg := range map[string]KubernetesConfig{
		"no client":        {NodeName: "node-a"},
		"no node name":     {Client: newFakeAPI(t)},
		`proxy name "a b"`: {Client: newFakeAPI(t), NodeName: "node-a", Selection: resolve.Selection{ProxyName: "a b"}},
	} {
		if _, err := NewKubernetes(cfg, newSink(), log); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, wanted %s", err, want)
		}
	}
}
