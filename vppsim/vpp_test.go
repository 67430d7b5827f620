// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.fd.io/govpp/adapter/socketclient"
	interfaces "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/core"
)

// realVPP starts the VPP that VPP_BIN names, with one interface loop0 like the
// one of contractConfig, and returns its API socket and a channel that is
// closed when it dies. The test is skipped when there is none.
func realVPP(t *testing.T) (socket string, died <-chan struct{}) {
	t.Helper()
	bin := os.Getenv("VPP_BIN")
	if bin == "" {
		t.Skip("VPP_BIN names no VPP to compare with")
	}
	plugins, err := filepath.Glob(filepath.Join(filepath.Dir(bin), "..", "lib", "*", "vpp_plugins"))
	if err != nil || len(plugins) == 0 {
		t.Fatalf("no plugins beside %s: %v", bin, err)
	}
	dir, err := os.MkdirTemp("", "vpp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket = filepath.Join(dir, "api.sock")
	startup := fmt.Sprintf(`unix { nodaemon cli-listen %[1]s/cli.sock }
socksvr { socket-name %[1]s/api.sock }
api-segment { prefix %[2]s }
buffers { page-size default }
memory { main-heap-page-size default main-heap-size 512M }
statseg { socket-name %[1]s/stats.sock size 32M }
plugins { path %[3]s plugin default { disable } plugin cnat_plugin.so { enable } }
`, dir, filepath.Base(dir), plugins[0])
	if err := os.WriteFile(filepath.Join(dir, "startup.conf"), []byte(startup), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "-c", filepath.Join(dir, "startup.conf"))
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() { cmd.Wait(); log.Close(); close(gone) }()
	t.Cleanup(func() { cmd.Process.Kill(); <-gone })
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if c, err := net.Dial("unix", socket); err == nil {
			c.Close()
			makeLoopback(t, socket)
			return socket, gone
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("%s does not come up:\n%s", bin, text)
		}
	}
}

// makeLoopback makes the interface of contractConfig.
func makeLoopback(t *testing.T, socket string) {
	t.Helper()
	conn, err := core.Connect(socketclient.NewVppClient(socket))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Disconnect()
	var loop interfaces.CreateLoopbackReply
	invoke(t, conn, &interfaces.CreateLoopback{}, &loop, &loop.Retval)
	var up interfaces.SwInterfaceSetFlagsReply
	rv := invoke(t, conn, &interfaces.SwInterfaceSetFlags{
		SwIfIndex: loop.SwIfIndex, Flags: interface_types.IF_STATUS_API_FLAG_ADMIN_UP,
	}, &up, &up.Retval)
	for _, a := range contractConfig.Interfaces[0].Addresses {
		var r interfaces.SwInterfaceAddDelAddressReply
		rv |= invoke(t, conn, &interfaces.SwInterfaceAddDelAddress{
			SwIfIndex: loop.SwIfIndex, IsAdd: true, Prefix: ip_types.AddressWithPrefix(apiPrefix(a)),
		}, &r, &r.Retval)
	}
	if loop.Retval != 0 || rv != 0 {
		t.Fatalf("no loop0: %d, %d", loop.Retval, rv)
	}
}

// contractConfig makes the simulator look like the VPP of realVPP.
var contractConfig = Config{
	Interfaces: []Interface{{
		Name:    "loop0",
		DevType: "Loopback",
		Addresses: []netip.Prefix{
			netip.MustParsePrefix("192.0.2.11/24"),
			netip.MustParsePrefix("2001:db8::11/64"),
		},
	}},
}
