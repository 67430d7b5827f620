// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"calico-vpp-services/services"
	"calico-vpp-services/services/model"
	"calico-vpp-services/services/resolve"
	"calico-vpp-services/services/store"
	"calico-vpp-services/test/realvpp"
	"calico-vpp-services/vpplink"
	"calico-vpp-services/vpplink/types"
	"calico-vpp-services/vppsim"
)

// soakPoint is how many steps lie between two quiet points.
const soakPoint = 100

// model says what VPP must hold, from the objects alone and the slow way: all
// claims of all Services, and for each key the best one by the rules of
// ownership as they are written down (design.md 4).
func (w *world) model(n *corev1.Node) string {
	nd, _ := resolve.NodeFrom(n)
	best := map[types.Key]model.Claim{}
	for _, o := range w.objects {
		svc, ok := o.(*corev1.Service)
		if !ok {
			continue
		}
		var list []*discoveryv1.EndpointSlice
		for _, o := range w.objects {
			if sl, ok := o.(*discoveryv1.EndpointSlice); ok && sl.Labels[discoveryv1.LabelServiceName] == svc.Name {
				list = append(list, sl)
			}
		}
		slices.SortFunc(list, func(a, b *discoveryv1.EndpointSlice) int { return strings.Compare(a.Name, b.Name) })
		res := resolve.Service(resolve.Input{Service: svc, Slices: list, Node: nd, Options: services.DefaultConfig("node-a").Resolve})
		for _, c := range res.Claims {
			have, taken := best[c.Key()]
			newer := c.Created.After(have.Created) || c.Created.Equal(have.Created) && c.Service < have.Service
			if !taken || c.Kind.Rank() < have.Kind.Rank() || c.Kind.Rank() == have.Kind.Rank() && newer {
				best[c.Key()] = c
			}
		}
	}
	var lines []string
	for _, c := range best {
		if c.Served() {
			lines = append(lines, dumped(&c.Entry))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// dumped prints what a dump tells of an entry.
func dumped(e *types.CnatTranslateEntry) string {
	d := types.CnatTranslateEntry{Proto: e.Proto, IP: e.IP, Port: e.Port, LBType: e.LBType, Backends: e.Backends}
	return d.String()
}

// dump prints what VPP says that it holds.
func dump(t testing.TB, socket string) string {
	t.Helper()
	s, err := vpplink.Connect(t.Context(), vpplink.DefaultConfig(socket))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := s.CnatTranslationDump(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i := range list {
		lines = append(lines, dumped(&list[i].Entry))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// meddle deletes, alters or adds a translation behind the agent's back.
func meddle(t testing.TB, rng *rand.Rand, socket string) {
	t.Helper()
	s, err := vpplink.Connect(t.Context(), vpplink.DefaultConfig(socket))
	if err != nil {
		return // VPP is away just now
	}
	defer s.Close()
	list, err := s.CnatTranslationDump(t.Context())
	if err != nil || len(list) == 0 {
		return
	}
	tr := &list[rng.IntN(len(list))]
	e := tr.Entry.Clone()
	e.Flags = types.FlagNoClient
	switch rng.IntN(3) {
	case 0:
		err = s.CnatTranslateDel(t.Context(), tr.ID)
	case 1:
		e.Backends = e.Backends[:1]
		e.Backends[0].Port++
		_, err = s.CnatTranslateAdd(t.Context(), &e)
	default:
		e.Port = uint16(1 + rng.IntN(60000))
		_, err = s.CnatTranslateAdd(t.Context(), &e)
	}
	if err != nil {
		t.Logf("meddling: %v", err) // a fault struck it
	}
}

func envInt(t testing.TB, name string, value int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return value
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s=%q: wanted a number", name, text)
	}
	return n
}

// soakRun is one long history of one node.
type soakRun struct {
	t       testing.TB
	w       *world
	a       *agent
	sim     *vppsim.Sim  // or
	real    *realvpp.VPP // a real one
	path    string
	counts  map[string]int
	calls   vpplink.Calls
	rng     *rand.Rand
	objects *corev1.Node
}

func (r *soakRun) socket() string {
	if r.real != nil {
		return r.real.Socket
	}
	return r.sim.Socket()
}

func (r *soakRun) start() {
	r.t.Helper()
	r.a = startOn(r.t, r.sim, r.socket(), r.path)
	r.a.apply(append(r.w.shuffled(), r.objects)...)
	r.a.sync()
}

func (r *soakRun) restartAgent() {
	r.a.stop()
	c := r.a.calls.Read()
	r.calls.Update, r.calls.Del, r.calls.Dump = r.calls.Update+c.Update, r.calls.Del+c.Del, r.calls.Dump+c.Dump
	r.start()
}

// faults are set at random; the link is cut or VPP dies somewhere in the writes to come.
func (r *soakRun) fault() {
	f := vppsim.Faults{FailProbability: 0.08}
	switch r.rng.IntN(6) {
	case 0:
		f.CutAfter = 1 + r.rng.IntN(6)
	case 1:
		f.CutBefore = 1 + r.rng.IntN(6)
	case 2:
		f.Messages, f.CutAfter = []string{"cnat_translation_dump"}, 1
	}
	r.sim.SetFaults(f)
}

// step does one thing.
func (r *soakRun) step() {
	o, gone := r.w.step()
	op := model.Upsert
	if gone {
		op = model.Delete
	}
	r.a.send(op, o)
	r.counts["object events"]++
	what := ""
	switch n := r.rng.IntN(400); {
	case n < 2:
		what = "agent restarts"
		r.restartAgent()
	case n < 4:
		what = "VPP restarts"
		if r.real != nil {
			r.real.Restart(r.t)
		} else if err := r.sim.Restart(); err != nil {
			r.t.Fatal(err)
		}
	case n < 8:
		what = "meddling with VPP"
		meddle(r.t, r.rng, r.socket())
	case n < 16 && r.sim != nil:
		what = "lost links"
		r.sim.DropLink()
	case n < 30 && r.sim != nil:
		r.fault()
	case n < 60:
		r.a.settleSoon()
	}
	if what != "" {
		r.counts[what]++
	}
}

// quiet waits until all is written, and compares VPP with the model; another
// look at VPP then finds nothing to do.
func (r *soakRun) quiet() (differs bool) {
	r.t.Helper()
	if r.sim != nil {
		r.sim.SetFaults(vppsim.Faults{})
	}
	if err := r.a.server.Resync(r.t.Context()); err != nil { // what was meddled with
		r.t.Logf("resync: %v", err)
	}
	if err := r.a.trySettle(30 * time.Second); err != nil {
		r.t.Fatal(err)
	}
	if got, want := dump(r.t, r.socket()), r.w.model(r.objects); got != want {
		r.t.Errorf("VPP holds\n%s\nthe model says\n%s", got, want)
		return true
	}
	before := r.a.calls.Read()
	if err := r.a.server.Resync(r.t.Context()); err != nil {
		r.t.Error(err)
	}
	if c := r.a.calls.Read().Sub(before); c.Writes() != 0 {
		r.t.Errorf("nothing has changed, and VPP hears %+v", c)
		return true
	}
	return false
}

func (r *soakRun) run(steps int, limit time.Duration) {
	r.t.Helper()
	r.w = &world{rng: r.rng, objects: map[string]metav1.Object{}}
	r.path = filepath.Join(r.t.TempDir(), "vpp"+store.Suffix)
	r.counts = map[string]int{}
	r.objects = node("192.0.2.11", "2001:db8::11")
	r.start()
	deadline := time.Now().Add(limit)
	done, differences := 0, 0
	for done < steps && time.Now().Before(deadline) && differences == 0 {
		for range soakPoint {
			r.step()
		}
		done += soakPoint
		if r.quiet() {
			differences++
		}
	}
	r.restartAgent() // for the count
	if r.sim != nil {
		for kind, n := range r.sim.Injected() {
			r.counts["faults: "+kind] = n
		}
	}
	var counts []string
	for _, kind := range sortedKeys(r.counts) {
		counts = append(counts, fmt.Sprintf("%s %d", kind, r.counts[kind]))
	}
	fmt.Printf("soak: %d steps; %s; VPP calls: %d update, %d delete, %d dump; %d differences\n",
		done, strings.Join(counts, ", "), r.calls.Update, r.calls.Del, r.calls.Dump, differences)
	if done < steps && differences == 0 {
		r.t.Logf("%d of %d steps in %s", done, steps, limit)
	}
}

func sortedKeys(m map[string]int) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// TestSoak is the long test: SOAK_STEPS random steps (object events in any order,
// agent restarts, new VPPs, lost links, faults, meddling), at most SOAK_MINUTES,
// repeatable as far as the scheduler lets it by SOAK_SEED. At each quiet point VPP
// holds what a slow model of the rules says. `make soak` runs it at length.
func TestSoak(t *testing.T) {
	seed := uint64(envInt(t, "SOAK_SEED", int(rand.Int64())))
	fmt.Printf("soak: seed %d\n", seed)
	r := &soakRun{t: t, rng: rand.New(rand.NewPCG(seed, 0)), sim: newSim(t)}
	r.run(envInt(t, "SOAK_STEPS", 2000), time.Duration(envInt(t, "SOAK_MINUTES", 5))*time.Minute)
}

// TestRealVPPSoak is the same on a real VPP, which is killed now and then. It
// takes its time, so only `make soak` runs it.
func TestRealVPPSoak(t *testing.T) {
	if os.Getenv("SOAK_STEPS") == "" {
		t.Skip("no SOAK_STEPS: make soak runs this")
	}
	vpp := realvpp.Start(t, "")
	seed := uint64(envInt(t, "SOAK_SEED", int(rand.Int64())))
	fmt.Printf("soak: seed %d, real VPP\n", seed)
	r := &soakRun{t: t, rng: rand.New(rand.NewPCG(seed, 0)), real: vpp}
	r.run(envInt(t, "SOAK_STEPS", 2000), time.Duration(envInt(t, "SOAK_MINUTES", 5))*time.Minute)
}
