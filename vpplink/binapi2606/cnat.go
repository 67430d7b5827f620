// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package binapi2606

import (
	"math/bits"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/interface_types"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/codec"
)

// emptyCRC is the CRC of every request that has no fields, retvalCRC that of
// every reply that has only a return value.
const (
	emptyCRC  = "51077d14"
	retvalCRC = "e8d4e804"
)

// The path flags and the translation flag whose meaning 26.06 defines without
// a change of CRC (vpp-facts M2). govpp's CNAT_EPT_NO_NAT is 25.10's value.
const (
	CnatEptNoNAT            uint8 = 2
	CnatTranslationNoClient uint8 = 8
)

// CnatSnatPolicy chooses which flows get a new source address on output.
type CnatSnatPolicy uint8

// The policies of cnat_set_snat_policy.
const (
	CnatPolicyNone  CnatSnatPolicy = 0 // every flow
	CnatPolicyIfPfx CnatSnatPolicy = 1 // by input interface and destination prefix
	CnatPolicyK8s   CnatSnatPolicy = 2 // what Kubernetes needs: outgoing, from outside, hairpin
	CnatPolicyDNAT  CnatSnatPolicy = 3 // rewrite by prefix
)

// CnatSnatPolicyFlags are the flags of cnat_set_snat_addresses_v2.
type CnatSnatPolicyFlags uint8

// The flags of a SNAT policy entry; VPP takes them when it makes the entry.
const (
	CnatSnatPolicyBufferNext   CnatSnatPolicyFlags = 1
	CnatSnatPolicyNoClient     CnatSnatPolicyFlags = 2
	CnatSnatPolicyUseAsDefault CnatSnatPolicyFlags = 4
)

// FeatureCnatEnableDisable is feature_cnat_enable_disable: the cnat nodes on
// the input and output arcs of an interface. Its presence in the message table
// tells 26.06 from older versions (vpp-facts M2).
type FeatureCnatEnableDisable struct {
	SwIfIndex     interface_types.InterfaceIndex
	EnableDisable bool
}

// GetMessageName implements api.Message.
func (*FeatureCnatEnableDisable) GetMessageName() string { return "feature_cnat_enable_disable" }

// GetCrcString implements api.Message.
func (*FeatureCnatEnableDisable) GetCrcString() string { return "5501adee" }

// GetMessageType implements api.Message.
func (*FeatureCnatEnableDisable) GetMessageType() api.MessageType { return api.RequestMessage }

// Size implements codec.Marshaler.
func (*FeatureCnatEnableDisable) Size() int { return 4 + 1 }

// Marshal implements codec.Marshaler.
func (m *FeatureCnatEnableDisable) Marshal(b []byte) ([]byte, error) {
	buf := buffer(b, m.Size())
	buf.EncodeUint32(uint32(m.SwIfIndex))
	buf.EncodeBool(m.EnableDisable)
	return buf.Bytes(), nil
}

// Unmarshal implements codec.Unmarshaler.
func (m *FeatureCnatEnableDisable) Unmarshal(b []byte) error {
	buf := codec.NewBuffer(b)
	m.SwIfIndex = interface_types.InterfaceIndex(buf.DecodeUint32())
	m.EnableDisable = buf.DecodeBool()
	return nil
}

// FeatureCnatEnableDisableReply is feature_cnat_enable_disable_reply.
type FeatureCnatEnableDisableReply struct{ retval }

// GetMessageName implements api.Message.
func (*FeatureCnatEnableDisableReply) GetMessageName() string {
	return "feature_cnat_enable_disable_reply"
}

// CnatSetSnatAddressesV2 is cnat_set_snat_addresses_v2: the source addresses
// for flows of one table. All of SnatIP4, SnatIP6 zero and SwIfIndex ^0 remove
// the entry.
type CnatSetSnatAddressesV2 struct {
	FwdFibIndex uint32
	RetFibIndex uint32
	SnatIP4     ip_types.IP4Address
	SnatIP6     ip_types.IP6Address
	SwIfIndex   interface_types.InterfaceIndex
	Flags       CnatSnatPolicyFlags
}

// GetMessageName implements api.Message.
func (*CnatSetSnatAddressesV2) GetMessageName() string { return "cnat_set_snat_addresses_v2" }

// GetCrcString implements api.Message.
func (*CnatSetSnatAddressesV2) GetCrcString() string { return "c0125c26" }

// GetMessageType implements api.Message.
func (*CnatSetSnatAddressesV2) GetMessageType() api.MessageType { return api.RequestMessage }

// Size implements codec.Marshaler.
func (*CnatSetSnatAddressesV2) Size() int { return 4 + 4 + 4 + 16 + 4 + 1 }

