// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"go.fd.io/govpp/binapi/cnat"

	"calico-vpp-services/vpplink/binapi2606"
	"calico-vpp-services/vpplink/types"
)

func packet(src, dst string, at uint32) Packet {
	return Packet{Proto: types.TCP, Src: netip.MustParseAddrPort(src), Dst: netip.MustParseAddrPort(dst), InterfaceIndex: at}
}

// node is a small node: uplink 1 with the node's address, pods at 2 and 3.
func node(t *testing.T) (*Sim, *conversation) {
	sim := newSim(t, nodeConfig)
	s := &conversation{t: t, conn: connect(t, sim), died: sim.CrashC()}
	s.podRoutes()
	return sim, s
}

// podRoutes are the routes that the CNI would make.
func (s *conversation) podRoutes() {
	s.t.Helper()
	for i, pod := range []byte{5, 6} {
		p := via(0)
		p.SwIfIndex = uint32(2 + i)
		p.Nh.Address.XXX_UnionData = [16]byte{10, 244, 0, pod}
		s.route(fmt.Sprintf("10.244.0.%d/32", pod), 0, true, false, p)
	}
}

var nodeConfig = Config{Interfaces: []Interface{
	{Name: "uplink0", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.11/24")}},
	{Name: "pod1", Addresses: []netip.Prefix{netip.MustParsePrefix("169.254.0.1/32")}},
	{Name: "pod2", Addresses: []netip.Prefix{netip.MustParsePrefix("169.254.0.1/32")}},
}}

func (s *conversation) feature(on bool, indexes ...uint32) {
	s.t.Helper()
	for _, i := range indexes {
		m := &binapi2606.FeatureCnatEnableDisable{EnableDisable: on}
		m.SwIfIndex = interfaceIndex(i)
		var r binapi2606.FeatureCnatEnableDisableReply
		s.do(fmt.Sprintf("feature %d %v", i, on), m, &r, &r.Retval)
	}
}

func noClient(e types.CnatTranslateEntry) types.CnatTranslateEntry {
	e.Flags |= types.FlagNoClient
	return e
}

func real(e types.CnatTranslateEntry) types.CnatTranslateEntry {
	e.IsRealIP = true
	return e
}

// k8s sets source NAT up as a node does.
func (s *conversation) k8s(pods ...uint32) {
	s.t.Helper()
	s.setSNAT2(binapi2606.CnatSetSnatAddressesV2{
		SnatIP4: [4]byte{192, 0, 2, 11}, SwIfIndex: ^interfaceIndex(0),
		Flags: binapi2606.CnatSnatPolicyNoClient | binapi2606.CnatSnatPolicyUseAsDefault,
	})
	s.policy(binapi2606.CnatPolicyK8s)
	for _, i := range pods {
		s.snatIf(i, cnat.CNAT_POLICY_POD, true)
	}
}

// packets are questions "where does this packet go?" to a node that was set up
// by a few calls. The answers are those of a real VPP (see TestPackets).
var packets = []struct {
	name  string
	setup func(*conversation)
	sent  []string                    // "src > dst at interface"
	then  map[int]func(*conversation) // done before the packet with that index
	want  []string
}{
	{
		name: "without cnat the FIB decides (R1, R2)",
		setup: func(s *conversation) {
			s.route("10.96.0.0/16", 0, true, false, unreach)
			s.route("10.97.0.0/16", 0, true, false, drop)
			s.put(noClient(entry("10.98.0.1:80", "240.0.0.1:1")))
			s.feature(true, 2)
		},
		sent: []string{
			"10.244.0.5:1 > 10.244.0.6:80 at 2",
			"10.244.0.5:1 > 192.0.2.1:80 at 2",
			"10.244.0.5:1 > 192.0.2.11:80 at 2",
			"10.244.0.5:1 > 10.96.0.1:80 at 2",
			"10.244.0.5:1 > 10.97.0.1:80 at 2",
			"10.244.0.5:1 > 198.51.100.1:80 at 2",
			"10.244.0.5:1 > 10.98.0.1:80 at 2",
		},
		want: []string{
			"forwarded by 3",
			"forwarded by 1",
			"forwarded locally",
			"unreachable: route 10.96.0.0/16",
			"dropped: route 10.97.0.0/16 drops",
			"dropped: route 0.0.0.0/0 drops",
			"dropped to 240.0.0.1:1: route 240.0.0.1/32 drops",
		},
	},
	{
		name: "in the FIB a VIP takes every packet to its address (C1)",
		setup: func(s *conversation) {
			s.put(entry("10.96.0.1:80", "10.244.0.6:8080"))
		},
		sent: []string{
			"10.244.0.5:1 > 10.96.0.1:80 at 2",
			"192.0.2.1:1 > 10.96.0.1:80 at 1",
			"10.244.0.5:1 > 10.96.0.1:81 at 2",
		},
		want: []string{
			"translated to 10.244.0.6:8080 by 3",
			"translated to 10.244.0.6:8080 by 3",
			"dropped: 10.96.0.1 belongs to cnat, which has nothing for the port",
		},
	},
	{
		name: "without client only interfaces with the feature translate (C3)",
		setup: func(s *conversation) {
			s.put(noClient(entry("10.96.0.1:80", "10.244.0.6:8080")))
			s.route("10.96.0.0/16", 0, true, false, unreach)
			s.feature(true, 2, 3)
		},
		sent: []string{
			"10.244.0.5:1 > 10.96.0.1:80 at 2",
			"192.0.2.1:1 > 10.96.0.1:80 at 1",
			"10.244.0.5:1 > 10.96.0.1:81 at 2",
		},
		want: []string{
			"translated to 10.244.0.6:8080 by 3",
			"unreachable: route 10.96.0.0/16",
			"unreachable: route 10.96.0.0/16",
		},
	},
	{
		name: "an address of the node, real (C1)",
		setup: func(s *conversation) {
			s.put(real(entry("192.0.2.11:30080", "10.244.0.6:8080")))
		},
		sent: []string{"192.0.2.1:1 > 192.0.2.11:30080 at 1", "192.0.2.1:1 > 192.0.2.11:22 at 1"},
		want: []string{"translated to 10.244.0.6:8080 by 3", "forwarded locally"},
	},
	{
		name: "an address of the node, not real, is swallowed (C2)",
		setup: func(s *conversation) {
			s.put(entry("192.0.2.11:30080", "10.244.0.6:8080"))
			s.put(real(entry("192.0.2.11:30081", "10.244.0.6:8080")))
		},
		sent: []string{"192.0.2.1:1 > 192.0.2.11:30081 at 1", "192.0.2.1:1 > 192.0.2.11:22 at 1"},
		want: []string{"translated to 10.244.0.6:8080 by 3", "dropped: 192.0.2.11 belongs to cnat, which has nothing for the port"},
	},
	{
		name: "a source address with a client takes replies only",
		setup: func(s *conversation) {
			s.setSNAT2(binapi2606.CnatSetSnatAddressesV2{SnatIP4: [4]byte{192, 0, 2, 11}, SwIfIndex: ^interfaceIndex(0)})
		},
		sent: []string{"192.0.2.1:1 > 192.0.2.11:22 at 1"},
		want: []string{"dropped: 192.0.2.11 takes replies to source NATed flows only"},
	},
	{
		name: "source NAT as Kubernetes wants it (C4)",
		setup: func(s *conversation) {
			s.put(noClient(entry("10.96.0.1:80", "10.244.0.6:8080")))
			s.put(noClient(real(entry("192.0.2.11:30080", "10.244.0.6:8080"))))
			s.put(noClient(entry("10.96.0.2:80", "192.0.2.12:8080")))
			s.put(noClient(real(entry("192.0.2.11:30081", "192.0.2.12:8080"))))
			s.k8s(2, 3)
			s.feature(true, 1, 2, 3)
			s.route("0.0.0.0/0", 0, true, false, via(1))
			s.snatIf(2, cnat.CNAT_POLICY_INCLUDE_V4, true)
			s.exclude("10.244.0.0/16", true)
			s.exclude("192.0.2.0/24", true)
		},
		sent: []string{
			"10.244.0.5:1 > 10.96.0.1:80 at 2",
			"10.244.0.6:1 > 10.96.0.1:80 at 3",
			"192.0.2.1:1 > 192.0.2.11:30080 at 1",
			"192.0.2.1:1 > 192.0.2.11:30081 at 1",
			"10.244.0.5:1 > 10.96.0.2:80 at 2",
			"10.244.0.5:1 > 198.51.100.1:80 at 2",
			"10.244.0.6:1 > 198.51.100.1:80 at 3",
		},
		want: []string{
			"translated to 10.244.0.6:8080 by 3",
			"translated to 10.244.0.6:8080 by 3 from 192.0.2.11",
			"translated to 10.244.0.6:8080 by 3",
			"translated to 192.0.2.12:8080 by 1 from 192.0.2.11",
			"translated to 192.0.2.12:8080 by 1",
			"forwarded by 1 from 192.0.2.11",
			"forwarded by 1",
		},
	},
	{
		name: "a new SNAT entry spares nothing",
		setup: func(s *conversation) {
			s.put(noClient(entry("10.96.0.1:80", "10.244.0.6:8080")))
			s.setSNAT2(binapi2606.CnatSetSnatAddressesV2{SnatIP4: [4]byte{192, 0, 2, 11}, SwIfIndex: ^interfaceIndex(0), Flags: 6})
			s.feature(true, 2, 3)
		},
		sent: []string{"10.244.0.5:1 > 10.96.0.1:80 at 2", "10.244.0.5:1 > 10.244.0.6:80 at 2", "10.244.0.5:1 > 192.0.2.1:80 at 2"},
		want: []string{
			"translated to 10.244.0.6:8080 by 3 from 192.0.2.11",
			"forwarded by 3 from 192.0.2.11",
			"forwarded by 1",
		},
	},
	{
		name: "a path without NAT, a path that is not active, a source of a path",
		setup: func(s *conversation) {
			e := noClient(entry("10.96.0.1:80", "10.244.0.6:8080"))
			e.Backends[0].NoNAT = true
			s.put(e)
			e = noClient(entry("10.96.0.2:80", "10.244.0.6:8080"))
			tr := apiTranslation(&e)
			tr.Paths[0].SrcEp.SwIfIndex = 0
			s.update("source at interface 0", tr)
			e = entry("10.96.0.3:80", "10.244.0.6:0")
			tr = apiTranslation(&e)
			tr.Paths[0].SrcEp.Addr = apiAddress(netip.MustParseAddr("192.0.2.11"))
			s.update("with a source", tr)
			s.feature(true, 2)
		},
		sent: []string{
			"10.244.0.5:1 > 10.96.0.1:80 at 2",
			"10.244.0.5:1 > 10.96.0.2:80 at 2",
			"192.0.2.1:1 > 10.96.0.3:81 at 1",
			"192.0.2.1:1 > 10.96.0.3:80 at 1",
		},
		want: []string{
			"translated to 10.244.0.6:8080 by 3",
			"dropped: translation TCP;10.96.0.2;80 has no active path",
			"dropped: 10.96.0.3 belongs to cnat, which has nothing for the port",
			"translated to 10.244.0.6:80 by 3 from 192.0.2.11",
		},
	},
	{
		name: "a session outlives its backend and its translation (S1, S5)",
		setup: func(s *conversation) {
			s.put(noClient(entry("10.96.0.1:80", "10.244.0.6:8080")))
			s.feature(true, 1, 2, 3)
		},
		sent: []string{
			"10.244.0.5:1 > 10.96.0.1:80 at 2",
			"10.244.0.6:8080 > 10.244.0.5:1 at 3",
			"10.244.0.5:1 > 10.96.0.1:80 at 2",
			"10.244.0.5:2 > 10.96.0.1:80 at 2",
			"10.244.0.5:1 > 10.96.0.1:80 at 2",
			"10.244.0.5:3 > 10.96.0.1:80 at 2",
			"10.244.0.6:8080 > 10.244.0.5:1 at 3",
		},
		then: map[int]func(*conversation){
			2: func(s *conversation) { s.put(noClient(entry("10.96.0.1:80", "192.0.2.1:8080"))) },
			4: func(s *conversation) { s.del(0) },
		},
		want: []string{
			"translated to 10.244.0.6:8080 by 3",
			"translated by 2 from 10.96.0.1 (session)",
			"translated to 10.244.0.6:8080 by 3 (session)",
			"translated to 192.0.2.1:8080 by 1",
			"translated to 10.244.0.6:8080 by 3 (session)",
			"dropped: route 0.0.0.0/0 drops",
			"translated by 2 from 10.96.0.1 (session)",
		},
	},
	{
		name: "without return session the reply is the backend's",
		setup: func(s *conversation) {
			e := noClient(entry("10.96.0.1:80", "10.244.0.6:8080"))
			e.Flags |= types.FlagNoReturnSession
			s.put(e)
			s.feature(true, 1, 2, 3)
		},
		sent: []string{"10.244.0.5:1 > 10.96.0.1:80 at 2", "10.244.0.6:8080 > 10.244.0.5:1 at 3"},
		want: []string{"translated to 10.244.0.6:8080 by 3", "forwarded by 2"},
	},
	{
		name: "the flags of a translation are those of its last update",
		setup: func(s *conversation) {
			s.put(noClient(entry("10.96.0.1:80", "10.244.0.6:8080")))
			e := noClient(entry("10.96.0.1:80", "10.244.0.6:8080"))
			e.Flags |= types.FlagNoReturnSession
			s.put(e)
			s.feature(true, 1, 2, 3)
		},
		sent: []string{"10.244.0.5:1 > 10.96.0.1:80 at 2", "10.244.0.6:8080 > 10.244.0.5:1 at 3"},
		want: []string{"translated to 10.244.0.6:8080 by 3", "forwarded by 2"},
	},
	{
		name: "a feature that was enabled twice",
		setup: func(s *conversation) {
			s.put(noClient(entry("10.96.0.1:80", "10.244.0.6:8080")))
			s.route("10.96.0.0/16", 0, true, false, drop)
			s.feature(true, 2)
			s.feature(true, 2)
		},
		then: map[int]func(*conversation){
			1: func(s *conversation) { s.feature(false, 2) },
			2: func(s *conversation) { s.feature(false, 2) },
			3: func(s *conversation) { s.feature(false, 2) },
			4: func(s *conversation) { s.feature(true, 2) },
		},
		sent: []string{
			"10.244.0.5:1 > 10.96.0.1:80 at 2",
			"10.244.0.5:2 > 10.96.0.1:80 at 2",
			"10.244.0.5:3 > 10.96.0.1:80 at 2",
			"10.244.0.5:4 > 10.96.0.1:80 at 2",
			"10.244.0.5:5 > 10.96.0.1:80 at 2",
		},
		want: []string{
			"dropped: route 10.96.0.0/16 drops",
			"translated to 10.244.0.6:8080 by 3",
			"dropped: route 10.96.0.0/16 drops",
			"dropped: route 10.96.0.0/16 drops",
			"translated to 10.244.0.6:8080 by 3",
		},
	},
	{
		name: "a flow that was there before the translation",
		setup: func(s *conversation) {
			s.route("10.96.0.0/16", 0, true, false, drop)
			s.route("10.97.0.0/16", 0, true, false, via(1))
			s.feature(true, 1, 2, 3)
		},
		then: map[int]func(*conversation){
			2: func(s *conversation) {
				s.put(noClient(entry("10.96.0.1:80", "10.244.0.6:8080")))
				s.put(noClient(entry("10.97.0.1:80", "10.244.0.6:8080")))
			},
		},
		sent: []string{
			"10.244.0.5:1 > 10.96.0.1:80 at 2",
			"10.244.0.5:1 > 10.97.0.1:80 at 2",
			"10.244.0.5:1 > 10.96.0.1:80 at 2",
			"10.244.0.5:1 > 10.97.0.1:80 at 2",
			"10.244.0.5:2 > 10.96.0.1:80 at 2",
			"10.244.0.5:2 > 10.97.0.1:80 at 2",
		},
		want: []string{
			"dropped: route 10.96.0.0/16 drops",
			"forwarded by 1",
			"dropped (session): route 10.96.0.0/16 drops",
			"forwarded by 1 (session)",
			"translated to 10.244.0.6:8080 by 3",
			"translated to 10.244.0.6:8080 by 3",
		},
	},
}

func parsePacket(t testing.TB, text string) Packet {
	t.Helper()
	var src, dst string
	var at uint32
	if _, err := fmt.Sscanf(text, "%s > %s at %d", &src, &dst, &at); err != nil {
		t.Fatal(text, err)
	}
	return packet(src, dst, at)
}

func TestTrace(t *testing.T) {
	for _, c := range packets {
		t.Run(c.name, func(t *testing.T) {
			sim, s := node(t)
			c.setup(s)
			for i, text := range c.sent {
				if f := c.then[i]; f != nil {
					f(s)
				}
				p := parsePacket(t, text)
				traced, sent := sim.Trace(p), sim.Send(p)
				if got := sent.String(); got != c.want[i] {
					t.Errorf("%s\n got %s\nwant %s", text, got, c.want[i])
				}
				if !sent.Pinned && traced != sent {
					t.Errorf("%s: sent %s, traced %s", text, sent, traced)
				}
			}
			if t.Failed() {
				t.Log("\n" + strings.Join(s.text, "\n"))
			}
		})
	}
	sim, _ := node(t)
	if got := sim.Trace(packet("10.0.0.1:1", "10.0.0.2:1", 9)); got.Outcome != Dropped || !strings.Contains(got.Reason, "no interface 9") {
		t.Errorf("%s", got)
	}
}

// TestPackets sends the same packets through a real VPP.
func TestPackets(t *testing.T) {
	for _, c := range packets {
		t.Run(c.name, func(t *testing.T) {
			sim, s := node(t)
			c.setup(s)
			real := realNode(t)
			real.podRoutes()
			c.setup(real)
			for i, text := range c.sent {
				if f := c.then[i]; f != nil {
					f(s)
					f(real)
				}
				p := parsePacket(t, text)
				v := sim.Send(p)
				got, trace := real.sendPacket(p)
				t.Logf("%s: %s", text, got)
				if want := v.wire(); got != want {
					t.Errorf("%s\n real %s\n  sim %s (%s)\n%s", text, got, want, v, trace)
				}
				if a, b := strings.Join(real.sessions(), "\n"), strings.Join(s.sessions(), "\n"); a != b {
					t.Errorf("after %s: sessions\n real\n%s\n sim\n%s", text, a, b)
				}
			}
		})
	}
}

// wire is as much of a verdict as can be seen of a packet.
func (v Verdict) wire() string {
	switch {
	case v.Outcome == Dropped, v.Outcome == Unreachable:
		return v.Outcome.String()
	case v.Local:
		return "local"
	case v.SNAT:
		return fmt.Sprintf("%s -> %s by %d", v.Src.Addr(), v.Dst, v.Interface)
	}
	return fmt.Sprintf("%s -> %s by %d", v.Src, v.Dst, v.Interface)
}

// How flows spread over backends.
func TestSpread(t *testing.T) {
	backends := []string{"10.244.0.5:80", "10.244.0.6:80", "10.244.0.7:80", "10.244.0.8:80", "10.244.0.9:80"}
	flows := func(sim *Sim, proto types.Protocol, vary string) map[netip.AddrPort]int {
		out := map[netip.AddrPort]int{}
		for i := range 1000 {
			p := packet("10.0.0.1:1000", "10.96.0.1:80", 1)
			p.Proto = proto
			if vary == "port" {
				p.Src = netip.AddrPortFrom(p.Src.Addr(), uint16(1000+i))
			} else {
				p.Src = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1000)
			}
			out[sim.Trace(p).Backend]++
		}
		return out
	}
	for _, c := range []struct {
		name  string
		edit  func(*types.CnatTranslateEntry)
		vary  string
		spans int
	}{
		{"by port", func(*types.CnatTranslateEntry) {}, "port", 5},
		{"by address", func(*types.CnatTranslateEntry) {}, "address", 5},
		{"hash of address, other ports (S6)", func(e *types.CnatTranslateEntry) { e.LBType, e.Hash = types.LBMaglev, types.HashSrcAddr }, "port", 1},
		{"hash of address, other addresses", func(e *types.CnatTranslateEntry) { e.LBType, e.Hash = types.LBMaglev, types.HashSrcAddr }, "address", 5},
		{"hash of destination", func(e *types.CnatTranslateEntry) { e.Hash = types.HashDstAddr | types.HashDstPort }, "address", 1},
		{"reverse source address is the destination", func(e *types.CnatTranslateEntry) { e.Hash = types.HashSrcAddr | types.HashReverse }, "address", 5},
		{"SCTP has no ports", func(e *types.CnatTranslateEntry) { e.Proto = types.SCTP }, "port", 1},
		{"SCTP by address", func(e *types.CnatTranslateEntry) { e.Proto = types.SCTP }, "address", 5},
		{"an unknown LB type is the default (F7)", func(e *types.CnatTranslateEntry) { e.LBType = 7 }, "port", 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim := newSim(t, Config{})
			e := entry("10.96.0.1:80", backends...)
			c.edit(&e)
			if err := sim.Load([]types.CnatTranslateEntry{e}); err != nil {
				t.Fatal(err)
			}
			got := flows(sim, e.Proto, c.vary)
			if len(got) != c.spans {
				t.Errorf("%d backends: %v", len(got), got)
			}
			for b, n := range got {
				if c.spans == 5 && (n < 140 || n > 260) {
					t.Errorf("%s got %d of 1000 flows", b, n)
				}
			}
		})
	}

	moved := func(t *testing.T, lb types.LBType, after []string) int {
		sim := newSim(t, Config{})
		e := entry("10.96.0.1:80", backends...)
		e.LBType = lb
		at := func() (out []netip.AddrPort) {
			if err := sim.Load([]types.CnatTranslateEntry{e}); err != nil {
				t.Fatal(err)
			}
			for i := range 1000 {
				out = append(out, sim.Trace(packet(fmt.Sprintf("10.0.0.1:%d", 1000+i), "10.96.0.1:80", 1)).Backend)
			}
			return out
		}
		before := at()
		e.Backends = entry("10.96.0.1:80", after...).Backends
		n := 0
		for i, b := range at() {
			if b != before[i] && slices.Contains(after, before[i].String()) {
				n++
			}
		}
		return n
	}
	reversed := slices.Clone(backends)
	slices.Reverse(reversed)
	if n := moved(t, types.LBMaglev, backends[:4]); n > 0 {
		t.Errorf("maglev moved %d flows off backends that stay", n)
	}
	if n := moved(t, types.LBMaglev, reversed); n > 0 {
		t.Errorf("maglev moved %d flows for another order", n)
	}
	if n := moved(t, types.LBDefault, backends[:4]); n < 500 {
		t.Errorf("modulo moved only %d flows", n)
	}
	if n := moved(t, types.LBDefault, reversed); n < 500 {
		t.Errorf("modulo does not depend on the order: %d flows moved", n)
	}
}

