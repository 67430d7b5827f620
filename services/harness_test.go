// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"go.uber.org/goleak"
	tomb "gopkg.in/tomb.v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"calico-vpp-services/services"
	"calico-vpp-services/services/model"
	"calico-vpp-services/services/store"
	"calico-vpp-services/vpplink"
	"calico-vpp-services/vppsim"
)

func TestMain(m *testing.M) {
	quiet := logrus.New()
	quiet.SetLevel(logrus.PanicLevel)
	vpplink.SetLibraryLogger(quiet)
	goleak.VerifyTestMain(m)
}

const source = "test"

// agent is the production code from Send to the API socket of a simulator.
type agent struct {
	t      testing.TB
	sim    *vppsim.Sim
	server *services.Server
	calls  *vpplink.Counters
	log    *logtest.Hook
	work   tomb.Tomb
	conn   tomb.Tomb
	// memory, when not nil, is closed with the agent.
	memory *store.Store
}

// newSim starts a simulator with the given addresses, such as 192.0.2.11/24.
func newSim(t testing.TB, addresses ...string) *vppsim.Sim {
	t.Helper()
	cfg := vppsim.Config{Socket: filepath.Join(t.TempDir(), "api.sock")}
	for _, a := range addresses {
		cfg.NodeAddresses = append(cfg.NodeAddresses, netip.MustParsePrefix(a))
	}
	sim, err := vppsim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	t.Cleanup(func() {
		if why := sim.Crashed(); why != "" && !strings.HasPrefix(why, "killed") {
			t.Errorf("VPP died: %s", why)
		}
		if t.Failed() {
			t.Logf("seed of the simulator: %d", sim.Seed())
		}
	})
	return sim
}

// start runs an agent on sim; edit changes its configuration. Nothing is
// synced yet.
func start(t testing.TB, sim *vppsim.Sim, edit ...func(*services.Config)) *agent {
	t.Helper()
	return startAt(t, sim, sim.Socket(), edit...)
}

// startAt is start with the VPP at socket; sim is nil if that is a real one.
func startAt(t testing.TB, sim *vppsim.Sim, socket string, edit ...func(*services.Config)) *agent {
	t.Helper()
	a := &agent{t: t, sim: sim, calls: &vpplink.Counters{}}
	log, hook := logtest.NewNullLogger()
	a.log = hook
	lc := vpplink.DefaultConfig(socket)
	lc.Log, lc.Counters = logrus.NewEntry(log), a.calls
	lc.CallTimeout, lc.PingInterval = 2*time.Second, 50*time.Millisecond
	lc.MinBackoff, lc.MaxBackoff = 5*time.Millisecond, 50*time.Millisecond
	cfg := services.DefaultConfig("node-a")
	cfg.Sources = []string{source}
	cfg.ResyncPeriod = 0
	cfg.BatchWindow = time.Millisecond
	cfg.Reconcile.MinBackoff, cfg.Reconcile.MaxBackoff = 2*time.Millisecond, 20*time.Millisecond
	for _, f := range edit {
		f(&cfg)
	}
	link := vpplink.NewLink(lc, nil)
	var err error
	if a.server, err = services.NewServer(cfg, link, logrus.NewEntry(log)); err != nil {
		t.Fatal(err)
	}
	a.conn.Go(func() error { return link.Serve(&a.conn) })
	a.work.Go(func() error { return a.server.ServeService(&a.work) })
	t.Cleanup(a.stop)
	return a
}

// synced starts an agent whose objects have all been listed.
func synced(t testing.TB, sim *vppsim.Sim, objects ...metav1.Object) *agent {
	t.Helper()
	a := start(t, sim)
	a.apply(append([]metav1.Object{node("192.0.2.11", "2001:db8::11")}, objects...)...)
	a.sync()
	a.settle()
	return a
}

// stop ends the agent as SIGTERM does.
func (a *agent) stop() {
	a.t.Helper()
	for _, tb := range []*tomb.Tomb{&a.work, &a.conn} {
		tb.Kill(nil)
		if err := tb.Wait(); err != nil {
			a.t.Error(err)
		}
	}
	if a.memory != nil {
		if err := a.memory.Close(); err != nil {
			a.t.Error(err)
		}
		a.memory = nil
	}
}

