// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"hash/fnv"
	"net/netip"

	"calico-vpp-services/vpplink/types"
)

// defaultHash is what VPP takes for a flow hash configuration of zero, without
// the flow label, which a Packet has not got.
const defaultHash = types.HashSrcAddr | types.HashDstAddr | types.HashSrcPort | types.HashDstPort | types.HashProto

// flowHash is a hash of the fields of f that config selects. Its value is not
// VPP's, but what it depends on is.
func flowHash(f flow, config types.FlowHash) uint64 {
	if config == 0 {
		config = defaultHash
	}
	srcAddr, dstAddr := f.src.Addr(), f.dst.Addr()
	srcPort, dstPort := f.src.Port(), f.dst.Port()
	if proto := types.Protocol(f.proto); proto != types.TCP && proto != types.UDP {
		// VPP looks for ports in TCP and UDP only: all SCTP flows between two
		// addresses have the same hash.
		srcPort, dstPort = 0, 0
	}
	if config&types.HashSrcAddr == 0 {
		srcAddr = netip.Addr{}
	}
	if config&types.HashDstAddr == 0 {
		dstAddr = netip.Addr{}
	}
	if config&types.HashSrcPort == 0 {
		srcPort = 0
	}
	if config&types.HashDstPort == 0 {
		dstPort = 0
	}
	if config&types.HashReverse != 0 {
		srcAddr, dstAddr, srcPort, dstPort = dstAddr, srcAddr, dstPort, srcPort
	}
	if config&types.HashSymmetric != 0 {
		if dstAddr.Less(srcAddr) {
			srcAddr, dstAddr = dstAddr, srcAddr
		}
		if dstPort < srcPort {
			srcPort, dstPort = dstPort, srcPort
		}
	}
	h := fnv.New64a()
	for _, a := range []netip.Addr{srcAddr, dstAddr} {
		h.Write(a.AsSlice())
		h.Write([]byte{0})
	}
	h.Write([]byte{byte(srcPort >> 8), byte(srcPort), byte(dstPort >> 8), byte(dstPort)})
	if config&types.HashProto != 0 {
		h.Write([]byte{f.proto})
	}
	return mix(h.Sum64())
}

// mix spreads a hash over all its bits, which FNV does not do for the low ones.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// choose returns the path for a new flow, or nil if none is active. By default
// the hash is taken modulo the number of active paths, so the choice depends on
// their order; maglev moves few flows when a backend comes or goes.
func (t *translation) choose(f flow) *path {
	active := make([]*path, 0, len(t.paths))
	for _, p := range t.paths {
		if p.flags&pathActive != 0 {
			active = append(active, p)
		}
	}
	if len(active) == 0 {
		return nil
	}
	h := flowHash(f, types.FlowHash(t.hash))
	if types.LBType(t.lb) != types.LBMaglev { // F7: any other type is the default
		return active[h%uint64(len(active))]
	}
	// Not VPP's table, but with the same property: the backend with the highest
	// score of flow and endpoint.
	var best *path
	var bestScore uint64
	for _, p := range active {
		d := fnv.New64a()
		d.Write(p.dst.addr.AsSlice())
		d.Write([]byte{byte(p.dst.port >> 8), byte(p.dst.port)})
		if score := mix(h ^ mix(d.Sum64())); best == nil || score > bestScore {
			best, bestScore = p, score
		}
	}
	return best
}
