// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"go.uber.org/goleak"
	tomb "gopkg.in/tomb.v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"calico-vpp-services/services/model"
	"calico-vpp-services/services/resolve"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = netip.MustParseAddr("127.0.0.1")

// ask returns the status, header and body of an answer on loopback; 0 when
// nobody listens.
func ask(t *testing.T, method string, port uint16, path string) (int, http.Header, string) {
	t.Helper()
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return 0, nil, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

func freePort(t *testing.T) (uint16, net.Listener) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l.Addr().(*net.TCPAddr).AddrPort().Port(), l
}

func check(id string, port uint16, count int) Service {
	return Service{model.ServiceID(id), resolve.HealthCheck{Port: port, Families: []resolve.HealthFamily{
		{Family: corev1.IPv4Protocol, LocalEndpoints: count, Addresses: []netip.Addr{loopback}},
	}}}
}

func serve(t *testing.T, f func(*tomb.Tomb) error) {
	t.Helper()
	var tb tomb.Tomb
	tb.Go(func() error { return f(&tb) })
	t.Cleanup(func() {
		tb.Kill(nil)
		if err := tb.Wait(); err != nil {
			t.Error(err)
		}
	})
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func nullLog() *logrus.Entry {
	log, _ := logtest.NewNullLogger()
	return logrus.NewEntry(log)
}

func TestNodePorts(t *testing.T) {
	var mu sync.Mutex
	var problems []string
	n := NewNodePorts(nullLog())
	serve(t, func(tb *tomb.Tomb) error {
		return n.ServeHealth(tb, func(id model.ServiceID, p model.Problem) {
			mu.Lock()
			defer mu.Unlock()
			problems = append(problems, fmt.Sprintf("%s %s", id, p))
		})
	})
	port, l := freePort(t)
	l.Close()
	status := func(want int) func() bool {
		return func() bool { got, _, _ := ask(t, "GET", port, "/"); return got == want }
	}

	n.Set([]Service{check("shop/web", port, 2)}, true)
	await(t, "J1 a listener", status(200))
	for _, method := range []string{"GET", "POST", "DELETE"} {
		for _, path := range []string{"/", "/healthz", "/anything/else"} {
			code, h, text := ask(t, method, port, path)
			if code != 200 || h.Get("Content-Type") != "application/json" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("X-Load-Balancing-Endpoint-Weight") != "2" {
				t.Errorf("J2 %s %s: %d %v", method, path, code, h)
			}
			var got map[string]any
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			if want := "map[localEndpoints:2 service:map[name:web namespace:shop] serviceProxyHealthy:true]"; fmt.Sprint(got) != want {
				t.Errorf("J2 body %v, want %s", got, want)
			}
		}
	}
	n.Set([]Service{check("shop/web", port, 0)}, true)
	if code, h, text := ask(t, "GET", port, "/"); code != 503 || h.Get("X-Load-Balancing-Endpoint-Weight") != "0" || !strings.Contains(text, `"localEndpoints": 0`) {
		t.Errorf("J2 without endpoints: %d %v %s", code, h, text)
	}
	n.Set([]Service{check("shop/web", port, 3)}, false)
	if code, _, text := ask(t, "GET", port, "/"); code != 503 || !strings.Contains(text, `"serviceProxyHealthy": false`) {
		t.Errorf("J11 an unhealthy proxy: %d %s", code, text)
	}
	n.Set(nil, true)
	await(t, "J1 closed", status(0))

	// J5: a port that is taken is told once, tried on, and harms nobody else.
	taken, busy := freePort(t)
	n.Set([]Service{check("shop/bad", taken, 1), check("shop/web", port, 1)}, true)
	await(t, "J5 the other one", status(200))
	await(t, "J5 the problem", func() bool { mu.Lock(); defer mu.Unlock(); return len(problems) == 1 })
	if p := problems[0]; !strings.Contains(p, "shop/bad FailedToStartServiceHealthcheck") || !strings.Contains(p, fmt.Sprint(taken)) {
		t.Errorf("J5 problem %q", p)
	}
	n.Set([]Service{check("shop/bad", taken, 1), check("shop/web", port, 1)}, true)
	busy.Close()
	await(t, "J5 bound at last", func() bool { code, _, _ := ask(t, "GET", taken, "/"); return code == 200 })
	mu.Lock()
	if len(problems) != 1 {
		t.Errorf("J5 told %d times: %q", len(problems), problems)
	}
	mu.Unlock()

	// A port goes from one Service to another.
	n.Set([]Service{check("shop/other", port, 1)}, true)
	await(t, "the other Service has the port", func() bool {
		_, _, text := ask(t, "GET", port, "/")
		return strings.Contains(text, `"name": "other"`)
	})
}

// J6: an unchanged listener is not restarted: an open connection lives on and
// hears the new count.
func TestJ6CountsChangeInPlace(t *testing.T) {
	n := NewNodePorts(nullLog())
	serve(t, func(tb *tomb.Tomb) error { return n.ServeHealth(tb, nil) })
	port, l := freePort(t)
	l.Close()
	n.Set([]Service{check("shop/web", port, 1)}, true)
	await(t, "a listener", func() bool { code, _, _ := ask(t, "GET", port, "/"); return code == 200 })
	dials := 0
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials++
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
	c := http.Client{Transport: tr}
	for count := 1; count <= 5; count++ {
		n.Set([]Service{check("shop/web", port, count)}, true)
		resp, err := c.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Header.Get("X-Load-Balancing-Endpoint-Weight"); got != fmt.Sprint(count) {
			t.Errorf("weight %s, want %d", got, count)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	if dials != 1 {
		t.Errorf("%d connections were made", dials)
	}
}

// J7: who reaches the handler of a Service that is gone hears 503.
func TestJ7ClosedService(t *testing.T) {
	n := NewNodePorts(nullLog())
	n.Set([]Service{check("shop/web", 1, 1)}, true)
	var ans *answer
	for _, a := range n.wanted {
		ans = a
	}
	n.Set(nil, true)
	var rec recorder
	ans.ServeHTTP(&rec, nil)
	if rec.code != 503 {
		t.Errorf("answer %d, want 503", rec.code)
	}
}

type recorder struct {
	code   int
	header http.Header
}

func (r *recorder) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}
func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }
func (r *recorder) WriteHeader(code int)        { r.code = code }

func TestProxy(t *testing.T) {
	var mu sync.Mutex
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	st := State{LastUpdated: now.Add(-time.Hour), NodeEligible: true}
	p, err := NewProxy("127.0.0.1:0", func() State { mu.Lock(); defer mu.Unlock(); return st }, nullLog())
	if err != nil {
		t.Fatal(err)
	}
	p.now = func() time.Time { return now }
	serve(t, p.ServeProxyHealth)
	port := p.Addr().(*net.TCPAddr).AddrPort().Port()
	for _, tc := range []struct {
		name           string
		state          State
		healthz, livez int
	}{
		{"J11 idle is healthy", State{LastUpdated: now.Add(-time.Hour), NodeEligible: true}, 200, 200},
		{"J11 a young change is healthy", State{OldestPending: now.Add(-59 * time.Second), NodeEligible: true}, 200, 200},
		{"J11 an old change is not", State{OldestPending: now.Add(-61 * time.Second), NodeEligible: true}, 503, 503},
		{"J9 J10 a node that goes is not eligible, and alive", State{}, 503, 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mu.Lock()
			st = tc.state
			mu.Unlock()
			code, h, text := ask(t, "GET", port, "/healthz")
			if code != tc.healthz || !strings.Contains(text, "nodeEligible") || h.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("J8 /healthz: %d %s", code, text)
			}
			var b body
			if err := json.Unmarshal([]byte(text), &b); err != nil || len(b.Status) != 2 {
				t.Errorf("J8 body %s: %v", text, err)
			}
			if (code == 200) != b.LastUpdated.Equal(now) {
				t.Errorf("J8 lastUpdated %s with status %d", b.LastUpdated, code)
			}
			code, _, text = ask(t, "GET", port, "/livez")
			if code != tc.livez || strings.Contains(text, "nodeEligible") {
				t.Errorf("J10 /livez: %d %s", code, text)
			}
		})
	}
	if code, _, _ := ask(t, "GET", port, "/other"); code != 404 {
		t.Errorf("another path: %d", code)
	}
	if _, err := NewProxy(p.Addr().String(), nil, nullLog()); err == nil || !strings.Contains(err.Error(), "ADDRESS:PORT") {
		t.Errorf("a taken address: %v", err)
	}
}