func (a *agent) send(op model.Op, objects ...metav1.Object) {
	a.t.Helper()
	events := make([]model.Event, len(objects))
	for i, o := range objects {
		events[i] = model.Event{Op: op, Object: o, Source: source}
	}
	if err := a.server.Send(a.t.Context(), events...); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) apply(objects ...metav1.Object)  { a.t.Helper(); a.send(model.Upsert, objects...) }
func (a *agent) delete(objects ...metav1.Object) { a.t.Helper(); a.send(model.Delete, objects...) }

func (a *agent) sync() {
	a.t.Helper()
	if err := a.server.Send(a.t.Context(), model.Event{Op: model.Synced, Source: source}); err != nil {
		a.t.Fatal(err)
	}
}

func (a *agent) trySettle(d time.Duration) error {
	ctx, cancel := context.WithTimeout(a.t.Context(), d)
	defer cancel()
	return a.server.Settle(ctx)
}

// settle waits until all that was sent is in VPP, and checks that VPP holds
// that and nothing else.
func (a *agent) settle() {
	a.t.Helper()
	if err := a.trySettle(20 * time.Second); err != nil {
		a.t.Fatal(err)
	}
	var want []string
	for _, r := range a.server.Translations() {
		if r.State == model.StateProgrammed {
			want = append(want, fmt.Sprintf("%s;%s;%d", r.Proto, r.IP, r.Port))
		}
	}
	var have []string
	for _, tr := range a.sim.Translations() {
		have = append(have, tr.Entry.Key().String())
	}
	if !slices.Equal(want, have) {
		a.t.Fatalf("VPP holds %v, the agent says %v", have, want)
	}
}

// table prints what the agent says, one line a key.
func (a *agent) table() string {
	var out strings.Builder
	for _, r := range a.server.Translations() {
		fmt.Fprintf(&out, "%s %s;%d %s %s %s %v", r.Proto, r.IP, r.Port, r.Service, r.Kind, r.State, backendNames(r.Backends))
		if len(r.Waiting) > 0 {
			fmt.Fprintf(&out, " waiting %v", r.Waiting)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func backendNames(list []model.BackendState) []string {
	out := []string{}
	for _, b := range list {
		out = append(out, fmt.Sprintf("%s:%d", b.IP, b.Port))
	}
	return out
}

// vpp prints what VPP holds, one line a key.
func (a *agent) vpp() string {
	var out strings.Builder
	for _, tr := range a.sim.Translations() {
		out.WriteString(tr.Entry.String() + "\n")
	}
	return out.String()
}

// costs runs f, settles, and checks what calls that took.
func (a *agent) costs(update, del uint64, f func()) {
	a.t.Helper()
	before := a.calls.Read()
	f()
	a.settle()
	if c := a.calls.Read().Sub(before); c.Update != update || c.Del != del {
		a.t.Errorf("%d updates, %d deletes; want %d, %d", c.Update, c.Del, update, del)
	}
}

func (a *agent) await(what string, ok func() bool) {
	a.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			a.t.Fatalf("still not: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func node(ips ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", Labels: map[string]string{corev1.LabelTopologyZone: "zone-1"}}}
	for _, ip := range ips {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	return n
}

// service makes shop/name with one TCP port 80 on a cluster IP; its age, in
// seconds, decides about shared keys.
func service(name, clusterIP string, age int, edit ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1.7e9+int64(age), 0)),
		},
		Spec: corev1.ServiceSpec{
			ClusterIP: clusterIP, ClusterIPs: []string{clusterIP}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	for _, f := range edit {
		f(s)
	}
	return s
}

func external(ips ...string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.ExternalIPs = ips }
}

func loadBalancer(ips ...string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		for _, ip := range ips {
			s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
	}
}

func nodePort(n int32) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Type, s.Spec.Ports[0].NodePort = corev1.ServiceTypeNodePort, n }
}

func annotated(key, value string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Annotations = map[string]string{key: value} }
}

// slice makes a slice named name of shop/of with ready endpoints on port 8080.
func slice(name, of string, ips ...string) *discoveryv1.EndpointSlice {
	port, proto, unnamed := int32(8080), corev1.ProtocolTCP, ""
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: of}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &unnamed, Protocol: &proto, Port: &port}},
	}
	for _, ip := range ips {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}})
	}
	return s
}
