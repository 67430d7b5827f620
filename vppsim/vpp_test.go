// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.fd.io/govpp/adapter/socketclient"
	interfaces "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/vlib"
	"go.fd.io/govpp/core"

	"calico-vpp-services/test/realvpp"
)

// realVPP starts a real VPP, if there is one, with one interface loop0 like the
// one of contractConfig, and returns its API socket and a channel that is
// closed when it dies. The test is skipped when there is none.
func realVPP(t *testing.T) (socket string, died <-chan struct{}) {
	t.Helper()
	socket, died = bareVPP(t)
	makeLoopback(t, socket)
	return socket, died
}

// bareVPP is realVPP without the interface.
func bareVPP(t *testing.T) (socket string, died <-chan struct{}) {
	t.Helper()
	v := realvpp.Start(t, "")
	return v.Socket, v.Died
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

// realNode is a real VPP with the interfaces of nodeConfig, made of packet
// generators. It skips the test when there is no VPP.
func realNode(t *testing.T) *conversation {
	t.Helper()
	socket, died := bareVPP(t)
	conn, err := core.Connect(socketclient.NewVppClient(socket))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Disconnect)
	s := &conversation{t: t, conn: conn, died: died}
	for n, i := range nodeConfig.Interfaces {
		s.cli("create packet-generator interface pg%d mode ip4", n)
		s.cli("set interface state pg%d up", n)
		for _, a := range i.Addresses {
			if n == 2 {
				continue // VPP refuses an address twice in a table
			}
			s.cli("set interface ip address pg%d %s", n, a)
		}
		s.cli("enable ip4 interface pg%d", n)
	}
	return s
}

// cli runs a command, which must say nothing if it starts with a verb of
// configuration.
func (s *conversation) cli(format string, args ...any) string {
	s.t.Helper()
	var r vlib.CliInbandReply
	cmd := fmt.Sprintf(format, args...)
	if rv := invoke(s.t, s.conn, &vlib.CliInband{Cmd: cmd}, &r, &r.Retval); rv != 0 {
		s.t.Fatalf("%s: %d %s", cmd, rv, r.Reply)
	}
	return r.Reply
}

var streams int

// sendPacket sends one packet and tells what became of it, with VPP's trace.
func (s *conversation) sendPacket(p Packet) (what, trace string) {
	s.t.Helper()
	streams++
	name := fmt.Sprintf("s%d", streams)
	s.cli("clear trace")
	s.cli("trace add pg-input 10")
	s.cli("packet-generator new { name %s limit 1 node ip4-input size 64-64 interface pg%d data { TCP: %s -> %s TCP: %d -> %d incrementing 20 } }",
		name, p.InterfaceIndex-1, p.Src.Addr(), p.Dst.Addr(), p.Src.Port(), p.Dst.Port())
	s.cli("packet-generator enable-stream %s", name)
	await(s.t, "the packet has passed", func() bool {
		trace = s.cli("show trace")
		return strings.Contains(trace, "Packet 1")
	})
	return readTrace(trace), trace
}

var (
	traceNode = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d:\d+: (\S+)$`)
	traceAddr = regexp.MustCompile(`TCP: (\d+\.\S+) -> (\d+\.\S+)\n`)
	tracePort = regexp.MustCompile(`TCP: (\d+) -> (\d+)\n`)
	traceTx   = regexp.MustCompile(`^pg(\d)-tx$`)
)

// readTrace finds the end of a packet in "show trace".
func readTrace(trace string) string {
	nodes := traceNode.FindAllStringSubmatch(trace, -1)
	if len(nodes) == 0 {
		return "no trace"
	}
	last := nodes[len(nodes)-1][1]
	if strings.Contains(trace, "action:send-unreachable") {
		// What becomes of it depends on the clock: VPP answers what looks alike once
		// in a tenth of a second, and drops the rest.
		return "unreachable"
	}
	for _, n := range nodes {
		switch n[1] {
		case "ip4-icmp-error":
			return "unreachable"
		case "ip4-local", "ip4-receive":
			return "local"
		}
	}
	tx := traceTx.FindStringSubmatch(last)
	addrs, ports := traceAddr.FindAllStringSubmatch(trace, -1), tracePort.FindAllStringSubmatch(trace, -1)
	if tx == nil || len(addrs) == 0 || len(ports) == 0 {
		return "dropped"
	}
	a, p := addrs[len(addrs)-1], ports[len(ports)-1]
	n, _ := strconv.Atoi(tx[1])
	if first := addrs[0]; first[1] != a[1] {
		return fmt.Sprintf("%s -> %s:%s by %d", a[1], a[2], p[2], n+1)
	}
	return fmt.Sprintf("%s:%s -> %s:%s by %d", a[1], p[1], a[2], p[2], n+1)
}
