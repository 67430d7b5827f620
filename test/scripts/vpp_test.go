// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"calico-vpp-services/vpplink"
	"calico-vpp-services/vpplink/types"
	"calico-vpp-services/vppsim"
)

// restartCmd puts a new VPP in, and waits until the agent is on it.
func restartCmd(s *script, _ *testscript.TestScript, args []string) (string, error) {
	_, noWait := flagged(args, "-nowait")
	before := ""
	if s.rig.server != nil {
		before = s.rig.server.Status().VPPInstance
	}
	if err := s.rig.sim.Restart(); err != nil {
		return "", err
	}
	s.loaded = nil
	if s.rig.server == nil || noWait {
		return "", nil
	}
	err := s.rig.await("on the new VPP", func() bool {
		st := s.rig.server.Status()
		return st.Connected && st.VPPInstance != before
	})
	if err != nil || !s.rig.synced || len(s.refused) > 0 {
		return "", err
	}
	return "", s.rig.settle()
}

// dropCmd cuts the link, and waits until the agent is back.
func dropCmd(s *script, _ *testscript.TestScript, _ []string) (string, error) {
	return "", s.rig.dropLink()
}

func (r *rig) dropLink() error {
	dumps := r.sim.Calls()["cnat_translation_dump"]
	r.sim.DropLink()
	return r.await("connected again", func() bool {
		return r.sim.Calls()["cnat_translation_dump"] > dumps && r.server.Status().Connected
	})
}

func resyncCmd(s *script, _ *testscript.TestScript, _ []string) (string, error) {
	return "", s.rig.resync()
}

func awaitCmd(s *script, _ *testscript.TestScript, args []string) (string, error) {
	if len(args) != 1 || s.rig.server == nil {
		return "", errors.New("wanted connected, disconnected, crash or drift, and an agent")
	}
	st := s.rig.server.Status
	conditions := map[string]func() bool{
		"connected":    func() bool { return st().Connected },
		"disconnected": func() bool { return !st().Connected },
		"crash":        func() bool { return s.rig.sim.Crashed() != "" },
		"drift":        func() bool { return st().Drift > 0 },
	}
	ok := conditions[args[0]]
	if ok == nil {
		return "", fmt.Errorf("%q: wanted connected, disconnected, crash or drift", args[0])
	}
	return "", s.rig.await(args[0], ok)
}

// packetCmd asks where the first packet of a flow would go, or sends one, which
// makes a session.
func packetCmd(s *script, _ *testscript.TestScript, args []string) (string, error) {
	args, send := flagged(args, "-send")
	if len(args) != 3 {
		return "", errors.New("wanted PROTO SRC:PORT DST:PORT")
	}
	proto, err := types.ParseProtocol(args[0])
	src, err1 := netip.ParseAddrPort(args[1])
	dst, err2 := netip.ParseAddrPort(args[2])
	if err := errors.Join(err, err1, err2); err != nil {
		return "", err
	}
	p := vppsim.Packet{Proto: proto, Src: src, Dst: dst, InterfaceIndex: 1}
	if send {
		return s.rig.sim.Send(p).String() + "\n", nil
	}
	return s.rig.sim.Trace(p).String() + "\n", nil
}

// faultsCmd replaces the faults: the usual ones, or what the arguments say.
func faultsCmd(s *script, _ *testscript.TestScript, args []string) (string, error) {
	f := vppsim.Faults{}
	if len(args) == 0 {
		return "", errors.New("wanted none, usual, or one NAME=VALUE after another")
	}
	for _, arg := range args {
		name, text, _ := strings.Cut(arg, "=")
		var err error
		number := func(to *int) { *to, err = strconv.Atoi(text) }
		switch name {
		case "none":
		case "usual":
			f = usual()
		case "fail":
			f.FailProbability, err = strconv.ParseFloat(text, 64)
		case "messages":
			f.Messages = strings.Split(text, ",")
		case "failnext":
			number(&f.FailNext)
		case "dropreply":
			number(&f.DropReply)
		case "cutbefore":
			number(&f.CutBefore)
		case "cutafter":
			number(&f.CutAfter)
		case "diebefore":
			number(&f.DieBefore)
		case "dieafter":
			number(&f.DieAfter)
		case "delay":
			f.Delay, err = time.ParseDuration(text)
		case "key":
			var k types.Key
			if k, err = types.ParseKey(text); err == nil {
				if f.FailKeys == nil {
					f.FailKeys = map[types.Key]int32{}
				}
				f.FailKeys[k] = -12
			}
		default:
			err = errors.New("not known; see README.md")
		}
		if err != nil {
			return "", fmt.Errorf("%s: %w", arg, err)
		}
	}
	s.faults(f)
	return "", nil
}

// sweepCmd lets VPP's scanner end the sessions of backends that are gone.
func sweepCmd(s *script, _ *testscript.TestScript, _ []string) (string, error) {
	s.rig.sim.Sweep()
	return "", nil
}

// snatCmd shows the state of source NAT.
func snatCmd(s *script, _ *testscript.TestScript, _ []string) (string, error) {
	return s.rig.snat(), nil
}

func (r *rig) snat() string {
	n := r.sim.SNAT()
	address := func(a netip.Addr) string {
		if !a.IsValid() {
			return "none"
		}
		return a.String()
	}
	return fmt.Sprintf("addresses %s, %s\npolicy %d\nexcluded %v\nfeature on %v\n", address(n.IP4), address(n.IP6), n.Policy, n.Excluded, n.Features)
}

// clientsCmd compares the number of API clients that VPP has.
func clientsCmd(s *script, _ *testscript.TestScript, args []string) (string, error) {
	if len(args) != 1 {
		return "", errors.New("wanted a number")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return "", err
	}
	return "", s.rig.await(fmt.Sprintf("%d clients", n), func() bool { return s.rig.sim.Clients() == n })
}

// intruderCmd writes into VPP behind the agent's back.
func intruderCmd(s *script, ts *testscript.TestScript, args []string) (out string, err error) {
	if len(args) < 2 {
		return "", errors.New("wanted add FILE, or delete and the keys")
	}
	var writes []types.CnatWrite
	switch args[0] {
	case "add":
		entries, err := readEntries(ts.ReadFile(args[1]))
		if err != nil {
			return "", err
		}
		for i := range entries {
			writes = append(writes, types.CnatWrite{Entry: &entries[i]})
		}
	case "delete":
		for _, arg := range args[1:] {
			key, err := types.ParseKey(arg)
			if err != nil {
				return "", err
			}
			found := false
			for _, t := range s.rig.sim.Translations() {
				if t.Entry.Key() == key {
					writes, found = append(writes, types.CnatWrite{ID: t.ID}), true
				}
			}
			if !found {
				return "", fmt.Errorf("VPP has no %s", key)
			}
		}
	default:
		return "", fmt.Errorf("%q: wanted add or delete", args[0])
	}
	s.rig.sim.SetFaults(vppsim.Faults{})
	defer s.rig.sim.SetFaults(s.current)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	session, err := vpplink.Connect(ctx, vpplink.DefaultConfig(s.rig.sim.Socket()))
	if err != nil {
		return "", err
	}
	defer session.Close()
	var errs []error
	for _, r := range session.CnatTranslateBatch(ctx, writes) {
		errs = append(errs, r.Err)
	}
	s.rig.intruded = true
	return "", errors.Join(errs...)
}
