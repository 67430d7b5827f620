// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/memclnt"
	"go.fd.io/govpp/codec"

	"calico-vpp-services/vpplink/types"
)

// putN sends an update for the n-th VIP and returns the answer, or says that
// there was none.
func (c *rawClient) putN(n int) string {
	c.t.Helper()
	e := entry(fmt.Sprintf("10.96.0.%d:80", n), "10.244.0.5:8080")
	for i, m := range []api.Message{&cnat.CnatTranslationUpdate{Translation: *apiTranslation(&e)}, &memclnt.ControlPing{}} {
		if err := c.trySend(m, []uint32{uint32(n), 999}[i]); err != nil {
			return "cut"
		}
	}
	for out := "silence"; ; {
		msg, err := readFrame(c.conn, nil)
		if err != nil {
			return "cut"
		}
		if c.names[uint16(msg[0])<<8|uint16(msg[1])] == "control_ping_reply_f6b0b8ca" {
			return out
		}
		var r cnat.CnatTranslationUpdateReply
		if err := codec.DecodeMsg(msg, &r); err != nil {
			c.t.Fatal(err)
		}
		out = fmt.Sprintf("%d id %d", r.Retval, int32(r.ID))
	}
}

func TestFaults(t *testing.T) {
	second := types.Key{Proto: types.TCP, IP: entry("10.96.0.2:80").IP, Port: 80}
	for _, c := range []struct {
		name     string
		faults   Faults
		answers  []string // to the updates 1, 2, 3...
		in       []int    // which of them VPP holds then, -1 if it is dead
		injected map[string]int
	}{
		{"none", Faults{}, []string{"0 id 0", "0 id 1"}, []int{1, 2}, nil},
		{"the next two fail", Faults{FailNext: 2}, []string{"-1 id -1", "-1 id -1", "0 id 0"}, []int{3}, map[string]int{"fail": 2}},
		{"with an error of choice", Faults{FailNext: 1, FailRetval: -12}, []string{"-12 id -1", "0 id 0"}, []int{2}, map[string]int{"fail": 1}},
		{"always", Faults{FailProbability: 1}, []string{"-1 id -1", "-1 id -1"}, nil, map[string]int{"fail": 2}},
		{"one key", Faults{FailKeys: map[types.Key]int32{second: -7}}, []string{"0 id 0", "-7 id -1", "0 id 1"}, []int{1, 3}, map[string]int{"fail": 1}},
		{"one key, default error", Faults{FailKeys: map[types.Key]int32{second: 0}}, []string{"0 id 0", "-1 id -1"}, []int{1}, map[string]int{"fail": 1}},
		{"applied without answer", Faults{DropReply: 1}, []string{"silence", "0 id 1"}, []int{1, 2}, map[string]int{"drop-reply": 1}},
		{"failed without answer", Faults{DropReply: 1, FailNext: 1}, []string{"silence", "0 id 0"}, []int{2}, map[string]int{"drop-reply": 1, "fail": 1}},
		{"link cut before the second", Faults{CutBefore: 2}, []string{"0 id 0", "cut"}, []int{1}, map[string]int{"cut-before": 1}},
		{"link cut after the second", Faults{CutAfter: 2}, []string{"0 id 0", "cut"}, []int{1, 2}, map[string]int{"cut-after": 1}},
		{"death before the second", Faults{DieBefore: 2}, []string{"0 id 0", "cut"}, []int{-1}, map[string]int{"die-before": 1}},
		{"death after the second", Faults{DieAfter: 2}, []string{"0 id 0", "cut"}, []int{-1}, map[string]int{"die-after": 1}},
		{"of other messages", Faults{FailProbability: 1, DropReply: 9, Messages: []string{"cnat_translation_del"}}, []string{"0 id 0"}, []int{1}, nil},
		{"slow", Faults{Delay: time.Millisecond}, []string{"0 id 0", "0 id 1"}, []int{1, 2}, map[string]int{"delay": 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim := newSim(t, Config{})
			client := dialRaw(t, sim).open()
			sim.SetFaults(c.faults)
			for i, want := range c.answers {
				if got := client.putN(i + 1); got != want {
					t.Errorf("update %d: %s, want %s", i+1, got, want)
				}
			}
			var in []int
			for _, tr := range sim.Translations() {
				in = append(in, int(tr.Entry.IP.As4()[3]))
			}
			if sim.Crashed() != "" {
				in = []int{-1}
			}
			if diff := cmp.Diff(c.in, in); diff != "" {
				t.Errorf("held: %s", diff)
			}
			if got := sim.Injected(); !maps.Equal(got, c.injected) {
				t.Errorf("injected %v, want %v", got, c.injected)
			}
			if got := sim.Calls()["cnat_translation_update"]; got != len(c.answers) {
				t.Errorf("%d calls, want %d: faults are calls too", got, len(c.answers))
			}
		})
	}
}

