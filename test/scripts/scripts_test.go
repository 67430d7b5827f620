// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/sirupsen/logrus"

	"calico-vpp-services/services"
	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink"
	"calico-vpp-services/vpplink/types"
	"calico-vpp-services/vppsim"
)

func TestMain(m *testing.M) {
	quiet := logrus.New()
	quiet.SetLevel(logrus.PanicLevel)
	vpplink.SetLibraryLogger(quiet)
	os.Exit(m.Run())
}

// TestScripts runs the scripts. SEED repeats the faults of a run, UPDATE=1
// rewrites what is expected.
func TestScripts(t *testing.T) {
	seed := rand.Uint64()
	if s := os.Getenv("SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("SEED: %v", err)
		}
	}
	t.Logf("repeat with SEED=%d", seed)
	testscript.Run(t, testscript.Params{
		Dir:                "testdata",
		Cmds:               commands(),
		RequireUniqueNames: true,
		UpdateScripts:      os.Getenv("UPDATE") != "",
		Setup:              func(e *testscript.Env) error { return setup(e, seed) },
	})
}

// script is one script under way.
type script struct {
	testing.TB
	name  string
	seed  uint64
	rig   *rig
	world *world
	cfg   *services.Config
	flags *agentOptions
	// What the orders of expand_test.go need to repeat.
	loaded  []types.CnatTranslateEntry
	refused map[types.Key]int32
	current vppsim.Faults
	// noOrders says why the result of the script depends on the order of events.
	noOrders string
	// counted is what the command calls has counted already.
	counted map[string]int
	writes  int
}

// setup makes the rig of a script, and has it checked when the script ends.
func setup(e *testscript.Env, seed uint64) error {
	tb, ok := e.T().(testing.TB)
	if !ok {
		return errors.New("the scripts were not started by testscript.Run")
	}
	h := fnv.New64()
	fmt.Fprintf(h, "%d %s", seed, tb.Name())
	s := &script{TB: tb, name: tb.Name(), seed: h.Sum64(), counted: map[string]int{}, current: usual()}
	// What this goroutine starts carries the name, see leaks.
	pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("script", s.name)))
	var err error
	if s.rig, err = newRig(s.seed); err != nil {
		return err
	}
	if s.world, err = newWorld(); err != nil {
		return err
	}
	e.Values[key{}] = s
	e.Defer(s.end)
	return nil
}

// end checks what must be true after every script.
func (s *script) end() {
	s.Helper()
	if !s.Failed() {
		s.finish()
	}
	if err := s.rig.close(); err != nil {
		s.Errorf("the end of the agent: %v", err)
	}
	if !s.Failed() {
		s.leaks()
	}
}

func (s *script) finish() {
	s.Helper()
	if s.rig.server == nil || !s.rig.synced {
		s.Error("the script ends without an agent that could be compared with VPP")
		return
	}
	if len(s.refused) == 0 {
		if err := s.rig.settle(); err != nil {
			s.Error(err)
			return
		}
	}
	if err := errors.Join(s.rig.check(), s.rig.manners()); err != nil {
		s.Error(err)
		return
	}
	if s.noOrders == "" {
		s.orders()
	}
}

// leaks reports goroutines that the script has started and that are still there.
func (s *script) leaks() {
	s.Helper()
	label := fmt.Sprintf("%q:%q", "script", s.name)
	var left []string
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		var all bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
			s.Fatal(err)
		}
		left = nil
		for stack := range strings.SplitSeq(all.String(), "\n\n") {
			if strings.Contains(stack, label) && !strings.Contains(stack, ").leaks+") {
				left = append(left, stack)
			}
		}
		if len(left) == 0 {
			return
		}
	}
	s.Errorf("%d goroutines are left:\n%s", len(left), strings.Join(left, "\n\n"))
}

// key is where testscript keeps the script.
type key struct{}

func (s *script) faults(f vppsim.Faults) {
	s.refused, s.current = f.FailKeys, f
	s.rig.sim.SetFaults(f)
}

// send has the agent told of a batch, and waits until VPP holds what it asks for;
// keys that VPP was told to refuse are not waited for.
func (s *script) send(events []model.Event, wait bool) error {
	s.world.add(events)
	if err := s.rig.send(events...); err != nil {
		return err
	}
	if !wait || s.rig.server == nil || !s.rig.synced {
		return nil
	}
	err := s.rig.settle()
	if err != nil && len(s.refused) > 0 && strings.Contains(err.Error(), "could not be programmed") {
		return nil
	}
	return err
}
