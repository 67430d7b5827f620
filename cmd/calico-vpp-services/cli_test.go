// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"calico-vpp-services/inspect"
	"calico-vpp-services/vppsim"
)

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// cli runs the program in this process and returns what it printed.
func cli(ctx context.Context, stdin string, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(strings.NewReader(stdin))
	root.SetOut(&out)
	root.SetErr(&errs)
	err = root.ExecuteContext(ctx)
	return out.String(), errs.String(), err
}

// TestDemo: the README's first command shows a takeover and its cost.
func TestDemo(t *testing.T) {
	out, _, err := cli(t.Context(), "", "demo")
	if err != nil {
		t.Fatal(err)
	}
	steps := strings.Split(out, "2. shop/sale-b")
	if len(steps) != 2 {
		t.Fatalf("no second step in:\n%s", out)
	}
	for i, want := range []string{
		`(?m)^TCP +198\.51\.100\.10:443 +shop/sale-b +ExternalIP +programmed +10\.244\.1\.60:8443 +shop/sale-a$`,
		`(?m)^TCP +198\.51\.100\.10:443 +shop/sale-a +ExternalIP +programmed +10\.244\.1\.50:8443 +-$`,
	} {
		if !regexp.MustCompile(want).MatchString(steps[i]) {
			t.Errorf("step %d does not match %s:\n%s", i+1, want, steps[i])
		}
	}
	for i, want := range []string{"11 update, 0 delete, 1 dump", "1 update, 1 delete, 0 dump"} {
		if !strings.Contains(steps[i], want) {
			t.Errorf("step %d does not say %q", i+1, want)
		}
	}
}