// FailKeys covers the deletion of what has the key, by id.
func TestFailDelByKey(t *testing.T) {
	sim := newSim(t, Config{})
	conn := connect(t, sim)
	a, b := entry("10.96.0.1:80", "10.244.0.5:8080"), entry("10.96.0.2:80", "10.244.0.5:8080")
	if err := sim.Load([]types.CnatTranslateEntry{a, b}); err != nil {
		t.Fatal(err)
	}
	sim.SetFaults(Faults{FailKeys: map[types.Key]int32{b.Key(): -11}})
	if got := del(t, conn, 0); got != 0 {
		t.Errorf("del 0: %d", got)
	}
	if got := del(t, conn, 1); got != -11 {
		t.Errorf("del 1: %d", got)
	}
	if got := sim.Translations(); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// Reads never fail by chance: a dump has no return value to fail with.
func TestReadsDoNotFail(t *testing.T) {
	sim := newSim(t, Config{})
	conn := connect(t, sim)
	sim.SetFaults(Faults{FailProbability: 1, Messages: []string{"cnat_translation_dump", "control_ping"}})
	if got := dump(t, conn); len(got) != 0 || len(sim.Injected()) != 0 {
		t.Errorf("%v, %v", got, sim.Injected())
	}
}

// A failed route says that it has no counter, too.
func TestFailedRoute(t *testing.T) {
	sim := newSim(t, Config{})
	conn := connect(t, sim)
	sim.SetFaults(Faults{FailNext: 1})
	var r ip.IPRouteAddDelReply
	invoke(t, conn, &ip.IPRouteAddDel{IsAdd: true}, &r, &r.Retval)
	if r.Retval != DefaultFailRetval || r.StatsIndex != invalidIndex {
		t.Errorf("%+v", r)
	}
}

// The same seed gives the same misfortune.
func TestSeed(t *testing.T) {
	run := func(seed uint64) (uint64, string) {
		sim := newSim(t, Config{Seed: seed})
		client := dialRaw(t, sim).open()
		sim.SetFaults(Faults{FailProbability: 0.5})
		out := ""
		for i := range 40 {
			out += client.putN(i)[:1]
		}
		return sim.Seed(), out
	}
	seed, first := run(0)
	if seed == 0 {
		t.Fatal("no seed picked")
	}
	if _, second := run(seed); second != first {
		t.Errorf("seed %d: %s and %s", seed, first, second)
	}
	if _, other := run(seed + 1); other == first {
		t.Errorf("seeds %d and %d: both %s", seed, seed+1, first)
	}
}

// What VPP refused is not applied, and what a client should not have done is
// counted: an update that changes nothing of its own, not of somebody else's.
func TestAppliedAndNeedless(t *testing.T) {
	sim := newSim(t, Config{})
	conn := connect(t, sim)
	e := entry("10.96.0.1:80", "10.244.0.5:8080", "10.244.0.6:8080")
	if err := sim.Load([]types.CnatTranslateEntry{e}); err != nil {
		t.Fatal(err)
	}
	needless := func(want int, what string) {
		t.Helper()
		if got := sim.Stats().Needless; got != want {
			t.Errorf("%s: %d needless updates, want %d", what, got, want)
		}
	}
	update(t, conn, e)
	needless(0, "what somebody else had left")
	update(t, conn, e)
	needless(1, "the same again")
	other := e.Clone()
	other.LBType = types.LBMaglev
	update(t, conn, other)
	needless(1, "another LB type, which VPP ignores (F3)")
	less := entry("10.96.0.1:80", "10.244.0.5:8080")
	update(t, conn, less)
	needless(1, "a backend less")
	update(t, connect(t, sim), less)
	needless(1, "by another client")
	sim.SetFaults(Faults{FailNext: 2})
	update(t, conn, e)
	del(t, conn, 0)
	if got := del(t, conn, 7); got != -6 || sim.Stats().NoSuchTranslation != 1 {
		t.Errorf("deletion of nothing: %d, counted %d times", got, sim.Stats().NoSuchTranslation)
	}
	if a := sim.Applied(); a["cnat_translation_update"] != 5 || a["cnat_translation_del"] != 0 {
		t.Errorf("applied %v, want 5 updates and no deletion", a)
	}
	if c := sim.Calls(); c["cnat_translation_update"] != 6 || c["cnat_translation_del"] != 2 {
		t.Errorf("calls %v, want 6 updates and 2 deletions", c)
	}
}
