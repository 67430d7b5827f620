// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package types

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Protocol is a transport protocol that cnat can translate, by its IP protocol
// number.
type Protocol uint8

// The protocols of a Kubernetes Service port.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// String returns the name that Kubernetes uses: TCP, UDP, SCTP.
func (p Protocol) String() string {
	switch p {
	case TCP:
		return "TCP"
	case UDP:
		return "UDP"
	case SCTP:
		return "SCTP"
	}
	return "proto-" + strconv.Itoa(int(p))
}

// Known tells whether p is one of TCP, UDP and SCTP.
func (p Protocol) Known() bool { return p == TCP || p == UDP || p == SCTP }

// ParseProtocol reads the protocol of a Service, slice or container port. An
// empty string is TCP, as the API server defaults it.
func ParseProtocol(s string) (Protocol, error) {
	switch strings.ToUpper(s) {
	case "", "TCP":
		return TCP, nil
	case "UDP":
		return UDP, nil
	case "SCTP":
		return SCTP, nil
	}
	return 0, fmt.Errorf("protocol %q: accepted values are TCP, UDP and SCTP", s)
}

// Key is one slot of VPP's cnat plugin: VPP holds at most one translation for
// it, whoever asks (vpp-facts F1). It is comparable and carries its family in
// the address.
type Key struct {
	Proto Protocol
	IP    netip.Addr
	Port  uint16
}

// String prints the key as proto;ip;port.
func (k Key) String() string {
	return fmt.Sprintf("%s;%s;%d", k.Proto, k.IP, k.Port)
}

// Compare orders keys by protocol number, address and port. Everything visible
// (writes, logs, tables) is sorted by it, so that two nodes can be compared.
func (k Key) Compare(o Key) int {
	return cmp.Or(
		cmp.Compare(k.Proto, o.Proto),
		k.IP.Compare(o.IP),
		cmp.Compare(k.Port, o.Port),
	)
}

// ParseKey reads what String prints.
func ParseKey(s string) (Key, error) {
	bad := func(why string) (Key, error) {
		return Key{}, fmt.Errorf("key %q: %s; wanted proto;ip;port, for example TCP;10.96.0.1;443", s, why)
	}
	f := strings.Split(s, ";")
	if len(f) != 3 {
		return bad(fmt.Sprintf("%d fields", len(f)))
	}
	if f[0] == "" {
		return bad("no protocol")
	}
	p, err := ParseProtocol(f[0])
	if err != nil {
		return bad(err.Error())
	}
	ip, err := netip.ParseAddr(f[1])
	if err != nil {
		return bad(err.Error())
	}
	port, err := strconv.ParseUint(f[2], 10, 16)
	if err != nil || port == 0 {
		return bad(fmt.Sprintf("port %q is not in 1-65535", f[2]))
	}
	return Key{Proto: p, IP: ip.Unmap(), Port: uint16(port)}, nil
}