func TestJ9NodeEligible(t *testing.T) {
	gone := metav1.Now()
	for name, tc := range map[string]struct {
		node *corev1.Node
		want bool
	}{
		"unknown": {nil, false},
		"plain":   {&corev1.Node{}, true},
		"tainted": {&corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: taintToBeDeleted, Effect: "PreferNoSchedule"}}}}, false},
		"other":   {&corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "other"}}}}, true},
		"deleted": {&corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &gone}}, false},
	} {
		if got := NodeEligible(tc.node); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// J4: it listens where it is told to, and nowhere when the node has none of the
// selected addresses.
func TestJ4ListensWhereTold(t *testing.T) {
	n := NewNodePorts(nullLog())
	list := check("shop/web", 1, 2)
	list.Check.Families[0].Addresses = nil
	n.Set([]Service{list}, true)
	if len(n.wanted) != 0 {
		t.Errorf("listens on %v without an address", n.wanted)
	}
	list.Check.Families[0].Addresses = []netip.Addr{loopback, netip.MustParseAddr("192.0.2.12")}
	n.Set([]Service{list}, true)
	if len(n.wanted) != 2 {
		t.Errorf("listens on %v, want two addresses", n.wanted)
	}
}

// A Service that leaves and comes back before anybody looked is answered for
// again, by what it wants now.
func TestJ7LeftAndCameBack(t *testing.T) {
	n := NewNodePorts(nullLog())
	serve(t, func(tb *tomb.Tomb) error { return n.ServeHealth(tb, nil) })
	port, l := freePort(t)
	l.Close()
	up := func() bool { c, _, _ := ask(t, "GET", port, "/"); return c == 200 }
	n.Set([]Service{check("shop/web", port, 2)}, true)
	await(t, "up", up)
	for range 20 {
		n.Set(nil, true)
		n.Set([]Service{check("shop/web", port, 2)}, true)
		await(t, "up again", up)
	}
}

// The port is free for the next listener when the last one is closed, even one
// that has not begun to serve: nobody is told of a conflict with ourselves.
func TestJ5NoConflictWithOurselves(t *testing.T) {
	n := NewNodePorts(nullLog())
	servers, failed := map[endpoint]server{}, map[endpoint]string{}
	var running sync.WaitGroup
	port, l := freePort(t)
	l.Close()
	for range 200 {
		for _, id := range []string{"shop/web", "shop/api"} {
			n.Set([]Service{check(id, port, 1)}, true)
			n.adjust(servers, failed, &running, func(id model.ServiceID, p model.Problem) { t.Errorf("%s %s", id, p) })
		}
		if t.Failed() {
			break
		}
	}
	n.Set(nil, true)
	n.adjust(servers, failed, &running, nil)
	running.Wait()
}
