// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"calico-vpp-services/services/model"
)

// command is one command of scripts; what it returns is its standard output.
type command func(s *script, ts *testscript.TestScript, args []string) (string, error)

// commands are described in README.md.
func commands() map[string]func(*testscript.TestScript, bool, []string) {
	out := map[string]func(*testscript.TestScript, bool, []string){}
	for name, c := range map[string]command{
		"agent": agentCmd, "synced": syncedCmd, "apply": applyCmd, "delete": deleteCmd, "settle": settleCmd,
		"translations": tableCmd, "vpp": vppCmd, "routes": routesCmd, "calls": callsCmd, "events": eventsCmd, "log": logCmd,
		"faults": faultsCmd, "load": loadCmd, "restartvpp": restartCmd, "droplink": dropCmd, "packet": packetCmd,
		"await": awaitCmd, "noorders": noOrdersCmd, "resync": resyncCmd, "snat": snatCmd, "sweep": sweepCmd,
		"clients": clientsCmd, "writes": writesCmd, "intruder": intruderCmd,
	} {
		out[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			s := ts.Value(key{}).(*script)
			text, err := c(s, ts, args)
			if neg && err == nil {
				ts.Fatalf("%s succeeded", name)
			}
			if err != nil && !neg {
				ts.Fatalf("%s: %v", name, err)
			}
			if err != nil {
				fmt.Fprintln(ts.Stderr(), err)
			}
			fmt.Fprint(ts.Stdout(), text)
		}
	}
	return out
}

// flagged takes a flag off the front of args.
func flagged(args []string, flag string) ([]string, bool) {
	if len(args) > 0 && args[0] == flag {
		return args[1:], true
	}
	return args, false
}

func agentCmd(s *script, _ *testscript.TestScript, args []string) (string, error) {
	if len(args) == 0 {
		return "", errors.New("wanted start, stop, kill or restart")
	}
	switch args[0] {
	case "start":
		cfg, flags, err := parseAgent(args[1:])
		if err != nil {
			return "", err
		}
		s.cfg, s.flags = cfg, flags
		return "", s.startAgent()
	case "stop":
		return "", s.rig.stop()
	case "kill":
		return "", s.rig.kill()
	case "restart":
		if s.cfg == nil {
			return "", errors.New("there was no agent yet")
		}
		n := 1
		if len(args) > 1 {
			var err error
			if n, err = strconv.Atoi(args[1]); err != nil {
				return "", err
			}
		}
		for range n {
			if err := errors.Join(s.rig.stop(), s.startAgent()); err != nil {
				return "", err
			}
		}
		return "", nil
	}
	return "", fmt.Errorf("%q: wanted start, stop, kill or restart", args[0])
}

func (s *script) startAgent() error {
	if err := s.rig.start(s.cfg, s.flags, s.world.list(), s.flags.unsynced); err != nil {
		return err
	}
	if s.flags.unsynced {
		return s.rig.await("connected to VPP", func() bool { return s.rig.server.Status().Connected })
	}
	return s.send(nil, len(s.refused) == 0)
}

func syncedCmd(s *script, _ *testscript.TestScript, _ []string) (string, error) {
	if s.rig.server == nil {
		return "", errors.New("the agent does not run")
	}
	if err := s.rig.sync(); err != nil {
		return "", err
	}
	return "", s.rig.settle()
}

func (s *script) read(ts *testscript.TestScript, files []string) ([]model.Event, error) {
	if s.flags == nil {
		s.flags = &agentOptions{}
	}
	var out []model.Event
	for _, file := range files {
		events, err := readObjects(file, []byte(ts.ReadFile(file)), s.flags.selection)
		if err != nil {
			return nil, err
		}
		out = append(out, events...)
	}
	if len(out) == 0 {
		return nil, errors.New("wanted files of objects")
	}
	return out, nil
}

func applyCmd(s *script, ts *testscript.TestScript, args []string) (string, error) {
	args, noWait := flagged(args, "-nowait")
	events, err := s.read(ts, args)
	if err != nil {
		return "", err
	}
	return "", s.send(events, !noWait)
}

