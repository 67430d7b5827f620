// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"net/netip"
	"slices"
	"strings"

	"go.fd.io/govpp/binapi/feature"
	interfaces "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_types"
)

// Interface is an interface of the simulated VPP.
type Interface struct {
	Name      string
	Tag       string
	DevType   string         // empty is "virtio"
	Down      bool           // neither admin nor link up
	Addresses []netip.Prefix // the interface's own addresses with their prefix lengths
}

type iface struct {
	Interface
	index uint32
	cnat  int // how often feature_cnat_enable_disable enabled it, less how often disabled
}

func (in *instance) addInterface(i Interface) uint32 {
	if i.DevType == "" {
		i.DevType = "virtio"
	}
	i.Addresses = slices.Clone(i.Addresses)
	index := uint32(len(in.interfaces))
	in.interfaces = append(in.interfaces, &iface{Interface: i, index: index})
	return index
}

func (in *instance) iface(index uint32) *iface {
	if index >= uint32(len(in.interfaces)) {
		return nil
	}
	return in.interfaces[index]
}

// firstAddress is the address that an endpoint given as interface stands for.
func (in *instance) firstAddress(index uint32, v6 bool) (netip.Addr, bool) {
	if i := in.iface(index); i != nil {
		for _, p := range i.Addresses {
			if p.Addr().Is6() == v6 {
				return p.Addr(), true
			}
		}
	}
	return netip.Addr{}, false
}

// AddInterface adds an interface to the current VPP, as the creation of a pod
// does, and returns its index.
func (s *Sim) AddInterface(i Interface) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inst.addInterface(i)
}

func interfaceMethods() []*method {
	return []*method{
		read[interfaces.SwInterfaceDump, interfaces.SwInterfaceDetails](swInterfaceDump),
		read[ip.IPAddressDump, ip.IPAddressDetails](ipAddressDump),
		read[feature.FeatureIsEnabled, feature.FeatureIsEnabledReply](featureIsEnabled),
	}
}

func swInterfaceDump(c *call, m *interfaces.SwInterfaceDump) {
	if index := uint32(m.SwIfIndex); !m.NameFilterValid && index != invalidIndex && index != 0 {
		if i := c.inst.iface(index); i != nil {
			c.reply(i.details())
		}
		return
	}
	for _, i := range c.inst.interfaces {
		if m.NameFilterValid && !strings.Contains(strings.ToLower(i.Name), strings.ToLower(m.NameFilter)) {
			continue
		}
		c.reply(i.details())
	}
}

func (i *iface) details() *interfaces.SwInterfaceDetails {
	d := &interfaces.SwInterfaceDetails{
		SwIfIndex:        interface_types.InterfaceIndex(i.index),
		SupSwIfIndex:     i.index,
		InterfaceName:    i.Name,
		InterfaceDevType: i.DevType,
		Tag:              i.Tag,
		Mtu:              make([]uint32, 4),
	}
	if i.index != 0 {
		d.LinkMtu, d.Mtu[0] = 9000, 9000
	}
	if !i.Down {
		d.Flags = interface_types.IF_STATUS_API_FLAG_ADMIN_UP | interface_types.IF_STATUS_API_FLAG_LINK_UP
	}
	return d
}

func ipAddressDump(c *call, m *ip.IPAddressDump) {
	i := c.inst.iface(uint32(m.SwIfIndex))
	if i == nil {
		return
	}
	for _, p := range i.Addresses {
		if p.Addr().Is6() == m.IsIPv6 {
			c.reply(&ip.IPAddressDetails{
				SwIfIndex: m.SwIfIndex,
				Prefix:    ip_types.AddressWithPrefix{Address: apiAddress(p.Addr()), Len: uint8(p.Bits())},
			})
		}
	}
}

// cnatNodes are the nodes that feature_cnat_enable_disable puts on an
// interface's arcs.
//
//nolint:gochecknoglobals // a constant, but for the language
var cnatNodes = map[string][]string{
	"ip4-unicast": {"cnat-input-ip4", "cnat-lookup-ip4"},
	"ip6-unicast": {"cnat-input-ip6", "cnat-lookup-ip6"},
	"ip4-output":  {"cnat-output-ip4", "cnat-writeback-ip4"},
	"ip6-output":  {"cnat-output-ip6", "cnat-writeback-ip6"},
}

// featureIsEnabled: VPP calls an arc or a feature enabled that it does not know,
// because its error is not zero. The simulator knows those of cnat.
func featureIsEnabled(c *call, m *feature.FeatureIsEnabled) {
	r := &feature.FeatureIsEnabledReply{}
	if i := c.inst.iface(uint32(m.SwIfIndex)); i == nil {
		r.Retval = errInvalidSwIfIndex
	} else {
		r.IsEnabled = i.cnat > 0 || !slices.Contains(cnatNodes[m.ArcName], m.FeatureName)
	}
	c.reply(r)
}

// apiAddress is a as binapi writes it; the zero Addr gives IPv4's zeros.
func apiAddress(a netip.Addr) ip_types.Address {
	var out ip_types.Address
	switch {
	case a.Is4():
		b := a.As4()
		copy(out.Un.XXX_UnionData[:], b[:])
	case a.Is6():
		out.Af = ip_types.ADDRESS_IP6
		out.Un.XXX_UnionData = a.As16()
	}
	return out
}

// goAddress reads an address as VPP does: what is not IPv6 is IPv4.
func goAddress(a ip_types.Address) netip.Addr {
	if a.Af == ip_types.ADDRESS_IP6 {
		return netip.AddrFrom16(a.Un.XXX_UnionData)
	}
	return netip.AddrFrom4([4]byte(a.Un.XXX_UnionData[:4]))
}
