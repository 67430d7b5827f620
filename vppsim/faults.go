// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"go.fd.io/govpp/binapi/cnat"

	"calico-vpp-services/vpplink/types"
)

// DefaultFailRetval is the return value of an injected failure: "unspecified".
const DefaultFailRetval int32 = -1

// Faults says what is to go wrong. The zero value is no fault. A fault that
// counts down is over when its number has been reached; the others last until
// the next SetFaults.
type Faults struct {
	// Messages are the names (without CRC) of the messages that the faults
	// apply to. None stands for every message that changes VPP.
	Messages []string
	// FailProbability is the chance, 0 to 1, of a message to be answered with
	// FailRetval instead of being applied.
	FailProbability float64
	// FailNext makes that many messages fail, whatever the probability says.
	FailNext int
	// FailKeys makes updates and deletions of these translations fail with the
	// return value given (0: FailRetval).
	FailKeys map[types.Key]int32
	// FailRetval is VPP's error for the failures; 0 stands for DefaultFailRetval.
	FailRetval int32
	// DropReply makes that many messages be applied but never answered.
	DropReply int
	// CutBefore and CutAfter drop the connection that brings the n-th message
	// from now, 1 being the next: before or after it was applied, unanswered.
	CutBefore, CutAfter int
	// DieBefore and DieAfter kill VPP on the n-th message from now, before or
	// after it was applied, unanswered. See Restart.
	DieBefore, DieAfter int
	// Delay is how long VPP takes over each message. Nobody else is served meanwhile.
	Delay time.Duration
}

// faults is what is left of a Faults, and what has been done of it.
type faults struct {
	Faults
	rnd      *rand.Rand
	injected map[string]int
}

func (f *faults) reset(to Faults, seed uint64) {
	to.Messages = slices.Clone(to.Messages)
	to.FailKeys = maps.Clone(to.FailKeys)
	if to.FailRetval == 0 {
		to.FailRetval = DefaultFailRetval
	}
	f.Faults = to
	if f.rnd == nil {
		f.rnd = rand.New(rand.NewPCG(seed, 1))
		f.injected = map[string]int{}
	}
}

// plan is what is to happen to one message.
type plan struct {
	delay               time.Duration
	fail                int32 // return value, or 0
	quiet               bool  // apply, do not answer
	cutBefore, cutAfter bool
	dieBefore, dieAfter bool
}

// plan decides about a message and counts what it decides.
func (f *faults) plan(c *call) plan {
	var p plan
	if !f.applyTo(c.method) {
		return p
	}
	if f.Delay > 0 {
		p.delay = f.Delay
		f.injected["delay"]++
	}
	p.fail = f.failure(c)
	p.quiet = f.countDown(&f.DropReply, false, "drop-reply")
	p.cutBefore = f.countDown(&f.CutBefore, true, "cut-before")
	p.cutAfter = f.countDown(&f.CutAfter, true, "cut-after")
	p.dieBefore = f.countDown(&f.DieBefore, true, "die-before")
	p.dieAfter = f.countDown(&f.DieAfter, true, "die-after")
	return p
}

func (f *faults) applyTo(m *method) bool {
	if len(f.Messages) == 0 {
		return m.write
	}
	return slices.Contains(f.Messages, m.name)
}

// failure returns the return value to fail with, or 0. Only messages with a
// return value can fail; a dump has none.
func (f *faults) failure(c *call) int32 {
	if !c.method.write {
		return 0
	}
	// The dice are thrown for every message, so that a run with the same seed
	// and messages is the same whatever else is set.
	unlucky := f.FailProbability > 0 && f.rnd.Float64() < f.FailProbability
	if len(f.FailKeys) > 0 {
		if key, ok := c.key(); ok {
			if rv, ok := f.FailKeys[key]; ok {
				f.injected["fail"]++
				if rv == 0 {
					rv = f.FailRetval
				}
				return rv
			}
		}
	}
	if f.FailNext > 0 {
		f.FailNext--
		unlucky = true
	}
	if !unlucky {
		return 0
	}
	f.injected["fail"]++
	return f.FailRetval
}

// countDown tells whether a counted fault strikes: on each of the next n
// messages, or, with onlyLast, on the n-th.
func (f *faults) countDown(n *int, onlyLast bool, name string) bool {
	if *n <= 0 {
		return false
	}
	*n--
	if onlyLast && *n > 0 {
		return false
	}
	f.injected[name]++
	return true
}

// key returns the key of the translation that a request is about.
func (c *call) key() (types.Key, bool) {
	switch m := c.msg.(type) {
	case *cnat.CnatTranslationUpdate:
		vip, _ := c.inst.decodeEndpoint(m.Translation.Vip)
		return types.Key{Proto: types.Protocol(m.Translation.IPProto), IP: vip.addr, Port: vip.port}, true
	case *cnat.CnatTranslationDel:
		if t := c.inst.translation(m.ID); t != nil {
			return t.key(), true
		}
	}
	return types.Key{}, false
}

// SetFaults replaces the faults. Counters of Injected go on.
func (s *Sim) SetFaults(f Faults) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.reset(f, s.seed)
}

// Injected returns how often each fault struck since New: "fail", "delay",
// "drop-reply", "cut-before", "cut-after", "die-before", "die-after".
func (s *Sim) Injected() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.faults.injected)
}

// wait lets time pass for a request, unless its client goes.
func wait(c *client, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.gone:
		return false
	}
}

// awaitResume holds a request up while VPP is stalled.
func (s *Sim) awaitResume(c *client) bool {
	for {
		s.mu.Lock()
		stalled := s.stalled
		s.mu.Unlock()
		if stalled == nil {
			return true
		}
		select {
		case <-stalled:
		case <-c.gone:
			return false
		}
	}
}
