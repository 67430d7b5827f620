// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"calico-vpp-services/inspect"
	"calico-vpp-services/services"
	"calico-vpp-services/test/realvpp"
)

// asProgram, in the environment, makes the test binary the program itself, so
// that there is a process to kill.
const asProgram = "CALICO_VPP_SERVICES_TEST_MAIN"

// process is the program as a process of its own. It dies with the test.
func process(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "KUBERNETES_SERVICE_HOST=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kill(t, cmd) })
	return cmd
}

// kill is kill -9.
func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if cmd.ProcessState != nil {
		return
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("a killed process ended well")
	}
}

// manyManifests writes n Services with two endpoints each, and node-a.
func manyManifests(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("{apiVersion: v1, kind: Node, metadata: {name: node-a}, status: {addresses: [{type: InternalIP, address: 192.0.2.11}]}}\n")
	for i := range n {
		ip := fmt.Sprintf("10.96.%d.%d", 1+i/200, 1+i%200)
		fmt.Fprintf(&b, "---\n{apiVersion: v1, kind: Service, metadata: {namespace: shop, name: s%d}, spec: {clusterIP: %s, clusterIPs: [%s], ipFamilies: [IPv4], sessionAffinity: %s, ports: [{port: 80}]}}\n",
			i, ip, ip, []string{"None", "ClientIP"}[i%2])
		fmt.Fprintf(&b, "---\n{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {namespace: shop, name: s%d, labels: {kubernetes.io/service-name: s%d}}, addressType: IPv4, ports: [{port: 8080}], endpoints: [{addresses: [10.244.1.5]}, {addresses: [10.244.2.5]}]}\n", i, i)
	}
	path := filepath.Join(t.TempDir(), "many.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// restartQuiet kills an agent with 1,000 Services and starts it again: VPP hears
// no update and no delete.
func restartQuiet(t *testing.T, socket string, more ...string) {
	t.Helper()
	manifests, admin := manyManifests(t, 1000), filepath.Join(t.TempDir(), "admin.sock")
	metrics := freeAddress(t)
	args := append([]string{"run", "--manifests", manifests, "--vpp-api-socket", socket, "--node-name", "node-a",
		"--admin-socket", admin, "--metrics-address", metrics, "--service-cidr", "10.96.0.0/16", "--log-level", "error"}, more...)
	client := inspect.NewClient(admin)
	defer client.Close()
	ready := func() bool {
		st, err := client.Status(t.Context())
		return err == nil && st.Ready() && st.Keys == 1000
	}
	agent := process(t, args...)
	waitFor(t, "1,000 Services are programmed", ready)
	if got := scrape(t, metrics, `calico_vpp_services_vpp_calls_total{call="translation_update"}`); got != "1000" {
		t.Errorf("%s updates for 1,000 new translations", got)
	}
	kill(t, agent)
	began := time.Now()
	process(t, args...)
	waitFor(t, "the next agent is ready", ready)
	t.Logf("ready %s after kill -9", time.Since(began).Round(time.Millisecond))
	for _, call := range []string{"translation_update", "translation_delete"} {
		if got := scrape(t, metrics, `calico_vpp_services_vpp_calls_total{call="`+call+`"}`); got != "0" {
			t.Errorf("%s: %s calls of an agent that found everything in place", call, got)
		}
	}
	if st, err := client.Status(t.Context()); err != nil || st.Drift != 0 || st.Foreign != 0 {
		t.Errorf("status %+v, %v", st, err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	s, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return s.Addr().String()
}

// scrape returns the value of one metric.
func scrape(t *testing.T, address, name string) string {
	t.Helper()
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+" "); ok {
			return value
		}
	}
	t.Fatalf("no metric %s in\n%s", name, text)
	return ""
}

// Scenario 32, with processes: kill -9 and start again is quiet, in both modes.
func TestScenario32KilledAgentIsQuiet(t *testing.T) {
	for _, mode := range []services.Mode{services.Standalone, services.Sidecar} {
		t.Run(string(mode), func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "api.sock")
			process(t, "vpp-sim", "--socket", socket, "--log-level", "error")
			restartQuiet(t, socket, "--mode", string(mode))
		})
	}
}

func TestRealVPPKilledAgentIsQuiet(t *testing.T) {
	vpp := realvpp.Start(t, "")
	restartQuiet(t, vpp.Socket)
	if n := len(vppctlKeys(t, vpp)); n != 1000 {
		t.Errorf("vppctl shows %d translations, want 1000", n)
	}
}
