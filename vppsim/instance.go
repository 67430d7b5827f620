// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"net/netip"

	"go.fd.io/govpp/binapi/memclnt"
	"go.fd.io/govpp/binapi/vpe"
)

// vpePID is the process id that every instance reports: VPP is process 1 of
// its container, in its next life too, so a pid identifies nothing (L3).
const vpePID = 1

// VPP's API errors that the simulator gives.
const (
	errInvalidSwIfIndex  int32  = -2
	errNoSuchFIB         int32  = -3
	errNoSuchEntry       int32  = -6
	errInvalidValue      int32  = -7
	errFeatureDisabled   int32  = -30
	errNoPathsInRoute    int32  = -52
	errNoMatchingIntf    int32  = -54
	errNoSuchTable       int32  = -65
	errInvalidAddrFamily int32  = -97
	errInvalidProtocol   int32  = -153
	errInvalidPrefixLen  int32  = -171
	invalidIndex         uint32 = ^uint32(0)
)

// instance is one life of VPP: all that is gone when it dies.
type instance struct {
	number  int
	version string
	dead    bool
	died    chan struct{} // closed by a crash, not by a restart

	ids  map[string]uint16 // by name_crc
	byID map[uint16]*method

	interfaces []*iface // by sw_if_index
	fib        fib
	cnat       cnatState
	snat       snatState
}

func newInstance(number int, cfg *Config) *instance {
	in := &instance{
		number:  number,
		version: cfg.Version,
		died:    make(chan struct{}),
		fib:     newFIB(),
		cnat:    newCnatState(),
	}
	in.addInterface(Interface{Name: "local0", DevType: "local", Down: true})
	if cfg.Interfaces != nil {
		for _, i := range cfg.Interfaces {
			in.addInterface(i)
		}
		return in
	}
	addrs := cfg.NodeAddresses
	if len(addrs) == 0 {
		addrs = []netip.Prefix{
			netip.MustParsePrefix("192.0.2.11/24"),
			netip.MustParsePrefix("2001:db8::11/64"),
		}
	}
	uplink := in.addInterface(Interface{Name: "uplink0", Addresses: addrs})
	for _, a := range addrs {
		in.fib.addDefaultRoute(uplink, a.Addr().Is6())
	}
	return in
}

func vpeMethods() []*method {
	return []*method{
		read[vpe.ShowVersion, vpe.ShowVersionReply](func(c *call, _ *vpe.ShowVersion) {
			c.reply(&vpe.ShowVersionReply{
				Program:        "vpe",
				Version:        c.inst.version,
				BuildDate:      "2026-06-24T00:00:00",
				BuildDirectory: "/simulated",
			})
		}),
	}
}

func sockclntCreate(c *call, m *memclnt.SockclntCreate) {
	c.client.name = m.Name
	r := &memclnt.SockclntCreateReply{Index: c.client.index}
	for name, id := range c.inst.ids {
		r.MessageTable = append(r.MessageTable, memclnt.MessageTableEntry{Index: id, Name: name})
	}
	c.reply(r)
}

// sockclntDelete frees the registration of the index in the message and closes
// the socket of the sender, whoever that is. VPP aborts when the client without
// a registration is heard of next (its socket_api.c), which our first connection
// beside another one saw to.
func sockclntDelete(c *call, m *memclnt.SockclntDelete) {
	other, ok := c.sim.clients[m.Index]
	if !ok {
		c.reply(&memclnt.SockclntDeleteReply{Response: -1})
		return
	}
	// VPP says 1 where one would expect 0.
	c.reply(&memclnt.SockclntDeleteReply{Response: 1})
	other.unregistered = true
	c.client.leave()
}

// controlPing: VPP leaves the client index of its reply unset.
func controlPing(c *call, _ *memclnt.ControlPing) {
	c.reply(&memclnt.ControlPingReply{VpePID: vpePID})
}
