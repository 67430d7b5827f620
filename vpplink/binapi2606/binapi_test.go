// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package binapi2606

import (
	"encoding/hex"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/memclnt"
	"go.fd.io/govpp/codec"
)

// The wire column is written by hand from the API definition: message id
// 0x1234, then the header (10 bytes in a request, 6 in a reply, all zero), then
// the fields, big endian.
const (
	request = "1234 00000000 00000000 "
	reply   = "1234 00000000 "
)

func TestWire(t *testing.T) {
	ip4 := ip_types.IP4Address{192, 0, 2, 11}
	ip6 := ip_types.IP6Address{0x20, 0x01, 0x0d, 0xb8, 15: 0x11}
	tuple := Cnat5tuple{Port: [2]uint16{0x3412, 0x5000}, IPProto: ip_types.IP_API_PROTO_UDP}
	tuple.Addr[0].Un.XXX_UnionData = [16]byte{10, 0, 0, 2}
	tuple.Addr[1].Af = ip_types.ADDRESS_IP6
	tuple.Addr[1].Un.XXX_UnionData = ip6
	v2Reply, featureReply, policyReply := new(CnatSetSnatAddressesV2Reply), new(FeatureCnatEnableDisableReply), new(CnatSetSnatPolicyReply)
	v2Reply.Retval, featureReply.Retval, policyReply.Retval = -30, -2, 0
	pong := new(ControlPingReply)
	pong.ClientIndex, pong.VpePID = 7, 0x1122

	for _, c := range []struct {
		nameCRC string
		msg     api.Message
		wire    string
	}{
		{"feature_cnat_enable_disable_5501adee", &FeatureCnatEnableDisable{SwIfIndex: 3, EnableDisable: true}, request + "00000003 01"},
		{"feature_cnat_enable_disable_reply_e8d4e804", featureReply, reply + "fffffffe"},
		{
			"cnat_set_snat_addresses_v2_c0125c26",
			&CnatSetSnatAddressesV2{
				FwdFibIndex: 1, RetFibIndex: 2, SnatIP4: ip4, SnatIP6: ip6, SwIfIndex: ^(*new(CnatSetSnatAddressesV2)).SwIfIndex,
				Flags: CnatSnatPolicyNoClient | CnatSnatPolicyUseAsDefault,
			},
			request + "00000001 00000002 c000020b 20010db8000000000000000000000011 ffffffff 06",
		},
		{"cnat_set_snat_addresses_v2_reply_e8d4e804", v2Reply, reply + "ffffffe2"},
		{"cnat_snat_addresses_dump_51077d14", &CnatSnatAddressesDump{}, request},
		{
			"cnat_snat_addresses_details_09ae6b38",
			&CnatSnatAddressesDetails{Retval: -1, FwdTableID4: 1, FwdTableID6: 2, RetTableID4: 3, RetTableID6: 4, SnatIP4: ip4, SnatIP6: ip6, SwIfIndex: 5},
			reply + "ffffffff 00000001 00000002 00000003 00000004 c000020b 20010db8000000000000000000000011 00000005",
		},
		{"cnat_set_snat_policy_37a3ce23", &CnatSetSnatPolicy{Policy: CnatPolicyDNAT}, request + "03"},
		{"cnat_set_snat_policy_reply_e8d4e804", policyReply, reply + "00000000"},
		{"cnat_session_dump_51077d14", &CnatSessionDump{}, request},
		{
			"cnat_session_details_7a78bf3f",
			&CnatSessionDetails{Tuple: tuple, TsIndex: 9, Flags: CnatSessionIsReturn},
			reply + "00 0a000002000000000000000000000000 01 20010db8000000000000000000000011 3412 5000 11 00000009 00000010",
		},
		{"control_ping_51077d14", &ControlPing{}, request},
		{"control_ping_reply_f6b0b8ca", pong, reply + "00000000 00000007 00001122"},
	} {
		t.Run(c.nameCRC, func(t *testing.T) {
			if got := c.msg.GetMessageName() + "_" + c.msg.GetCrcString(); got != c.nameCRC {
				t.Errorf("name and CRC %s", got)
			}
			wire, err := codec.EncodeMsg(c.msg, 0x1234)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.ReplaceAll(c.wire, " ", ""); hex.EncodeToString(wire) != want {
				t.Errorf("encoded %x\n want %s", wire, want)
			}
			back := reflect.New(reflect.TypeOf(c.msg).Elem()).Interface().(api.Message)
			if err := codec.DecodeMsg(wire, back); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(c.msg, back) {
				t.Errorf("decoded %+v\n want %+v", back, c.msg)
			}
			if b, err := c.msg.(codec.Marshaler).Marshal(nil); err != nil || len(b) != c.msg.(codec.Marshaler).Size() {
				t.Errorf("Marshal(nil): %d bytes, %v, Size %d", len(b), err, c.msg.(codec.Marshaler).Size())
			}
			if len(wire) > 10 {
				// Clipped, because the codec looks at the capacity.
				short := slices.Clip(slices.Clone(wire[:len(wire)-1]))
				if err := codec.DecodeMsg(short, back); err == nil {
					t.Error("a truncated message was decoded")
				}
			}
		})
	}
	if src, dst := tuple.Ports(); src != 0x1234 || dst != 80 {
		t.Errorf("ports %#x, %d", src, dst)
	}
}

const path = "calico-vpp-services/vpplink"

// registeredBefore is what govpp knew before any test ran.
var registeredBefore map[string]api.Message

func TestMain(m *testing.M) {
	registeredBefore = maps.Clone(api.GetRegisteredMessages()[path])
	m.Run()
}

// Nothing is registered by importing the package, everything by Register, and
// what govpp has of the same name is left alone.
func TestRegister(t *testing.T) {
	if len(registeredBefore) > 0 {
		t.Errorf("registered without being asked: %v", registeredBefore)
	}
	Register()
	Register()
	got := map[string]bool{}
	for name := range api.GetRegisteredMessages()[path] {
		got[name] = true
	}
	want := map[string]bool{}
	for _, m := range messages() {
		want[m.msg.GetMessageName()+"_"+m.msg.GetCrcString()] = true
		if name := reflect.TypeOf(m.msg).Elem().Name(); name != m.goName {
			t.Errorf("%s is registered as %s", name, m.goName)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	theirs := api.GetRegisteredMessages()["go.fd.io/govpp/binapi"]
	if _, ok := theirs["control_ping_51077d14"].(*memclnt.ControlPing); !ok {
		t.Error("govpp's own control_ping is hidden")
	}
	if _, ok := theirs["cnat_session_dump_51077d14"].(*cnat.CnatSessionDump); !ok {
		t.Error("govpp's own cnat_session_dump is hidden")
	}
}
