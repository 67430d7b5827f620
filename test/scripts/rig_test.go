// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	tomb "gopkg.in/tomb.v2"
	corev1 "k8s.io/api/core/v1"

	"calico-vpp-services/inspect"
	"calico-vpp-services/services"
	"calico-vpp-services/services/model"
	"calico-vpp-services/services/store"
	"calico-vpp-services/vpplink"
	"calico-vpp-services/vppsim"
	"calico-vpp-services/watchers"
)

// patience bounds every wait.
const patience = time.Minute

// usual are the faults of every script that does not say otherwise.
func usual() vppsim.Faults {
	return vppsim.Faults{
		Messages:        []string{"cnat_translation_update", "cnat_translation_del"},
		FailProbability: 0.08,
	}
}

// rig is a simulated VPP and the agent on it. Its methods return errors, so
// that several of them can be used at once.
type rig struct {
	dir     string
	sim     *vppsim.Sim
	log     *logtest.Hook
	reports reports
	// intruded: somebody else wrote into VPP as well, so that the agent may
	// find out by a refusal.
	intruded bool

	// The agent; nil while it is stopped.
	server *services.Server
	store  *store.Store
	synced bool
	work   *tomb.Tomb
	conn   *tomb.Tomb
}

func newRig(seed uint64) (*rig, error) {
	// Not the script's own folder: its name can be longer than a socket path.
	dir, err := os.MkdirTemp("", "rig")
	if err != nil {
		return nil, err
	}
	sim, err := vppsim.New(vppsim.Config{Socket: filepath.Join(dir, "api.sock"), Seed: seed})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	sim.SetFaults(usual())
	return &rig{dir: dir, sim: sim, log: &logtest.Hook{}}, nil
}

func (r *rig) close() error {
	err := r.stop()
	r.sim.Close()
	return errors.Join(err, os.RemoveAll(r.dir))
}

// start starts an agent and lists events to it; with gate, that was not all yet.
func (r *rig) start(cfg *services.Config, o *agentOptions, events []model.Event, gate bool) error {
	if r.server != nil {
		return errors.New("the agent runs already")
	}
	l := logrus.New()
	l.SetOutput(discard{})
	l.AddHook(r.log)
	log := logrus.NewEntry(l)
	lc := vpplink.DefaultConfig(r.sim.Socket())
	lc.Log = log
	lc.CallTimeout, lc.PingInterval = o.callTimeout, 50*time.Millisecond
	lc.MinBackoff, lc.MaxBackoff = 5*time.Millisecond, 50*time.Millisecond
	c := *cfg
	c.Reporter = &r.reports
	st, err := store.Open(store.DefaultPath(r.sim.Socket()))
	if err != nil {
		return err
	}
	r.store, c.Store = st, st
	link := vpplink.NewLink(lc, nil)
	server, err := services.NewServer(c, link, log)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	r.server, r.synced, r.work, r.conn = server, false, &tomb.Tomb{}, &tomb.Tomb{}
	r.conn.Go(func() error { return link.Serve(r.conn) })
	r.work.Go(func() error { return server.ServeService(r.work) })
	if err := r.send(events...); err != nil || gate {
		return err
	}
	return r.sync()
}

// sync says that all objects have been listed.
func (r *rig) sync() error {
	r.synced = true
	return r.send(model.Event{Op: model.Synced, Source: watchers.SourceReplay})
}

// stop ends the agent as SIGTERM does.
func (r *rig) stop() error {
	if r.server == nil {
		return nil
	}
	r.server = nil
	r.work.Kill(nil)
	err := r.work.Wait()
	r.conn.Kill(nil)
	return errors.Join(err, r.conn.Wait(), r.store.Close())
}

// kill ends the agent as SIGKILL does, as far as VPP can tell: what it has not
// done by now is not done, and nobody takes leave.
func (r *rig) kill() error {
	if r.server == nil {
		return nil
	}
	r.server = nil
	r.sim.Stall()
	r.sim.DropLink()
	r.work.Kill(nil)
	r.conn.Kill(nil)
	err := errors.Join(r.work.Wait(), r.conn.Wait(), r.store.Close())
	r.sim.Resume()
	return err
}

func (r *rig) send(events ...model.Event) error {
	if r.server == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return r.server.Send(ctx, events...)
}