// sessions are what cnat_session_dump says, in the order of the flows.
func (s *conversation) sessions() []string {
	s.t.Helper()
	byFlow := map[uint32][]string{}
	many(s, &binapi2606.CnatSessionDump{}, &binapi2606.ControlPing{}, func(d *binapi2606.CnatSessionDetails) {
		src, dst := d.Tuple.Ports()
		line := fmt.Sprintf("%s;%d>%s;%d/%d", d.Tuple.Addr[0], src, d.Tuple.Addr[1], dst, d.Flags)
		line = strings.Replace(line, fmt.Sprintf("192.0.2.11;%d/16", dst), "192.0.2.11;any/16", 1) // by source NAT
		byFlow[d.TsIndex] = append(byFlow[d.TsIndex], line)
	})
	var out []string
	for _, ts := range slices.Sorted(maps.Keys(byFlow)) {
		slices.SortFunc(byFlow[ts], func(a, b string) int { return strings.Compare(a[strings.Index(a, "/"):], b[strings.Index(b, "/"):]) })
		out = append(out, byFlow[ts]...)
	}
	return out
}

// S1, C2, S5, F4: what sessions keep alive, and what ends them.
func TestSessions(t *testing.T) {
	sim, s := node(t)
	s.put(noClient(entry("10.96.0.1:80", "10.244.0.5:8080")))
	s.feature(true, 1, 2, 3)
	p := packet("10.244.0.6:1", "10.96.0.1:80", 3)
	check := func(what string, v Verdict, want string) {
		t.Helper()
		if v.String() != want {
			t.Errorf("%s: got %s, want %s", what, v, want)
		}
	}
	check("first", sim.Send(p), "translated to 10.244.0.5:8080 by 2")
	if got, want := strings.Join(s.sessions(), " "), "10.244.0.6;1>10.96.0.1;80/0 10.244.0.5;8080>10.244.0.6;1/16"; got != want {
		t.Errorf("sessions %s, want %s", got, want)
	}
	back := sim.Send(packet("10.244.0.5:8080", "10.244.0.6:1", 2))
	check("reply", back, "translated by 3 from 10.96.0.1 (session)")
	if back.Src.String() != "10.96.0.1:80" || back.Dst.String() != "10.244.0.6:1" {
		t.Errorf("reply from %s to %s", back.Src, back.Dst)
	}

	s.put(noClient(entry("10.96.0.1:80", "10.244.0.6:8080")))
	check("backend removed", sim.Send(p), "translated to 10.244.0.5:8080 by 2 (session)")
	check("new flow", sim.Trace(p), "translated to 10.244.0.6:8080 by 3")
	if n := sim.Sweep(); n != 1 {
		t.Errorf("%d flows swept", n)
	}
	check("after the sweep", sim.Send(p), "translated to 10.244.0.6:8080 by 3")

	// Deleted and created again as real and with a client: the session still
	// holds the address's flags, and then it does not.
	s.del(0)
	s.put(real(entry("10.96.0.1:80", "10.244.0.5:8080")))
	if tr := sim.Translations()[0]; !tr.AddressNoClient || tr.AddressIsReal {
		t.Errorf("the flags changed under a session: %s", tr)
	}
	s.del(0)
	sim.Sweep()
	s.put(real(entry("10.96.0.1:80", "10.244.0.5:8080")))
	if tr := sim.Translations()[0]; tr.AddressNoClient || !tr.AddressIsReal {
		t.Errorf("the flags outlived the last session: %s", tr)
	}

	sim.Send(p)
	sim.Expire()
	if got := s.sessions(); len(got) != 0 {
		t.Errorf("not expired: %v", got)
	}
	sim.Send(p)
	var r cnat.CnatSessionPurgeReply
	s.do("purge", &cnat.CnatSessionPurge{}, &r, &r.Retval)
	if got := s.sessions(); len(got) != 0 || len(sim.Translations()) != 0 {
		t.Errorf("after the purge: %v, %v", got, sim.Translations())
	}
	if sim.Calls()["cnat_session_purge"] != 1 {
		t.Error("purge is not counted")
	}
}