// Marshal implements codec.Marshaler.
func (m *CnatSetSnatAddressesV2) Marshal(b []byte) ([]byte, error) {
	buf := buffer(b, m.Size())
	buf.EncodeUint32(m.FwdFibIndex)
	buf.EncodeUint32(m.RetFibIndex)
	buf.EncodeBytes(m.SnatIP4[:], 4)
	buf.EncodeBytes(m.SnatIP6[:], 16)
	buf.EncodeUint32(uint32(m.SwIfIndex))
	buf.EncodeUint8(uint8(m.Flags))
	return buf.Bytes(), nil
}

// Unmarshal implements codec.Unmarshaler.
func (m *CnatSetSnatAddressesV2) Unmarshal(b []byte) error {
	buf := codec.NewBuffer(b)
	m.FwdFibIndex = buf.DecodeUint32()
	m.RetFibIndex = buf.DecodeUint32()
	copy(m.SnatIP4[:], buf.DecodeBytes(4))
	copy(m.SnatIP6[:], buf.DecodeBytes(16))
	m.SwIfIndex = interface_types.InterfaceIndex(buf.DecodeUint32())
	m.Flags = CnatSnatPolicyFlags(buf.DecodeUint8())
	return nil
}

// CnatSetSnatAddressesV2Reply is cnat_set_snat_addresses_v2_reply.
type CnatSetSnatAddressesV2Reply struct{ retval }

// GetMessageName implements api.Message.
func (*CnatSetSnatAddressesV2Reply) GetMessageName() string {
	return "cnat_set_snat_addresses_v2_reply"
}

// CnatSnatAddressesDump is cnat_snat_addresses_dump.
type CnatSnatAddressesDump struct{ empty }

// GetMessageName implements api.Message.
func (*CnatSnatAddressesDump) GetMessageName() string { return "cnat_snat_addresses_dump" }

// CnatSnatAddressesDetails is cnat_snat_addresses_details, one per SNAT policy
// entry. Unlike other details it has a return value in front, and 26.06 sends
// it without having set it: ignore it.
type CnatSnatAddressesDetails struct {
	Retval      int32
	FwdTableID4 uint32
	FwdTableID6 uint32
	RetTableID4 uint32
	RetTableID6 uint32
	SnatIP4     ip_types.IP4Address
	SnatIP6     ip_types.IP6Address
	SwIfIndex   interface_types.InterfaceIndex
}

// GetMessageName implements api.Message.
func (*CnatSnatAddressesDetails) GetMessageName() string { return "cnat_snat_addresses_details" }

// GetCrcString implements api.Message.
func (*CnatSnatAddressesDetails) GetCrcString() string { return "09ae6b38" }

// GetMessageType implements api.Message.
func (*CnatSnatAddressesDetails) GetMessageType() api.MessageType { return api.ReplyMessage }

// Size implements codec.Marshaler.
func (*CnatSnatAddressesDetails) Size() int { return 4 + 4*4 + 4 + 16 + 4 }

// Marshal implements codec.Marshaler.
func (m *CnatSnatAddressesDetails) Marshal(b []byte) ([]byte, error) {
	buf := buffer(b, m.Size())
	buf.EncodeInt32(m.Retval)
	buf.EncodeUint32(m.FwdTableID4)
	buf.EncodeUint32(m.FwdTableID6)
	buf.EncodeUint32(m.RetTableID4)
	buf.EncodeUint32(m.RetTableID6)
	buf.EncodeBytes(m.SnatIP4[:], 4)
	buf.EncodeBytes(m.SnatIP6[:], 16)
	buf.EncodeUint32(uint32(m.SwIfIndex))
	return buf.Bytes(), nil
}

// Unmarshal implements codec.Unmarshaler.
func (m *CnatSnatAddressesDetails) Unmarshal(b []byte) error {
	buf := codec.NewBuffer(b)
	m.Retval = buf.DecodeInt32()
	m.FwdTableID4 = buf.DecodeUint32()
	m.FwdTableID6 = buf.DecodeUint32()
	m.RetTableID4 = buf.DecodeUint32()
	m.RetTableID6 = buf.DecodeUint32()
	copy(m.SnatIP4[:], buf.DecodeBytes(4))
	copy(m.SnatIP6[:], buf.DecodeBytes(16))
	m.SwIfIndex = interface_types.InterfaceIndex(buf.DecodeUint32())
	return nil
}

// CnatSetSnatPolicy is cnat_set_snat_policy.
type CnatSetSnatPolicy struct {
	Policy CnatSnatPolicy
}

// GetMessageName implements api.Message.
func (*CnatSetSnatPolicy) GetMessageName() string { return "cnat_set_snat_policy" }