// TestErrorsSayWhatToDo: each is one line that names the flag or file, and
// what is accepted.
func TestErrorsSayWhatToDo(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	dir := t.TempDir()
	broken := filepath.Join(dir, "broken.jsonl")
	if err := os.WriteFile(broken, []byte("{\"type\":\"BOOKMARK\",\"object\":{}}\n{not json\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	old, err := vppsim.New(vppsim.Config{Socket: filepath.Join(dir, "old.sock"), Version: "25.10-release", HideMessages: []string{"feature_cnat_enable_disable"}})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	demo := "../../yaml/demo"
	for _, tc := range []struct {
		args string
		says []string
	}{
		{"run", []string{"--manifests", "--kubeconfig"}},
		{"run --manifests /nonexistent --vpp embedded --once", []string{"/nonexistent", "yaml"}},
		{"run --manifests " + demo + " --vpp-api-socket /nonexistent.sock --vpp-wait 10ms --once", []string{"/nonexistent.sock", "does not exist", "startup.conf"}},
		{"run --manifests " + demo + " --vpp-api-socket " + old.Socket() + " --once", []string{"25.10-release", "26.06", "feature_cnat_enable_disable"}},
		{"run --manifests " + demo + " --vpp other --once", []string{"--vpp", "embedded", "--vpp-api-socket"}},
		{"run --manifests " + demo + " --vpp embedded --node-ip 300.1.1.1 --once", []string{"--node-ip", "300.1.1.1", "IPv4 or IPv6"}},
		{"run --manifests " + demo + " --vpp embedded --node-ip 127.0.0.1 --once", []string{"--node-ip 127.0.0.1", "a loopback address", "others can reach"}},
		{"run --manifests " + demo + " --vpp embedded --node-ip fe80::1,169.254.1.1 --once", []string{"--node-ip fe80::1: a link-local address", "--node-ip 169.254.1.1: a link-local address"}},
		{"run --manifests " + demo + " --vpp embedded --node-ip 2001:db8::1%eth0 --once", []string{"--node-ip 2001:db8::1%eth0", "without a zone"}},
		{"run --manifests " + demo + " --vpp-api-socket /nonexistent.sock --vpp-wait 0s --once", []string{"/nonexistent.sock", "does not exist", "startup.conf"}},
		{"run --manifests " + demo + " --vpp-api-socket /nonexistent.sock --vpp-wait 1ns --once", []string{"/nonexistent.sock", "does not exist", "startup.conf"}},
		{"run --manifests " + demo + " --kubeconfig x --once", []string{"kubeconfig", "manifests"}},
		{"run --manifests " + demo + " --vpp embedded --once -o xml", []string{"-o", "table, wide, json, yaml"}},
		{"run --kubeconfig /nonexistent --vpp embedded --once", []string{"/nonexistent"}},
		{"run --manifests " + demo + " --snat-exclude 10.0.0.0 --service-cidr 010.96.0.0/16 --guard-exempt ::ffff:10.0.0.0/104 --nodeport-addresses 0192.0.2.0/24",
			[]string{`--snat-exclude: "10.0.0.0"`, `--service-cidr: "010.96.0.0/16": wanted address/length`, `--guard-exempt: "::ffff:10.0.0.0/104"`, `--nodeport-addresses: "0192.0.2.0/24": accepted`}},
		{"run --manifests " + demo + " --service-cidr 0.0.0.0/0 --service-proxy-name a!b", []string{"--service-cidr: 0.0.0.0/0", `--service-proxy-name: proxy name "a!b"`}},
		{"run --bogus", []string{"--bogus", "--help"}},
		{"run --manifests " + demo + " --log-level loud", []string{"--log-level", "info", "debug"}},
		{"replay", []string{"give the files"}},
		{"replay /nonexistent", []string{"/nonexistent", "record"}},
		{"replay " + broken, []string{"broken.jsonl:2"}},
		{"replay " + recording + " -o yaml", []string{"-o", "table, json"}},
		{"show translations --admin-socket /nonexistent.sock", []string{"/nonexistent.sock", "is it running"}},
		{"show translations -o xml", []string{"table, wide, json, yaml"}},
		{"vpp-sim", []string{"--socket"}},
		{"vpp-sim --socket /tmp/x --fail 2", []string{"--fail", "0 to 1"}},
		{"vpp-sim --socket /tmp/x --address 192.0.2.1", []string{"--address", "192.0.2.11/24"}},
	} {
		t.Run(tc.args, func(t *testing.T) {
			_, _, err := cli(t.Context(), "", strings.Fields(tc.args)...)
			if err == nil {
				t.Fatal("no error")
			}
			for _, w := range tc.says {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
		})
	}
}

// TestNodeNameOfHost: the host's name is made a Node's, as the kubelet does.
func TestNodeNameOfHost(t *testing.T) {
	for host, want := range map[string]string{"node-a": "node-a", "Node-A.Example": "node-a.example", " n1\n": "n1"} {
		if got, err := nodeNameOf(host, nil); got != want || err != nil {
			t.Errorf("%q: %q, %v; want %q", host, got, err, want)
		}
	}
	for host, failure := range map[string]error{" ": nil, "": os.ErrPermission} {
		if got, err := nodeNameOf(host, failure); err == nil || !strings.Contains(err.Error(), "--node-name") {
			t.Errorf("%q, %v: %q, %v; want an error that names --node-name", host, failure, got, err)
		}
	}
}

// TestOnce: exit code 0 and the table when all is programmed; an error that
// names a key, and the table, when VPP refuses writes.
func TestOnce(t *testing.T) {
	args := []string{"run", "--manifests", "../../yaml/demo", "--node-name", "node-a", "--once", "--log-level", "error"}
	out, _, err := cli(t.Context(), "", append(args, "--vpp", "embedded", "-o", "wide")...)
	if err != nil || !strings.Contains(out, "shop/sale-b") || strings.Contains(out, "failed") {
		t.Errorf("%v\n%s", err, out)
	}
	sim, err := vppsim.New(vppsim.Config{Socket: filepath.Join(t.TempDir(), "api.sock")})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	sim.SetFaults(vppsim.Faults{Messages: []string{"cnat_translation_update"}, FailProbability: 1})
	out, _, err = cli(t.Context(), "", append(args, "--vpp-api-socket", sim.Socket())...)
	if err == nil || !strings.Contains(err.Error(), "could not be programmed") || !strings.Contains(err.Error(), "TCP;10.96.0.10;80") {
		t.Errorf("error %v", err)
	}
	if strings.Count(out, "failed") < 10 {
		t.Errorf("the table does not show what failed:\n%s", out)
	}
}

// TestRunAndShow runs an agent and asks it; a second agent is refused before
// it touches VPP, and the first leaves VPP as it is.
func TestRunAndShow(t *testing.T) {
	dir := t.TempDir()
	sim, err := vppsim.New(vppsim.Config{Socket: filepath.Join(dir, "api.sock")})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	admin := filepath.Join(dir, "admin", "admin.sock")
	args := []string{"run", "--manifests", "../../yaml/demo", "--vpp-api-socket", sim.Socket(), "--node-name", "node-a", "--admin-socket", admin}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := cli(ctx, "", args...)
		ended <- err
	}()
	client := inspect.NewClient(admin)
	defer client.Close()
	waitFor(t, "the agent is ready", func() bool {
		st, err := client.Status(t.Context())
		return err == nil && st.Ready() && st.Keys == 12
	})
	for path, want := range map[string]os.FileMode{admin: 0o600, filepath.Dir(admin): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want mode %o", path, info.Mode(), err, want)
		}
	}
	for format, want := range map[string]string{"table": "shop/sale-b", "json": `"service": "shop/sale-b"`, "yaml": "service: shop/sale-b", "wide": "maglev"} {
		if out, _, err := cli(t.Context(), "", "show", "translations", "--admin-socket", admin, "-o", format); err != nil || !strings.Contains(out, want) {
			t.Errorf("-o %s: %v\n%s", format, err, out)
		}
	}
	if out, _, err := cli(t.Context(), "", "resync", "--admin-socket", admin); err != nil || !strings.Contains(out, "12 keys claimed, 0 found otherwise") {
		t.Errorf("resync: %v\n%s", err, out)
	}
	connections := sim.Stats().Connections
	if _, _, err := cli(t.Context(), "", args...); err == nil || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("a second agent: %v", err)
	}
	if n := sim.Stats().Connections; n != connections {
		t.Errorf("a second agent connected to VPP")
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	if n := len(sim.Translations()); n != 11 {
		t.Errorf("%d translations left in VPP, want 11", n)
	}
	if _, err := os.Stat(admin); err == nil {
		t.Error("the admin socket is still there")
	}
}

// TestCleanup: what run left in VPP is removed, by one try to reach it.
func TestCleanup(t *testing.T) {
	dir := t.TempDir()
	sim, err := vppsim.New(vppsim.Config{Socket: filepath.Join(dir, "api.sock")})
	if err != nil {
		t.Fatal(err)
	}
	defer sim.Close()
	vpp := []string{"--vpp-api-socket", sim.Socket(), "--vpp-wait", "0s", "--log-level", "error"}
	if _, _, err := cli(t.Context(), "", append(vpp, "run", "--manifests", "../../yaml/demo", "--node-name", "node-a", "--once")...); err != nil {
		t.Fatal(err)
	}
	if n := len(sim.Translations()); n != 11 {
		t.Errorf("run left %d translations, want 11", n)
	}
	out, _, err := cli(t.Context(), "", append(vpp, "cleanup")...)
	if err != nil || out != "removed 11 translations\n" || len(sim.Translations()) != 0 {
		t.Errorf("%v: %s; %d translations left", err, out, len(sim.Translations()))
	}
}

func TestVersion(t *testing.T) {
	out, _, err := cli(t.Context(), "", "version")
	if err != nil || !strings.HasPrefix(out, "calico-vpp-services devel\n") || !strings.Contains(out, "26.06") {
		t.Errorf("%v\n%s", err, out)
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