// A flow that is source NATed finds its way back without a translation.
func TestSourceNATReply(t *testing.T) {
	sim, s := node(t)
	s.route("0.0.0.0/0", 0, true, false, via(1))
	s.k8s(2, 3)
	s.snatIf(2, cnat.CNAT_POLICY_INCLUDE_V4, true)
	s.feature(true, 1, 2, 3)
	out := sim.Send(packet("10.244.0.5:7", "198.51.100.1:443", 2))
	if !out.SNAT || out.Src.Addr().String() != "192.0.2.11" {
		t.Fatalf("%s", out)
	}
	back := sim.Send(Packet{Proto: types.TCP, Src: out.Dst, Dst: out.Src, InterfaceIndex: 1})
	if back.Dst.String() != "10.244.0.5:7" || back.Interface != 2 {
		t.Errorf("reply to %s: %s", back.Dst, back)
	}
}

// TestSourceNATReplyReal asks a real VPP the same, with the port that it picked
// and no client for the source address.
func TestSourceNATReplyReal(t *testing.T) {
	s := realNode(t)
	s.podRoutes()
	s.route("0.0.0.0/0", 0, true, false, via(1))
	s.k8s(2, 3)
	s.snatIf(2, cnat.CNAT_POLICY_INCLUDE_V4, true)
	s.feature(true, 1, 2, 3)
	if got, trace := s.sendPacket(packet("10.244.0.5:7", "198.51.100.1:443", 2)); got != "192.0.2.11 -> 198.51.100.1:443 by 1" {
		t.Fatalf("%s\n%s", got, trace)
	}
	var port uint16
	many(s, &binapi2606.CnatSessionDump{}, &binapi2606.ControlPing{}, func(d *binapi2606.CnatSessionDetails) {
		if d.Flags&binapi2606.CnatSessionIsReturn != 0 {
			_, port = d.Tuple.Ports()
		}
	})
	if got, trace := s.sendPacket(packet("198.51.100.1:443", fmt.Sprintf("192.0.2.11:%d", port), 1)); got != "198.51.100.1:443 -> 10.244.0.5:7 by 2" {
		t.Errorf("%s\n%s", got, trace)
	}
}
