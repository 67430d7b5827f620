// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package types

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// LBType is the way in which cnat spreads new flows over the backends.
type LBType uint8

// The load balancing types of cnat.
const (
	LBDefault LBType = 0 // flow hash modulo the number of backends
	LBMaglev  LBType = 1 // consistent hashing: few flows move when a backend comes or goes
)

// String returns the name used in tables and JSON.
func (t LBType) String() string {
	switch t {
	case LBDefault:
		return "default"
	case LBMaglev:
		return "maglev"
	}
	return fmt.Sprintf("lb-type-%d", uint8(t))
}

// FlowHash is the set of packet fields that choose the backend of a new flow,
// as bits of VPP's flow hash configuration. Zero is VPP's default (5-tuple,
// 0x9f); dump never reports it (vpp-facts F5).
type FlowHash uint8

// The bits of a FlowHash, with the names of Calico-VPP's annotation
// cni.projectcalico.org/vppHashConfig.
const (
	HashSrcAddr   FlowHash = 1 << 0
	HashDstAddr   FlowHash = 1 << 1
	HashSrcPort   FlowHash = 1 << 2
	HashDstPort   FlowHash = 1 << 3
	HashProto     FlowHash = 1 << 4
	HashReverse   FlowHash = 1 << 5
	HashSymmetric FlowHash = 1 << 6

	hashAll = HashSrcAddr | HashDstAddr | HashSrcPort | HashDstPort | HashProto | HashReverse | HashSymmetric
)

// FlowHashNames returns the accepted names of hash fields, in bit order.
func FlowHashNames() []string {
	return []string{"srcaddr", "dstaddr", "srcport", "dstport", "iproto", "reverse", "symmetric"}
}

// ParseFlowHash returns the bit for one name of FlowHashNames.
func ParseFlowHash(name string) (FlowHash, error) {
	for i, n := range FlowHashNames() {
		if n == name {
			return 1 << i, nil
		}
	}
	return 0, fmt.Errorf("hash field %q: accepted values are %s", name, strings.Join(FlowHashNames(), ", "))
}

// Names lists the fields of h in bit order; empty for VPP's default.
func (h FlowHash) Names() []string {
	out := []string{}
	for i, n := range FlowHashNames() {
		if h&(1<<i) != 0 {
			out = append(out, n)
		}
	}
	return out
}

// TranslationFlags are cnat's per translation flags.
type TranslationFlags uint8

// The translation flags of cnat on VPP 26.06 (vpp-facts M2).
const (
	FlagAllocPort       TranslationFlags = 1
	FlagNoReturnSession TranslationFlags = 4
	// FlagNoClient keeps the VIP out of the FIB: translation happens only on
	// interfaces with the cnat feature, and a miss follows the FIB (C3).
	FlagNoClient TranslationFlags = 8

	flagsAll = FlagAllocPort | FlagNoReturnSession | FlagNoClient
)

// Backend is one destination of a translation ("path" in VPP).
type Backend struct {
	IP   netip.Addr
	Port uint16
	// NoNAT forwards to the backend without rewriting the destination
	// (direct server return).
	NoNAT bool
}

// Compare orders backends by address, port and NoNAT. VPP's maglev tables and
// flow hash depend on the order of the paths, so it must be the same on every node.
func (b Backend) Compare(o Backend) int {
	c := cmp.Or(b.IP.Compare(o.IP), cmp.Compare(b.Port, o.Port))
	if c == 0 && b.NoNAT != o.NoNAT {
		if o.NoNAT {
			return -1
		}
		return 1
	}
	return c
}

// String prints ip:port, with "!" behind it for a backend without NAT.
func (b Backend) String() string {
	s := netip.AddrPortFrom(b.IP, b.Port).String()
	if b.NoNAT {
		s += "!"
	}
	return s
}

// endpoint is the identity of a path in VPP, which its flags are no part of.
func (b Backend) endpoint() netip.AddrPort { return netip.AddrPortFrom(b.IP, b.Port) }

// CnatTranslateEntry is everything that VPP is told about one key.
//
// Build it with its backends in any order and call Normalize; Compare and
// Validate expect a normalized entry.
type CnatTranslateEntry struct {
	Proto Protocol
	// IP and Port are the VIP as clients address it.
	IP   netip.Addr
	Port uint16
	// Backends may be empty in an entry that is only claimed (unserved). Such
	// an entry never reaches VPP: it would abort it (vpp-facts F6).
	Backends []Backend
	// IsRealIP says that the VIP is an address that this node has itself. It
	// is a property of the address, not of the Service field (C2).
	// Dump does not report it.
	IsRealIP bool
	LBType   LBType
	// Hash is taken at creation only (F3) and not reported by dump (F5).
	Hash FlowHash
	// Flags are not reported by dump (F5). An update refreshes them, but what
	// NO_CLIENT means for the address is settled by its first translation (C2), so
	// a change of flags is a recreate.
	Flags TranslationFlags
}

// Key returns the slot in VPP that the entry is for.
func (e *CnatTranslateEntry) Key() Key { return Key{Proto: e.Proto, IP: e.IP, Port: e.Port} }

// Normalize sorts the backends and removes exact duplicates, which VPP would
// keep as two paths (F7).
func (e *CnatTranslateEntry) Normalize() {
	slices.SortFunc(e.Backends, Backend.Compare)
	e.Backends = slices.Compact(e.Backends)
}

// Clone returns a copy that shares no memory with e.
func (e *CnatTranslateEntry) Clone() CnatTranslateEntry {
	c := *e
	c.Backends = slices.Clone(e.Backends)
	return c
}