// settle waits until VPP holds all that was sent. Keys that keep failing, and
// were not meant to, get another chance: five failures in a row do happen.
func (r *rig) settle() error {
	if r.server == nil {
		return errors.New("the agent does not run")
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	for range 3 {
		if err = r.server.Settle(ctx); err == nil || !strings.Contains(err.Error(), "could not be programmed") {
			break
		}
	}
	if err != nil {
		return err
	}
	return r.await("VPP beside its translations is as configured", func() bool { return r.server.Status().DataplaneError == "" })
}

// await polls until ok.
func (r *rig) await(what string, ok func() bool) error {
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("still not: %s; the agent's status is %+v", what, r.server.Status())
		}
	}
	return nil
}

// table is what "show translations" prints.
func (r *rig) table() (string, error) {
	var out strings.Builder
	err := inspect.Print(&out, inspect.Table, r.server.Translations())
	return out.String(), err
}

// held is what VPP holds, a translation a line.
func (r *rig) held() string {
	var out strings.Builder
	for _, t := range r.sim.Translations() {
		out.WriteString(t.Entry.String())
		// Whether the address is real counts for one in the FIB only, and ours
		// are not (vpp-facts C3).
		if !t.AddressNoClient {
			fmt.Fprintf(&out, " in-fib real=%v", t.AddressIsReal)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// routes is what VPP refuses or drops.
func (r *rig) routes() string {
	var out strings.Builder
	for _, route := range r.sim.Routes() {
		out.WriteString(route.String() + "\n")
	}
	return out.String()
}

// check compares what VPP holds with what the agent says that it programmed.
func (r *rig) check() error {
	var want strings.Builder
	for _, row := range r.server.Translations() {
		if row.State != model.StateProgrammed {
			continue
		}
		fmt.Fprintf(&want, "%s;%s;%d ->", row.Proto, row.IP, row.Port)
		for _, b := range row.Backends {
			if strings.Contains(b.IP, ":") {
				fmt.Fprintf(&want, " [%s]:%d", b.IP, b.Port)
			} else {
				fmt.Fprintf(&want, " %s:%d", b.IP, b.Port)
			}
			if b.NoNAT {
				want.WriteByte('!')
			}
		}
		if row.LBType != "default" {
			want.WriteString(" lb=" + row.LBType)
		}
		if len(row.Hash) > 0 {
			want.WriteString(" hash=" + strings.Join(row.Hash, ","))
		}
		if row.Real {
			want.WriteString(" real")
		}
		want.WriteByte('\n')
	}
	if diff := cmp.Diff(want.String(), r.held()); diff != "" {
		return fmt.Errorf("VPP holds (+) other than the agent says (-):\n%s", diff)
	}
	return nil
}

// manners reports calls that a client which knows what it does has no need of.
func (r *rig) manners() error {
	strangers := r.sim.Stats().NoSuchTranslation
	if r.intruded {
		strangers = 0
	}
	var errs []error
	for _, c := range []struct {
		n    int
		what string
	}{
		{r.sim.Stats().Needless, "updates changed nothing"},
		{strangers, "deletions were of translations that do not exist"},
		{r.sim.Stats().Stale, "messages had an id of an earlier VPP"},
		{r.sim.Stats().Malformed, "messages were malformed"},
		{r.sim.Calls()["cnat_session_purge"], "purges took all translations away"},
	} {
		if c.n > 0 {
			errs = append(errs, fmt.Errorf("%d %s", c.n, c.what))
		}
	}
	if why := r.sim.Crashed(); why != "" && !strings.HasPrefix(why, "killed") {
		errs = append(errs, fmt.Errorf("VPP died: %s", why))
	}
	return errors.Join(errs...)
}

// reports collects what authors of Services are told.
type reports struct {
	mu    sync.Mutex
	lines []string
}

// Report implements services.Reporter.
func (r *reports) Report(svc *corev1.Service, p model.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf("%s %s %s: %s", model.ServiceIDOf(svc.Namespace, svc.Name), p.Reason, p.Field, p.Message))
}

// take returns what was reported since it was last called, sorted. Injected
// failures are left out, unless asked for: which keys they strike is chance.
func (r *reports) take(failures bool) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := r.lines
	r.lines = nil
	if !failures {
		lines = slices.DeleteFunc(lines, func(s string) bool { return strings.Contains(s, " "+string(model.ReasonProgrammingFailed)+" ") })
	}
	slices.Sort(lines)
	return lines
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