// GetCrcString implements api.Message.
func (*CnatSetSnatPolicy) GetCrcString() string { return "37a3ce23" }

// GetMessageType implements api.Message.
func (*CnatSetSnatPolicy) GetMessageType() api.MessageType { return api.RequestMessage }

// Size implements codec.Marshaler.
func (*CnatSetSnatPolicy) Size() int { return 1 }

// Marshal implements codec.Marshaler.
func (m *CnatSetSnatPolicy) Marshal(b []byte) ([]byte, error) {
	buf := buffer(b, m.Size())
	buf.EncodeUint8(uint8(m.Policy))
	return buf.Bytes(), nil
}

// Unmarshal implements codec.Unmarshaler.
func (m *CnatSetSnatPolicy) Unmarshal(b []byte) error {
	m.Policy = CnatSnatPolicy(codec.NewBuffer(b).DecodeUint8())
	return nil
}

// CnatSetSnatPolicyReply is cnat_set_snat_policy_reply. It equals govpp's, and
// is here for streams (see the package comment).
type CnatSetSnatPolicyReply struct{ retval }

// GetMessageName implements api.Message.
func (*CnatSetSnatPolicyReply) GetMessageName() string { return "cnat_set_snat_policy_reply" }

// CnatSessionDump is cnat_session_dump. It equals govpp's, and is here for
// streams (see the package comment).
type CnatSessionDump struct{ empty }

// GetMessageName implements api.Message.
func (*CnatSessionDump) GetMessageName() string { return "cnat_session_dump" }

// Cnat5tuple is the identity of a flow, source first.
type Cnat5tuple struct {
	Addr [2]ip_types.Address
	// Port is as on the wire. On a little-endian machine 26.06 sends the ports
	// of a session with their bytes swapped (80 arrives as 20480); see Ports.
	Port    [2]uint16
	IPProto ip_types.IPProto
}

// Ports returns source and destination port with the bytes in order.
func (t *Cnat5tuple) Ports() (src, dst uint16) {
	return bits.ReverseBytes16(t.Port[0]), bits.ReverseBytes16(t.Port[1])
}

// The flags of a session that matter to a reader of a dump.
const (
	CnatSessionHasClient uint32 = 1 << 0
	CnatSessionIsReturn  uint32 = 1 << 4
)

// CnatSessionDetails is cnat_session_details with the layout of 26.06. A flow
// usually has two sessions, the second marked [CnatSessionIsReturn].
type CnatSessionDetails struct {
	Tuple   Cnat5tuple
	TsIndex uint32
	Flags   uint32
}

// GetMessageName implements api.Message.
func (*CnatSessionDetails) GetMessageName() string { return "cnat_session_details" }

// GetCrcString implements api.Message.
func (*CnatSessionDetails) GetCrcString() string { return "7a78bf3f" }

// GetMessageType implements api.Message.
func (*CnatSessionDetails) GetMessageType() api.MessageType { return api.ReplyMessage }

// Size implements codec.Marshaler.
func (*CnatSessionDetails) Size() int { return 2*(1+16) + 2*2 + 1 + 4 + 4 }

// Marshal implements codec.Marshaler.
func (m *CnatSessionDetails) Marshal(b []byte) ([]byte, error) {
	buf := buffer(b, m.Size())
	for i := range m.Tuple.Addr {
		buf.EncodeUint8(uint8(m.Tuple.Addr[i].Af))
		buf.EncodeBytes(m.Tuple.Addr[i].Un.XXX_UnionData[:], 16)
	}
	buf.EncodeUint16(m.Tuple.Port[0])
	buf.EncodeUint16(m.Tuple.Port[1])
	buf.EncodeUint8(uint8(m.Tuple.IPProto))
	buf.EncodeUint32(m.TsIndex)
	buf.EncodeUint32(m.Flags)
	return buf.Bytes(), nil
}

// Unmarshal implements codec.Unmarshaler.
func (m *CnatSessionDetails) Unmarshal(b []byte) error {
	buf := codec.NewBuffer(b)
	for i := range m.Tuple.Addr {
		m.Tuple.Addr[i].Af = ip_types.AddressFamily(buf.DecodeUint8())
		copy(m.Tuple.Addr[i].Un.XXX_UnionData[:], buf.DecodeBytes(16))
	}
	m.Tuple.Port[0] = buf.DecodeUint16()
	m.Tuple.Port[1] = buf.DecodeUint16()
	m.Tuple.IPProto = ip_types.IPProto(buf.DecodeUint8())
	m.TsIndex = buf.DecodeUint32()
	m.Flags = buf.DecodeUint32()
	return nil
}