// String prints the entry on one line, the same in logs, goldens and tables.
func (e *CnatTranslateEntry) String() string {
	var b strings.Builder
	b.WriteString(e.Key().String())
	b.WriteString(" ->")
	if len(e.Backends) == 0 {
		b.WriteString(" none")
	}
	for _, be := range e.Backends {
		b.WriteByte(' ')
		b.WriteString(be.String())
	}
	if e.LBType != LBDefault {
		b.WriteString(" lb=" + e.LBType.String())
	}
	if e.Hash != 0 {
		b.WriteString(" hash=" + strings.Join(e.Hash.Names(), ","))
	}
	if e.IsRealIP {
		b.WriteString(" real")
	}
	return b.String()
}

// Comparison says what it takes to turn one entry into another inside VPP.
type Comparison int

// The outcomes of CnatTranslateEntry.Compare.
const (
	// Equal entries need no call.
	Equal Comparison = iota
	// Update replaces the path list in place; sessions of staying paths live on.
	Update
	// Recreate needs delete and create, which ends the sessions (S5): VPP takes
	// LB type, hash, real, flags and the flags of a staying path at creation only (F3).
	Recreate
)

// String returns the name of the outcome.
func (c Comparison) String() string {
	switch c {
	case Equal:
		return "equal"
	case Update:
		return "update"
	case Recreate:
		return "recreate"
	}
	return fmt.Sprintf("comparison-%d", int(c))
}

// Compare tells how to get from e, which VPP has, to want. Both must be
// normalized and of the same key; it covers every field that reaches VPP.
func (e *CnatTranslateEntry) Compare(want *CnatTranslateEntry) Comparison {
	if e.Key() != want.Key() {
		return Recreate
	}
	if e.LBType != want.LBType || e.Hash != want.Hash || e.IsRealIP != want.IsRealIP || e.Flags != want.Flags {
		return Recreate
	}
	return ComparePaths(e.Backends, want.Backends)
}

// ComparePaths compares two normalized path lists: Recreate when a staying
// path changes its flags (F3), Update when the sets differ otherwise.
func ComparePaths(have, want []Backend) Comparison {
	if slices.Equal(have, want) {
		return Equal
	}
	flags := make(map[netip.AddrPort]bool, len(have))
	for _, b := range have {
		flags[b.endpoint()] = b.NoNAT
	}
	for _, b := range want {
		if noNAT, stays := flags[b.endpoint()]; stays && noNAT != b.NoNAT {
			return Recreate
		}
	}
	return Update
}

// Validate tells why VPP must not be given e. VPP itself checks none of this
// (F7) and aborts on an empty path list (F6).
func (e *CnatTranslateEntry) Validate() error {
	fail := func(field, format string, args ...any) error {
		return fmt.Errorf("translation %s: %s: %s", e.Key(), field, fmt.Sprintf(format, args...))
	}
	switch {
	case !e.Proto.Known():
		return fail("proto", "%s is not one of TCP, UDP, SCTP", e.Proto)
	case !plainAddr(e.IP):
		return fail("ip", "%s is not a plain IPv4 or IPv6 address", e.IP)
	case e.Port == 0:
		return fail("port", "0 is not in 1-65535")
	case e.LBType != LBDefault && e.LBType != LBMaglev:
		return fail("lbType", "%s is not one of default, maglev", e.LBType)
	case e.Hash&^hashAll != 0:
		return fail("hash", "%#x has bits beyond %#x", uint8(e.Hash), uint8(hashAll))
	case e.Flags&^flagsAll != 0:
		return fail("flags", "%#x has bits beyond %#x", uint8(e.Flags), uint8(flagsAll))
	case len(e.Backends) == 0:
		return fail("backends", "none; VPP aborts on an update without paths")
	}
	for i, b := range e.Backends {
		switch {
		case !plainAddr(b.IP):
			return fail("backends", "%s is not a plain IPv4 or IPv6 address", b.IP)
		case b.IP.Is4() != e.IP.Is4():
			return fail("backends", "%s is of another family than the VIP", b)
		case b.Port == 0:
			return fail("backends", "%s: port 0 is not in 1-65535", b)
		}
		if i > 0 {
			prev := e.Backends[i-1]
			if prev.endpoint() == b.endpoint() {
				return fail("backends", "%s is there twice", b)
			}
			if prev.Compare(b) > 0 {
				return fail("backends", "not sorted at %s", b)
			}
		}
	}
	return nil
}

// plainAddr is an address that VPP can hold: no zone, not IPv4 in IPv6.
func plainAddr(a netip.Addr) bool {
	return a.IsValid() && a.Zone() == "" && !a.Is4In6()
}

// Translation is one translation as VPP reports it.
type Translation struct {
	// ID is VPP's pool index. It is good only for the VPP instance that gave
	// it, and only until the translation is deleted: the last freed one is
	// handed out again at once (F2).
	ID uint32
	// Entry has only the fields that dump reports: key, LB type, backends with
	// NoNAT. IsRealIP, Hash and Flags are zero (F5).
	Entry CnatTranslateEntry
}

// CnatWrite is one write of a batch: the entry to add, or, when Entry is nil,
// the id to delete.
type CnatWrite struct {
	Entry *CnatTranslateEntry
	ID    uint32
}

// String prints what the write does.
func (w *CnatWrite) String() string {
	if w.Entry == nil {
		return fmt.Sprintf("delete translation id %d", w.ID)
	}
	return fmt.Sprintf("update translation %s", w.Entry.Key())
}

// CnatResult is the outcome of one CnatWrite.
type CnatResult struct {
	// ID is VPP's id of an added translation, when Err is nil.
	ID  uint32
	Err error
}
