// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"calico-vpp-services/inspect"
	"calico-vpp-services/test/realvpp"
)

// translationLine is how VPP's CLI prints the key of a translation.
var translationLine = regexp.MustCompile(`(?m)^\[\d+\] (\S+);(\d+) (\S+) `)

// vppctlKeys returns the keys of `show cnat translation`, sorted.
func vppctlKeys(t *testing.T, vpp *realvpp.VPP) []string {
	t.Helper()
	var keys []string
	for _, m := range translationLine.FindAllStringSubmatch(vpp.Ctl(t, "show", "cnat", "translation"), -1) {
		keys = append(keys, fmt.Sprintf("%s %s", m[3], net.JoinHostPort(m[1], m[2])))
	}
	slices.Sort(keys)
	return keys
}

// TestRealVPPReplay plays the recording on a real VPP, which must hold what it
// says in final, by its own CLI too, and be alive after that.
func TestRealVPPReplay(t *testing.T) {
	vpp := realvpp.Start(t, "")
	for _, batch := range []string{"--batch=false", "--batch"} {
		res := replayJSON(t, "", recording, "--node-name", "node-a", "--vpp-api-socket", vpp.Socket, batch)
		var final []string
		for _, f := range res.Final {
			final = append(final, fmt.Sprintf("%s %s", f.Proto, net.JoinHostPort(f.IP, fmt.Sprint(f.Port))))
		}
		slices.Sort(final)
		if got := vppctlKeys(t, vpp); len(got) != 10 || !slices.Equal(got, final) {
			t.Errorf("%s: vppctl says\n%s\nfinal says\n%s", batch, strings.Join(got, "\n"), strings.Join(final, "\n"))
		}
	}
	for _, events := range [][]string{{"+b", "+a", "-b"}, {"+a", "+b", "-a", "-b"}} {
		res := replayJSON(t, sharedIP(events...), "-", "--node-name", "node-a", "--vpp-api-socket", vpp.Socket)
		if got := vppctlKeys(t, vpp); len(got) != len(res.Final) {
			t.Errorf("%v: vppctl says %v, final %v", events, got, res.Final)
		}
	}
	if got := vppctlKeys(t, vpp); len(got) != 0 {
		t.Errorf("all Services are gone, VPP holds %v", got)
	}
}

// TestRealVPPDrift: a translation that somebody deletes with vppctl is mended
// by a resync.
func TestRealVPPDrift(t *testing.T) {
	vpp := realvpp.Start(t, "")
	admin := filepath.Join(t.TempDir(), "admin.sock")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := cli(ctx, "", "run", "--manifests", "../../yaml/demo", "--vpp-api-socket", vpp.Socket, "--node-name", "node-a",
			"--admin-socket", admin, "--cnat-interface", "local0", "--snat", "--snat-exclude", "10.244.0.0/16")
		ended <- err
	}()
	client := inspect.NewClient(admin)
	defer client.Close()
	ready := func() bool {
		st, err := client.Status(t.Context())
		return err == nil && st.Ready() && st.Keys == 12
	}
	waitFor(t, "the agent is ready", ready)
	before := vppctlKeys(t, vpp)
	vpp.Ctl(t, "cnat", "translation", "del", "3")
	if n := len(vppctlKeys(t, vpp)); n != len(before)-1 {
		t.Fatalf("vppctl deleted nothing: %d translations", n)
	}
	if _, _, err := cli(t.Context(), "", "resync", "--admin-socket", admin); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the drift is mended", func() bool { return slices.Equal(vppctlKeys(t, vpp), before) })
	if out := vpp.Ctl(t, "show", "cnat", "snat-policy"); !strings.Contains(out, "192.0.2.11") {
		t.Errorf("SNAT is not set: %s", out)
	}
	for _, prefix := range []string{"198.51.100.80/32", "10.96.0.40/32"} {
		if out := vpp.Ctl(t, "show", "ip", "fib", prefix); !strings.Contains(out, "unreach") {
			t.Errorf("%s is not refused:\n%s", prefix, out)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(admin); err == nil {
		t.Error("the admin socket is still there")
	}
}
