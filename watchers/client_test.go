// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// writeKubeconfig returns the path of a kubeconfig for a server.
func writeKubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "` + server + `"}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestClientset(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("clusters: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"":                                     "kubernetes client: not in a pod (KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set): give a kubeconfig",
		"/nonexistent/kubeconfig":              "kubeconfig: stat /nonexistent/kubeconfig: no such file or directory: give the path",
		broken:                                 "kubeconfig " + broken + ": ",
		writeKubeconfig(t, "http://host:port"): "kubernetes client for http://host:port: ",
	} {
		if _, err := NewClientset(path); err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: got %v, wanted %s", path, err, want)
		}
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	if _, err := os.Stat("/var/run/secrets/kubernetes.io"); err == nil {
		return // in a pod, after all
	}
	if _, err := NewClientset(""); err == nil || !strings.Contains(err.Error(), "no service account token") {
		t.Errorf("in a pod without a token: %v", err)
	}
}

// With a real client there are real requests: lists come by streams, where the
// server lets us.
func TestRequestsOfARealClient(t *testing.T) {
	var mu sync.Mutex
	requests := map[string]string{} // path to the query of its last request
	var agent, accept string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		requests[r.URL.Path] = r.URL.Query().Get("labelSelector") + r.URL.Query().Get("fieldSelector")
		agent, accept = r.UserAgent(), r.Header.Get("Accept")
		mu.Unlock()
		status := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no")).Status()
		status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(status)
	}))
	defer server.Close()

	client, err := NewClientset(writeKubeconfig(t, server.URL))
	if err != nil {
		t.Fatal(err)
	}
	log, buffer := newLog()
	k, err := NewKubernetes(KubernetesConfig{Client: client, NodeName: "node-a"}, newSink(), log)
	if err != nil {
		t.Fatal(err)
	}
	stop := serve(t, k.Serve)
	eventually(t, long, "three problems", func() bool { return len(k.Status().Problems) == 3 })
	want := []string{
		`cannot list and watch resource "endpointslices" in API group "discovery.k8s.io": the ClusterRole lacks the verbs list and watch`,
		`cannot list and watch resource "nodes" in API group "": the ClusterRole lacks the verbs list and watch`,
		`cannot list and watch resource "services" in API group "": the ClusterRole lacks the verbs list and watch`,
	}
	if got := k.Status().Problems; !slices.Equal(got, want) {
		t.Errorf("problems: %q", got)
	}
	if n := buffer.count("level=warning"); n != 3 {
		t.Errorf("%d warnings:\n%s", n, buffer)
	}
	stop()
	mu.Lock()
	defer mu.Unlock()
	for path, want := range map[string]string{
		"/api/v1/services":                         "!service.kubernetes.io/service-proxy-name",
		"/apis/discovery.k8s.io/v1/endpointslices": "!service.kubernetes.io/headless",
		"/api/v1/nodes":                            "metadata.name=node-a",
	} {
		if requests[path] != want {
			t.Errorf("%s: selector %q, wanted %q", path, requests[path], want)
		}
	}
	if !strings.HasPrefix(agent, "calico-vpp-services ") || !strings.HasPrefix(accept, "application/vnd.kubernetes.protobuf") {
		t.Errorf("user agent %q, accept %q", agent, accept)
	}
}

// streamer is an API server that gives the first list as a stream, and then the
// events of more.
type streamer struct {
	mu sync.Mutex
	// first and more are watch events by the path of the resource.
	first, more map[string][]string
	// lists counts requests that are not watches.
	lists int
}

func (s *streamer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	first, more := s.first[r.URL.Path], s.more[r.URL.Path]
	s.mu.Unlock()
	if r.URL.Query().Get("sendInitialEvents") != "true" {
		s.mu.Lock()
		s.lists++
		s.mu.Unlock()
		http.Error(w, "wanted a stream", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	for _, line := range append(first, more...) {
		_, _ = w.Write([]byte(line + "\n"))
	}
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	<-r.Context().Done()
}

func TestStreamedLists(t *testing.T) {
	end := func(apiVersion, kind string) string {
		return `{"type":"BOOKMARK","object":{"apiVersion":"` + apiVersion + `","kind":"` + kind + `","metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}`
	}
	const services, endpointSlices, nodes = "/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices", "/api/v1/nodes"
	api := &streamer{
		first: map[string][]string{
			services:       {strings.Replace(addWeb, `"web"`, `"web","namespace":"default"`, 1), end("v1", "Service")},
			endpointSlices: {addSlice, end("discovery.k8s.io/v1", "EndpointSlice")},
			nodes:          {end("v1", "Node")},
		},
		more: map[string][]string{
			services: {strings.Replace(addWeb, `"web"`, `"later","namespace":"default"`, 1), deleteWeb},
			nodes:    {`{"type":"ADDED","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-a","resourceVersion":"10"}}}`},
		},
	}
	server := httptest.NewServer(api)
	defer server.Close()
	client, err := NewClientset(writeKubeconfig(t, server.URL))
	if err != nil {
		t.Fatal(err)
	}
	s := newSink()
	log, _ := newLog()
	k, err := NewKubernetes(KubernetesConfig{Client: client, NodeName: "node-a"}, s, log)
	if err != nil {
		t.Fatal(err)
	}
	stop := serve(t, k.Serve)
	eventuallyHas(t, s, "EndpointSlice shop/web-1", "Node node-a", "Service default/later")
	eventually(t, long, "synced, no problem", func() bool { return k.Status().Synced && len(k.Status().Problems) == 0 })
	stop()
	api.mu.Lock()
	defer api.mu.Unlock()
	if api.lists > 0 {
		t.Errorf("%d lists that are not streams", api.lists)
	}
}
