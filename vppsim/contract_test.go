// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"go.fd.io/govpp/adapter/socketclient"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/feature"
	"go.fd.io/govpp/binapi/fib_types"
	interfaces "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/memclnt"
	"go.fd.io/govpp/core"

	"calico-vpp-services/vpplink/binapi2606"
	"calico-vpp-services/vpplink/types"
)

// conversation is one conversation with a VPP. What is asked and answered is
// written down, one line each, so that a simulated and a real VPP can be
// compared and a reader sees what VPP does.
type conversation struct {
	t    *testing.T
	conn *core.Connection
	died <-chan struct{}
	text []string
}

func (s *conversation) say(format string, args ...any) {
	s.text = append(s.text, fmt.Sprintf(format, args...))
}

// call sends a request and returns false when VPP died of it.
func (s *conversation) call(req, reply api.Message) bool {
	s.t.Helper()
	ctx, cancel := context.WithCancel(testContext(s.t))
	go func() {
		select {
		case <-s.died:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := s.conn.Invoke(ctx, req, reply)
	if err == nil {
		return true
	}
	select {
	case <-s.died:
		return false
	case <-time.After(5 * time.Second):
		s.t.Fatalf("%s: %v", req.GetMessageName(), err)
	}
	return false
}

// do makes a call and writes its return value down under a title.
func (s *conversation) do(title string, req, reply api.Message, retval *int32) {
	s.t.Helper()
	if !s.call(req, reply) {
		s.say("%s: VPP aborts", title)
		return
	}
	s.say("%s: %d", title, *retval)
}

func (s *conversation) update(title string, tr *cnat.CnatTranslation) {
	s.t.Helper()
	var r cnat.CnatTranslationUpdateReply
	if !s.call(&cnat.CnatTranslationUpdate{Translation: *tr}, &r) {
		s.say("%s: VPP aborts", title)
		return
	}
	s.say("%s: %d id %d", title, r.Retval, int32(r.ID))
}

func (s *conversation) put(e types.CnatTranslateEntry) {
	s.t.Helper()
	s.update("put "+e.String(), apiTranslation(&e))
}

func (s *conversation) del(id uint32) {
	s.t.Helper()
	var r cnat.CnatTranslationDelReply
	s.do(fmt.Sprintf("del %d", id), &cnat.CnatTranslationDel{ID: id}, &r, &r.Retval)
}

// many asks for a dump and hands each answer on.
func many[D api.Message](s *conversation, req, ping api.Message, each func(D)) {
	s.t.Helper()
	stream, err := s.conn.NewStream(testContext(s.t))
	if err != nil {
		s.t.Fatal(err)
	}
	defer stream.Close()
	if err := errors.Join(stream.SendMsg(req), stream.SendMsg(ping)); err != nil {
		s.t.Fatal(err)
	}
	for {
		m, err := stream.RecvMsg()
		if err != nil {
			s.t.Fatal(err)
		}
		switch m := m.(type) {
		case *memclnt.ControlPingReply, *binapi2606.ControlPingReply:
			return
		case D:
			each(m)
		default:
			s.t.Fatalf("unexpected %T", m)
		}
	}
}

func (s *conversation) dump() {
	s.t.Helper()
	many(s, &cnat.CnatTranslationDump{}, &memclnt.ControlPing{}, func(d *cnat.CnatTranslationDetails) {
		t := d.Translation
		var b strings.Builder
		fmt.Fprintf(&b, "dump: %d: %d;%s real %d flags %d lb %d hash %d ->", t.ID, t.IPProto, apiEndpoint(t.Vip), t.IsRealIP, t.Flags, t.LbType, t.FlowHashConfig)
		for _, p := range t.Paths {
			fmt.Fprintf(&b, " %s<-%s/%d", apiEndpoint(p.DstEp), apiEndpoint(p.SrcEp), p.Flags)
		}
		s.say("%s", b.String())
	})
}

func apiEndpoint(e cnat.CnatEndpoint) string {
	return fmt.Sprintf("%s;%d;if%d;af%d", e.Addr, e.Port, int32(e.SwIfIndex), e.IfAf)
}

// contract are the conversations. The text is what a real VPP 26.06 says too.
var contract = []struct {
	name string
	talk func(*conversation)
}{
	{
		name: "one slot per key, ids from the pool (F1, F2)",
		talk: func(s *conversation) {
			s.put(entry("10.96.0.1:80", "10.244.0.5:8080"))
			s.put(entry("10.96.0.2:80", "10.244.0.5:8080"))
			s.put(entry("10.96.0.3:80", "10.244.0.5:8080"))
			s.put(entry("10.96.0.1:80", "10.244.0.6:8080", "10.244.0.5:8080"))
			s.del(0)
			s.del(2)
			s.del(2)
			s.del(77)
			s.put(entry("10.96.0.4:80", "10.244.0.7:8080"))
			s.put(entry("10.96.0.5:80", "10.244.0.7:8080"))
			s.put(entry("10.96.0.6:80", "10.244.0.7:8080"))
			s.del(2)
			s.dump()
		},
	},
	{
		name: "taken at creation, left out by the dump (F3, F5)",
		talk: func(s *conversation) {
			e := entry("10.96.0.1:80", "10.244.0.5:8080", "10.244.0.6:8080")
			e.LBType, e.Hash, e.IsRealIP, e.Flags = types.LBMaglev, types.HashSrcAddr, true, types.FlagNoClient
			e.Backends[1].NoNAT = true
			s.put(e)
			s.dump()
			e.LBType, e.Hash = types.LBDefault, 0
			e.Backends[0].NoNAT, e.Backends[1].NoNAT = true, false
			s.put(e)
			s.dump()
			tr := apiTranslation(&e)
			tr.Paths[0].Flags, tr.Paths[1].Flags = 0xff, 1
			tr.Vip.Port = 81
			s.update("put with odd path flags", tr)
			s.dump()
		},
	},
	{
		name: "not checked (F7)",
		talk: func(s *conversation) {
			e := entry("10.96.0.1:80", "10.244.0.5:8080", "10.244.0.5:8080", "[2001:db8:1::5]:8080")
			e.LBType = 7
			s.put(e)
			s.put(e)
			e = entry("0.0.0.0:0", "0.0.0.0:0")
			s.put(e)
			for _, proto := range []uint8{0, 1, 61, 63, 132, 143, 144, 252, 253, 255} {
				e := entry("10.96.0.9:80", "10.244.0.5:8080")
				e.Proto = types.Protocol(proto)
				s.put(e)
			}
			s.dump()
		},
	},
	{
		name: "paths in order, duplicates kept",
		talk: func(s *conversation) {
			s.put(entry("10.96.0.1:80", "10.244.0.9:1", "10.244.0.5:1", "10.244.0.7:1"))
			s.dump()
			s.put(entry("10.96.0.1:80", "10.244.0.7:1", "10.244.0.6:1", "10.244.0.9:1", "10.244.0.7:1"))
			s.dump()
		},
	},
	{
		name: "an endpoint by interface",
		talk: func(s *conversation) {
			e := entry("10.96.0.1:80", "10.244.0.5:8080")
			tr := apiTranslation(&e)
			tr.Paths[0].SrcEp.SwIfIndex = 0
			s.update("source left at interface 0", tr)
			s.dump()
			s.update("again", tr)
			s.dump()
			tr = apiTranslation(&e)
			tr.Paths[0].DstEp.SwIfIndex = 1
			tr.Vip.Port = 81
			s.update("destination is loop0", tr)
			tr.Paths[0].DstEp.IfAf = 1
			tr.Vip.Port = 82
			s.update("destination is loop0, IPv6", tr)
			tr.Paths[0].DstEp.IfAf = 7
			s.update("family 7", tr)
			tr = apiTranslation(&e)
			tr.Vip.SwIfIndex = 1
			s.update("VIP is loop0", tr)
			tr.Vip.SwIfIndex = 0
			s.update("VIP is local0", tr)
			s.update("VIP is local0", tr)
			tr.Vip.SwIfIndex = 9
			s.update("VIP is nothing", tr)
			s.dump()
		},
	},
	{
		name: "no paths (F6)",
		talk: func(s *conversation) { s.put(entry("10.96.0.1:80")) },
	},
	{
		name: "purge removes translations (F4)",
		talk: func(s *conversation) {
			for i := range 3 {
				s.put(entry(fmt.Sprintf("10.96.0.%d:80", i), "10.244.0.5:8080"))
			}
			s.del(0)
			var r cnat.CnatSessionPurgeReply
			s.do("purge", &cnat.CnatSessionPurge{}, &r, &r.Retval)
			s.dump()
			for i := range 4 {
				s.put(entry(fmt.Sprintf("10.96.0.%d:80", i), "10.244.0.5:8080"))
			}
		},
	},
	{
		name: "SNAT policy before addresses",
		talk: func(s *conversation) { s.policy(binapi2606.CnatPolicyK8s) },
	},
	{
		name: "unknown SNAT policy before addresses",
		talk: func(s *conversation) { s.policy(9) },
	},
	{
		name: "SNAT exclusion before addresses",
		talk: func(s *conversation) { s.exclude("10.244.0.0/16", true) },
	},
	{
		name: "SNAT exclusion removed before addresses",
		talk: func(s *conversation) { s.exclude("10.244.0.0/16", false) },
	},
	{
		name: "SNAT",
		talk: func(s *conversation) {
			s.snatIf(1, cnat.CNAT_POLICY_POD, true)
			s.getSNAT()
			s.setSNAT2(binapi2606.CnatSetSnatAddressesV2{SwIfIndex: ^interface_types.InterfaceIndex(0)})
			s.setSNAT2(binapi2606.CnatSetSnatAddressesV2{SnatIP4: [4]byte{192, 0, 2, 11}, SwIfIndex: ^interface_types.InterfaceIndex(0), Flags: 6})
			s.getSNAT()
			s.dumpSNAT()
			s.snatIf(1, cnat.CNAT_POLICY_POD, true)
			s.snatIf(9, cnat.CNAT_POLICY_POD, true)
			s.snatIf(1, 4, true)
			s.exclude("10.244.0.0/16", true)
			s.exclude("10.244.1.7/16", true)
			s.exclude("10.244.0.0/16", false)
			s.exclude("10.244.0.0/16", false)
			s.exclude("10.244.0.0/33", true)
			for p := range binapi2606.CnatSnatPolicy(6) {
				s.policy(p)
			}
			v6 := binapi2606.CnatSetSnatAddressesV2{SwIfIndex: ^interface_types.InterfaceIndex(0)}
			v6.SnatIP6[0], v6.SnatIP6[15] = 0x20, 0x11
			s.setSNAT2(v6)
			s.dumpSNAT()
			s.setSNAT2(binapi2606.CnatSetSnatAddressesV2{SwIfIndex: 1})
			s.dumpSNAT()
			s.setSNAT2(binapi2606.CnatSetSnatAddressesV2{SwIfIndex: ^interface_types.InterfaceIndex(0)})
			s.dumpSNAT()
			s.getSNAT()
		},
	},
	{
		name: "SNAT addresses, first version",
		talk: func(s *conversation) {
			var r cnat.CnatSetSnatAddressesReply
			s.do("set", &cnat.CnatSetSnatAddresses{SnatIP4: [4]byte{192, 0, 2, 11}, SwIfIndex: ^interface_types.InterfaceIndex(0)}, &r, &r.Retval)
			s.getSNAT()
			s.policy(binapi2606.CnatPolicyK8s)
			s.routes(false, 0)
		},
	},
	{
		name: "features",
		talk: func(s *conversation) {
			ask := func(index interface_types.InterfaceIndex, arc, name string) {
				var r feature.FeatureIsEnabledReply
				if s.call(&feature.FeatureIsEnabled{ArcName: arc, FeatureName: name, SwIfIndex: index}, &r) {
					s.say("%s on %s of %d: %d %v", name, arc, index, r.Retval, r.IsEnabled)
				}
			}
			for _, index := range []interface_types.InterfaceIndex{0, 1, 9} {
				for _, on := range []bool{false, true, true, false, false, false} {
					var r binapi2606.FeatureCnatEnableDisableReply
					s.do(fmt.Sprintf("feature %d %v", index, on), &binapi2606.FeatureCnatEnableDisable{SwIfIndex: index, EnableDisable: on}, &r, &r.Retval)
					ask(index, "ip4-unicast", "cnat-input-ip4")
				}
			}
			var r binapi2606.FeatureCnatEnableDisableReply
			s.do("feature 1 true", &binapi2606.FeatureCnatEnableDisable{SwIfIndex: 1, EnableDisable: true}, &r, &r.Retval)
			for _, f := range [][2]string{
				{"ip4-unicast", "cnat-lookup-ip4"}, {"ip6-unicast", "cnat-lookup-ip6"}, {"ip6-unicast", "cnat-input-ip6"},
				{"ip4-output", "cnat-output-ip4"}, {"ip4-output", "cnat-writeback-ip4"}, {"ip6-output", "cnat-output-ip6"},
				{"ip6-output", "cnat-writeback-ip6"}, {"ip4-unicast", "cnat-input-ip6"}, {"ip4-output", "cnat-input-ip4"},
				{"no-arc", "cnat-input-ip4"}, {"ip4-unicast", "no-feature"}, {"ip4-unicast", "ip4-no-such"},
			} {
				ask(1, f[0], f[1])
			}
		},
	},
	{
		name: "interfaces and addresses",
		talk: func(s *conversation) {
			ifs := func(title string, req *interfaces.SwInterfaceDump) {
				many(s, req, &memclnt.ControlPing{}, func(d *interfaces.SwInterfaceDetails) {
					s.say("%s: %d %s %s %d %q mtu %d %v", title, d.SwIfIndex, d.InterfaceName, d.InterfaceDevType, d.Flags, d.Tag, d.LinkMtu, d.Mtu)
				})
			}
			ifs("all", &interfaces.SwInterfaceDump{SwIfIndex: ^interface_types.InterfaceIndex(0)})
			ifs("0", &interfaces.SwInterfaceDump{})
			ifs("1", &interfaces.SwInterfaceDump{SwIfIndex: 1})
			ifs("9", &interfaces.SwInterfaceDump{SwIfIndex: 9})
			ifs("LO", &interfaces.SwInterfaceDump{NameFilterValid: true, NameFilter: "OOP"})
			for _, index := range []interface_types.InterfaceIndex{0, 1, 9} {
				for _, v6 := range []bool{false, true} {
					many(s, &ip.IPAddressDump{SwIfIndex: index, IsIPv6: v6}, &memclnt.ControlPing{}, func(d *ip.IPAddressDetails) {
						s.say("addresses of %d: %d %s", index, d.SwIfIndex, d.Prefix)
					})
				}
			}
		},
	},
	{
		name: "tables (L3)",
		talk: func(s *conversation) {
			s.table(7, false, true, "calico-vpp-services:1")
			s.table(7, false, true, "calico-vpp-services:2")
			s.table(7, true, true, "")
			s.table(8, true, true, strings.Repeat("x", 64))
			s.table(0, false, true, "mine")
			s.tables()
			s.table(7, false, false, "")
			s.table(7, false, false, "")
			s.table(0, false, false, "")
			s.tables()
			s.table(9, false, true, "again")
			s.tables()
		},
	},
	{
		name: "routes",
		talk: func(s *conversation) {
			s.routes(false, 0)
			s.route("10.96.0.0/16", 0, true, false, unreach)
			s.route("198.51.100.20/32", 0, true, false, drop)
			s.route("198.51.100.20/32", 0, true, true, unreach)
			s.route("0.0.0.0/0", 0, true, false, via(1))
			s.route("10.97.1.2/16", 0, true, false, drop)
			s.route("10.98.0.0/16", 0, true, false)
			s.route("10.98.0.0/16", 0, true, true)
			s.route("10.98.0.0/16", 0, false, true)
			s.route("10.98.0.0/16", 0, false, false)
			s.route("10.98.0.0/33", 0, true, false, drop)
			s.route("10.98.0.0/16", 5, true, false, drop)
			s.routes(false, 0)
			s.route("198.51.100.20/32", 0, false, true, drop)
			s.route("198.51.100.20/32", 0, false, true, drop)
			s.route("10.96.0.0/16", 0, false, false)
			s.route("10.96.0.0/16", 0, false, false, unreach)
			s.routes(false, 0)
			s.routes(false, 5)
			s.routes(true, 0)
			un6 := unreach
			un6.Proto = fib_types.FIB_API_PATH_NH_PROTO_IP6
			s.route("2001:db8:1::/64", 0, true, false, un6)
			s.route("2001:db8:2::/64", 0, true, false, unreach)
			s.routes(true, 0)
			s.routesOf(false, 0, sourceAPI)
			s.routesOf(true, 0, sourceAPI)
			s.put(entry("198.51.100.99:80", "10.244.0.5:8080"))
			e := entry("198.51.100.98:80", "10.244.0.5:8080")
			e.Flags = types.FlagNoClient
			s.put(e)
			s.routes(false, 0)
		},
	},
	{
		name: "routes with several paths",
		talk: func(s *conversation) {
			for i, set := range [][]fib_types.FibPath{
				{unreach, drop}, {drop, via(1)}, {unreach, via(1)}, {via(1), drop},
				{via(2), via(1)}, {unreach, prohibit}, {via(1), via(1)}, {drop, drop},
			} {
				one, all := fmt.Sprintf("10.98.%d.0/24", i), fmt.Sprintf("10.99.%d.0/24", i)
				s.route(one, 0, true, true, set[0])
				s.route(one, 0, true, true, set[1])
				s.routeText(one)
				s.route(one, 0, false, true, set[0])
				s.routeText(one)
				s.route(all, 0, true, false, set...)
				s.routeText(all)
			}
			s.route("10.97.0.0/16", 0, true, false, via(1), via(2))
			s.route("10.97.0.0/16", 0, true, false, via(3))
			s.route("10.97.7.7/16", 0, true, true, via(2))
			s.routeText("10.97.0.0/16")
			s.route("10.97.1.1/16", 0, false, false)
			s.routeText("10.97.0.0/16")
			s.route("2001:db8:7::7/64", 0, true, false, unreach)
			s.route("2001:db8:7::8/64", 0, false, false)
			s.routesOf(true, 0, sourceAPI)
		},
	},
	{
		name: "who wins a prefix",
		talk: func(s *conversation) {
			s.table(7, false, true, "x")
			s.put(entry("198.51.100.99:80", "10.244.0.5:8080"))
			for _, vip := range []string{"198.51.100.97:80", "198.51.100.98:80", "192.0.2.11:80"} {
				e := entry(vip, "10.244.0.6:8080")
				e.IsRealIP = true
				s.put(e)
			}
			for _, p := range []string{"198.51.100.98/32", "198.51.100.99/32", "192.0.2.11/32", "240.0.0.0/4"} {
				s.route(p, 0, true, false, unreach)
			}
			s.route("0.0.0.0/0", 0, true, false, via(1))
			s.put(entry("[2001:db8:9::1]:80", "[2001:db8:8::1]:8080"))
			e := entry("[2001:db8:9::2]:80", "[2001:db8:8::1]:8080")
			e.Flags = types.FlagNoClient
			s.put(e)
			s.routesOf(false, 0, 0)
			s.routesOf(true, 0, 0)
			s.routesOf(false, 7, 0)
			for _, source := range []uint8{sourceSpecial, sourceInterface, sourceAPI, sourceDefaultRoute} {
				s.routesOf(false, 0, source)
			}
			for id := range uint32(6) {
				s.del(id)
			}
			s.routesOf(false, 0, 0)
		},
	},
	{
		name: "the flags of an address (C2)",
		talk: func(s *conversation) {
			e := entry("198.51.100.1:80", "192.0.2.1:80")
			e.Flags = types.FlagNoClient
			s.put(e)
			e.Flags = 0
			s.put(e)
			e.Port = 81
			s.put(e)
			s.routesOf(false, 0, sourceCnat)
			s.del(0)
			e.Port = 82
			s.put(e)
			s.routesOf(false, 0, sourceCnat)
			s.del(0)
			s.del(1)
			s.put(e)
			s.routesOf(false, 0, sourceCnat)
			e.Port, e.IsRealIP = 83, true
			s.put(e)
			s.routesOf(false, 0, sourceCnat)
		},
	},
	{
		name: "a source address takes an address for itself",
		talk: func(s *conversation) {
			s.setSNAT2(binapi2606.CnatSetSnatAddressesV2{SnatIP4: [4]byte{192, 0, 2, 11}, SwIfIndex: ^interface_types.InterfaceIndex(0)})
			s.routesOf(false, 0, sourceCnat)
			e := entry("192.0.2.11:80", "192.0.2.1:80")
			e.IsRealIP = true
			s.put(e)
			s.routesOf(false, 0, sourceCnat)
			s.setSNAT2(binapi2606.CnatSetSnatAddressesV2{SwIfIndex: ^interface_types.InterfaceIndex(0)})
			s.routesOf(false, 0, sourceCnat)
			s.del(0)
			s.routesOf(false, 0, sourceCnat)
		},
	},
	{
		name: "SNAT per table",
		talk: func(s *conversation) {
			s.table(7, false, true, "x")
			s.table(7, true, true, "x")
			none := ^interface_types.InterfaceIndex(0)
			s.setSNAT2(binapi2606.CnatSetSnatAddressesV2{FwdFibIndex: 1, SnatIP4: [4]byte{192, 0, 2, 12}, SwIfIndex: none, Flags: 2})
			s.getSNAT()
			s.dumpSNAT()
			s.setSNAT2(binapi2606.CnatSetSnatAddressesV2{SnatIP4: [4]byte{192, 0, 2, 13}, SwIfIndex: none, Flags: 2})
			s.getSNAT()
			s.dumpSNAT()
			s.setSNAT2(binapi2606.CnatSetSnatAddressesV2{FwdFibIndex: 1, SwIfIndex: none})
			s.dumpSNAT()
			s.setSNAT2(binapi2606.CnatSetSnatAddressesV2{FwdFibIndex: 1, SwIfIndex: none})
			s.setSNAT2(binapi2606.CnatSetSnatAddressesV2{FwdFibIndex: 1, SnatIP4: [4]byte{192, 0, 2, 14}, SwIfIndex: none, Flags: 6})
			s.setSNAT2(binapi2606.CnatSetSnatAddressesV2{SwIfIndex: none})
			s.getSNAT()
			s.dumpSNAT()
		},
	},
}

// Paths for routes.
var (
	unreach  = fib_types.FibPath{Type: fib_types.FIB_API_PATH_TYPE_ICMP_UNREACH, Weight: 1}
	prohibit = fib_types.FibPath{Type: fib_types.FIB_API_PATH_TYPE_ICMP_PROHIBIT, Weight: 1}
	drop     = fib_types.FibPath{Type: fib_types.FIB_API_PATH_TYPE_DROP}
)

// via is a path to a neighbour on loop0.
func via(n byte) fib_types.FibPath {
	p := fib_types.FibPath{SwIfIndex: 1}
	copy(p.Nh.Address.XXX_UnionData[:], []byte{192, 0, 2, n})
	return p
}

func (s *conversation) policy(p binapi2606.CnatSnatPolicy) {
	s.t.Helper()
	var r binapi2606.CnatSetSnatPolicyReply
	s.do(fmt.Sprintf("policy %d", p), &binapi2606.CnatSetSnatPolicy{Policy: p}, &r, &r.Retval)
}

func (s *conversation) exclude(prefix string, add bool) {
	s.t.Helper()
	m := &cnat.CnatSnatPolicyAddDelExcludePfx{}
	var err error
	if m.Prefix, err = parsePrefix(prefix); err != nil {
		s.t.Fatal(err)
	}
	if add {
		m.IsAdd = 1
	}
	var r cnat.CnatSnatPolicyAddDelExcludePfxReply
	s.do(fmt.Sprintf("exclude %s %v", prefix, add), m, &r, &r.Retval)
}

// parsePrefix takes lengths that cannot be, too.
func parsePrefix(s string) (ip_types.Prefix, error) {
	a, bits, _ := strings.Cut(s, "/")
	addr, err := ip_types.ParseAddress(a)
	if err != nil {
		return ip_types.Prefix{}, err
	}
	p := ip_types.Prefix{Address: addr}
	_, err = fmt.Sscan(bits, &p.Len)
	return p, err
}

func (s *conversation) snatIf(index uint32, table cnat.CnatSnatPolicyTable, add bool) {
	s.t.Helper()
	m := &cnat.CnatSnatPolicyAddDelIf{SwIfIndex: interface_types.InterfaceIndex(index), Table: table}
	if add {
		m.IsAdd = 1
	}
	var r cnat.CnatSnatPolicyAddDelIfReply
	s.do(fmt.Sprintf("interface %d table %d %v", index, table, add), m, &r, &r.Retval)
}

func (s *conversation) getSNAT() {
	s.t.Helper()
	var r cnat.CnatGetSnatAddressesReply
	if s.call(&cnat.CnatGetSnatAddresses{}, &r) {
		if r.Retval != 0 {
			s.say("get: %d", r.Retval)
			return
		}
		s.say("get: %d %s %s %d", r.Retval, r.SnatIP4, r.SnatIP6, int32(r.SwIfIndex))
	}
}

func (s *conversation) setSNAT2(m binapi2606.CnatSetSnatAddressesV2) {
	s.t.Helper()
	var r binapi2606.CnatSetSnatAddressesV2Reply
	s.do(fmt.Sprintf("set %s %s if%d fib %d/%d flags %d", m.SnatIP4, m.SnatIP6, int32(m.SwIfIndex), m.FwdFibIndex, m.RetFibIndex, m.Flags), &m, &r, &r.Retval)
}

func (s *conversation) dumpSNAT() {
	s.t.Helper()
	many(s, &binapi2606.CnatSnatAddressesDump{}, &binapi2606.ControlPing{}, func(d *binapi2606.CnatSnatAddressesDetails) {
		s.say("snat: %s %s if%d tables %d %d %d %d", d.SnatIP4, d.SnatIP6, int32(d.SwIfIndex), d.FwdTableID4, d.FwdTableID6, d.RetTableID4, d.RetTableID6)
	})
}

func (s *conversation) table(id uint32, v6, add bool, name string) {
	s.t.Helper()
	var r ip.IPTableAddDelReply
	s.do(fmt.Sprintf("table %d v6 %v add %v %q", id, v6, add, name),
		&ip.IPTableAddDel{IsAdd: add, Table: ip.IPTable{TableID: id, IsIP6: v6, Name: name}}, &r, &r.Retval)
}

func (s *conversation) tables() {
	s.t.Helper()
	many(s, &ip.IPTableDump{}, &memclnt.ControlPing{}, func(d *ip.IPTableDetails) {
		s.say("table: %d v6 %v %q", d.Table.TableID, d.Table.IsIP6, d.Table.Name)
	})
}

func (s *conversation) route(prefix string, table uint32, add, multipath bool, paths ...fib_types.FibPath) {
	s.t.Helper()
	p, err := parsePrefix(prefix)
	if err != nil {
		s.t.Fatal(err)
	}
	m := &ip.IPRouteAddDel{IsAdd: add, IsMultipath: multipath, Route: ip.IPRoute{TableID: table, Prefix: p, Paths: paths}}
	verb := "replace"
	switch {
	case add && multipath:
		verb = "add to"
	case !add && multipath:
		verb = "remove from"
	case !add:
		verb = "remove"
	}
	title := fmt.Sprintf("%s route %s", verb, prefix)
	if table != 0 {
		title += fmt.Sprintf(" table %d", table)
	}
	for _, p := range paths {
		title += fmt.Sprintf(" [%s if%d proto %d]", pathType(p.Type), int32(p.SwIfIndex), p.Proto)
	}
	var r ip.IPRouteAddDelReply
	s.do(title, m, &r, &r.Retval)
}

func (s *conversation) routes(v6 bool, table uint32) {
	s.t.Helper()
	lines := []string{}
	many(s, &ip.IPRouteDump{Table: ip.IPTable{TableID: table, IsIP6: v6}}, &memclnt.ControlPing{}, func(d *ip.IPRouteDetails) {
		lines = append(lines, fmt.Sprintf("route: table %d %s%s", d.Route.TableID, d.Route.Prefix, pathsText(d.Route.Paths)))
	})
	slices.Sort(lines)
	s.text = append(s.text, lines...)
}

// routeText writes down the route of the API that has a prefix.
func (s *conversation) routeText(prefix string) {
	s.t.Helper()
	many(s, &ip.IPRouteV2Dump{Src: sourceAPI}, &memclnt.ControlPing{}, func(d *ip.IPRouteV2Details) {
		if d.Route.Prefix.String() == prefix {
			s.say("    is%s", pathsText(d.Route.Paths))
		}
	})
}

func (s *conversation) routesOf(v6 bool, table uint32, source uint8) {
	s.t.Helper()
	lines := []string{}
	many(s, &ip.IPRouteV2Dump{Src: source, Table: ip.IPTable{TableID: table, IsIP6: v6}}, &memclnt.ControlPing{}, func(d *ip.IPRouteV2Details) {
		lines = append(lines, fmt.Sprintf("route of %d: table %d %s src %d%s", source, d.Route.TableID, d.Route.Prefix, d.Route.Src, pathsText(d.Route.Paths)))
	})
	slices.Sort(lines)
	s.text = append(s.text, lines...)
}

func pathsText(paths []fib_types.FibPath) string {
	var b strings.Builder
	for _, p := range paths {
		fmt.Fprintf(&b, " [%s", pathType(p.Type))
		if p.SwIfIndex != ^uint32(0) {
			fmt.Fprintf(&b, " if%d", p.SwIfIndex)
		}
		if hop := nextHop(p, p.Proto == fib_types.FIB_API_PATH_NH_PROTO_IP6); !hop.IsUnspecified() {
			fmt.Fprintf(&b, " via %s", hop)
		}
		fmt.Fprintf(&b, " proto %d weight %d pref %d table %d]", p.Proto, p.Weight, p.Preference, p.TableID)
	}
	return b.String()
}

func pathType(t fib_types.FibPathType) string {
	return strings.ToLower(strings.TrimPrefix(t.String(), "FIB_API_PATH_TYPE_"))
}

// f10 are the paths of F10, each in a conversation of its own where VPP dies.
func f10() (dies, lives [][]fib_types.FibPath) {
	for typ := range fib_types.FibPathType(13) {
		for proto := range fib_types.FibPathNhProto(6) {
			p := fib_types.FibPath{Type: typ, Proto: proto, SwIfIndex: ^uint32(0)}
			in := newInstance(1, &contractConfig)
			q := p
			if _, abort := in.decodePath(&q); abort != "" {
				dies = append(dies, []fib_types.FibPath{p})
			} else {
				lives = append(lives, []fib_types.FibPath{p})
			}
		}
	}
	return dies, lives
}

type interfaceIndex = interface_types.InterfaceIndex

var updateGolden = flag.Bool("update", false, "write testdata/contract.txt, from the real VPP if VPP_BIN names one")

// TestContract holds conversations with the simulator and, when VPP_BIN names
// one, with a real VPP. Both must say what testdata/contract.txt says, which is
// also a readable account of how VPP behaves.
func TestContract(t *testing.T) {
	cases := slices.Clone(contract)
	add := func(name string, talk func(*conversation)) {
		cases = append(cases, struct {
			name string
			talk func(*conversation)
		}{name, talk})
	}
	dies, lives := f10()
	add("paths that VPP takes or refuses", func(s *conversation) {
		for i, p := range lives {
			prefix := fmt.Sprintf("10.98.%d.0/24", i)
			s.route(prefix, 0, true, false, p...)
			s.routeText(prefix)
		}
	})
	for _, p := range dies {
		add(fmt.Sprintf("path type %d proto %d (F10)", p[0].Type, p[0].Proto), func(s *conversation) {
			s.route("10.98.0.0/16", 0, true, false, p...)
		})
	}

	const golden = "testdata/contract.txt"
	archive, err := txtar.ParseFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, f := range archive.Files {
		want[f.Name] = string(f.Data)
	}
	got := &txtar.Archive{Comment: archive.Comment}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			sim := newSim(t, contractConfig)
			simulated := strings.Join(talk(t, sim.Socket(), sim.CrashC(), c.talk), "\n") + "\n"
			text := simulated
			t.Run("real", func(t *testing.T) {
				socket, died := realVPP(t)
				text = strings.Join(talk(t, socket, died, c.talk), "\n") + "\n"
				if diff := cmp.Diff(strings.Split(text, "\n"), strings.Split(simulated, "\n")); diff != "" {
					t.Errorf("real VPP (-) and simulator (+) differ:\n%s", diff)
				}
			})
			got.Files = append(got.Files, txtar.File{Name: c.name, Data: []byte(text)})
			if diff := cmp.Diff(want[c.name], simulated); diff != "" && !*updateGolden {
				t.Errorf("%s (-) and simulator (+) differ:\n%s", golden, diff)
			}
		})
	}
	if *updateGolden {
		if err := os.WriteFile(golden, txtar.Format(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func talk(t *testing.T, socket string, died <-chan struct{}, f func(*conversation)) []string {
	t.Helper()
	conn, err := core.Connect(socketclient.NewVppClient(socket))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Disconnect()
	s := &conversation{t: t, conn: conn, died: died}
	f(s)
	return s.text
}