// deleteCmd deletes what files have, or objects by key.
func deleteCmd(s *script, ts *testscript.TestScript, args []string) (string, error) {
	args, noWait := flagged(args, "-nowait")
	var events []model.Event
	for _, arg := range args {
		if e, there := s.world.objects[arg]; there {
			events = append(events, e)
			continue
		}
		if _, err := os.Stat(ts.MkAbs(arg)); err != nil {
			return "", fmt.Errorf("%s is neither an object nor a file; there are %s", arg,
				strings.Join(slices.Sorted(maps.Keys(s.world.objects)), ", "))
		}
		list, err := s.read(ts, []string{arg})
		if err != nil {
			return "", err
		}
		events = append(events, list...)
	}
	if len(events) == 0 {
		return "", errors.New("wanted files, or objects such as service/shop/web")
	}
	for i := range events {
		events[i].Op = model.Delete
	}
	return "", s.send(events, !noWait)
}

func settleCmd(s *script, _ *testscript.TestScript, _ []string) (string, error) {
	return "", s.rig.settle()
}

func tableCmd(s *script, _ *testscript.TestScript, _ []string) (string, error) {
	if s.rig.server == nil {
		return "", errors.New("the agent does not run")
	}
	return s.rig.table()
}

func vppCmd(s *script, _ *testscript.TestScript, _ []string) (string, error) {
	return s.rig.held(), nil
}

func routesCmd(s *script, _ *testscript.TestScript, _ []string) (string, error) {
	return s.rig.routes(), nil
}

// callsCmd compares what VPP carried out since the last time with what is expected.
func callsCmd(s *script, _ *testscript.TestScript, args []string) (string, error) {
	now := s.rig.sim.Applied()
	for name, n := range s.rig.sim.Calls() {
		if name == "cnat_translation_dump" {
			now[name] = n
		}
	}
	got := map[string]int{}
	for name, n := range now {
		short := map[string]string{
			"cnat_translation_update": "update", "cnat_translation_del": "del", "cnat_translation_dump": "dump", "ip_route_add_del": "route",
		}[name]
		if short == "" {
			short = "other"
		}
		got[short] += n - s.counted[name]
	}
	s.counted, s.writes = now, s.rig.sim.Writes()
	quiet := len(args) == 1 && args[0] == "none"
	if quiet {
		args = []string{"update=0", "del=0", "route=0", "other=0"}
	}
	for _, arg := range args {
		name, text, ok := strings.Cut(arg, "=")
		n, err := strconv.Atoi(text)
		if !ok || err != nil || !slices.Contains([]string{"update", "del", "dump", "route", "other"}, name) {
			return "", fmt.Errorf("%q: wanted none, or numbers of update=, del=, dump=, route=, other=", arg)
		}
		if got[name] != n {
			return "", fmt.Errorf("VPP carried out %d update, %d del, %d dump, %d route, %d other; wanted %s",
				got["update"], got["del"], got["dump"], got["route"], got["other"], strings.Join(args, " "))
		}
	}
	return fmt.Sprintf("%d update, %d del\n", got["update"], got["del"]), nil
}

// writesCmd checks how often VPP was told anything that changes it since the last
// "calls", whether or not it carried that out.
func writesCmd(s *script, _ *testscript.TestScript, args []string) (string, error) {
	n := s.rig.sim.Writes() - s.writes
	if len(args) != 1 || args[0] != strconv.Itoa(n) {
		return "", fmt.Errorf("VPP was told %d changes; wanted %s", n, strings.Join(args, " "))
	}
	return "", nil
}

func eventsCmd(s *script, _ *testscript.TestScript, _ []string) (string, error) {
	var out strings.Builder
	for _, line := range s.rig.reports.take(len(s.refused) > 0) {
		out.WriteString(line + "\n")
	}
	return out.String(), nil
}

func logCmd(s *script, _ *testscript.TestScript, _ []string) (string, error) {
	var out strings.Builder
	for _, e := range s.rig.log.AllEntries() {
		fmt.Fprintf(&out, "%s %s", e.Level, e.Message)
		for _, name := range slices.Sorted(maps.Keys(e.Data)) {
			fmt.Fprintf(&out, " %s=%v", name, e.Data[name])
		}
		out.WriteByte('\n')
	}
	return out.String(), nil
}

func loadCmd(s *script, ts *testscript.TestScript, args []string) (string, error) {
	for _, file := range args {
		entries, err := readEntries(ts.ReadFile(file))
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		if err := s.rig.sim.Load(entries); err != nil {
			return "", err
		}
		s.loaded = append(s.loaded, entries...)
	}
	return "", nil
}

func noOrdersCmd(s *script, _ *testscript.TestScript, args []string) (string, error) {
	if s.noOrders = strings.Join(args, " "); s.noOrders == "" {
		return "", errors.New("wanted the reason why the order of events counts")
	}
	return "", nil
}
