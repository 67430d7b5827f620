// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vpplink

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/interface_types"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_types"

	"calico-vpp-services/vpplink/types"
)

const (
	// noInterface is VPP's "no interface": the endpoint is an address.
	noInterface interface_types.InterfaceIndex = ^interface_types.InterfaceIndex(0)
	// pathNoNAT is CNAT_EPT_NO_NAT on 26.06. govpp's binding has the value of
	// 25.10, which is 1 (vpp-facts M2).
	pathNoNAT uint8 = 2
)

// CnatTranslateAdd creates the translation of entry's key, or replaces the
// path list of an existing one (vpp-facts F1), and returns VPP's id for it. LB
// type, hash and flags of an existing translation stay as they were (F3): use
// entry.Compare, and delete first where it says Recreate.
//
// The entry must be normalized. An invalid one, such as one without backends,
// is refused with ErrInvalidEntry and never sent.
func (s *Session) CnatTranslateAdd(ctx context.Context, entry *types.CnatTranslateEntry) (uint32, error) {
	r := s.CnatTranslateBatch(ctx, []types.CnatWrite{{Entry: entry}})[0]
	return r.ID, r.Err
}

// CnatTranslateDel deletes a translation by the id that this session's VPP
// gave for it. That nothing has the id is success. An id from before
// the translation was deleted may be another's by now (F2): ids are to be
// kept by whoever owns the writes, and dropped with the translation.
func (s *Session) CnatTranslateDel(ctx context.Context, id uint32) error {
	return s.CnatTranslateBatch(ctx, []types.CnatWrite{{ID: id}})[0].Err
}

// CnatTranslateBatch carries out writes in their order over one stream, with
// several in flight: one result for each. A write's error does not stop the
// others, unless the session is lost: then all that are not answered fail with
// that, and what they did is unknown.
func (s *Session) CnatTranslateBatch(ctx context.Context, writes []types.CnatWrite) []types.CnatResult {
	results := make([]types.CnatResult, len(writes))
	var send []int // indexes of the writes that go out
	for i, w := range writes {
		if w.Entry != nil {
			if err := w.Entry.Validate(); err != nil {
				results[i].Err = fmt.Errorf("%w: %w", ErrInvalidEntry, err)
				continue
			}
		}
		send = append(send, i)
	}
	answered, err := s.exchangeWrites(ctx, writes, send, results)
	for _, i := range send[answered:] {
		results[i].Err = err
	}
	for i := range results {
		if results[i].Err != nil {
			s.countFailed()
			results[i].Err = fmt.Errorf("%s: %w", &writes[i], results[i].Err)
		}
	}
	return results
}

// exchangeWrites sends those writes that send lists and fills in their
// results, in order. It returns how many were answered, and why not all.
func (s *Session) exchangeWrites(ctx context.Context, writes []types.CnatWrite, send []int, results []types.CnatResult) (int, error) {
	if len(send) == 0 {
		return 0, nil
	}
	answered := 0
	at := func(n int) api.Message {
		w := &writes[send[n]]
		var m api.Message = &cnat.CnatTranslationDel{ID: w.ID}
		if w.Entry != nil {
			m = &cnat.CnatTranslationUpdate{Translation: toBinapi(w.Entry)}
		}
		return m
	}
	err := s.exchange(ctx, requests{n: len(send), at: at}, func(got api.Message) (bool, error) {
		i := send[answered]
		r, isAdd := &results[i], writes[i].Entry != nil
		switch reply := got.(type) {
		case *cnat.CnatTranslationUpdateReply:
			if !isAdd {
				return true, unexpected(got)
			}
			if r.Err = apiError(reply.Retval); r.Err == nil {
				r.ID = reply.ID
			}
		case *cnat.CnatTranslationDelReply:
			if isAdd {
				return true, unexpected(got)
			}
			r.Err = absentIsFine(apiError(reply.Retval))
		default:
			return true, unexpected(got)
		}
		answered++
		return answered == len(send), nil
	})
	return answered, err
}

// CnatTranslationDump returns every translation that VPP holds, whoever made
// it, sorted by key and then id. What dump does not report is zero (F5).
func (s *Session) CnatTranslationDump(ctx context.Context) ([]types.Translation, error) {
	var out []types.Translation
	err := dump(ctx, s, &cnat.CnatTranslationDump{}, func(d *cnat.CnatTranslationDetails) {
		out = append(out, fromBinapi(&d.Translation))
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b types.Translation) int {
		if c := a.Entry.Key().Compare(b.Entry.Key()); c != 0 {
			return c
		}
		return int(a.ID) - int(b.ID)
	})
	return out, nil
}

func toBinapi(e *types.CnatTranslateEntry) cnat.CnatTranslation {
	t := cnat.CnatTranslation{
		Vip:            endpoint(e.IP, e.Port),
		ID:             ^uint32(0),
		IPProto:        ip_types.IPProto(e.Proto),
		Flags:          uint8(e.Flags),
		LbType:         cnat.CnatLbType(e.LBType),
		FlowHashConfig: ip.IPFlowHashConfigV2(e.Hash),
		Paths:          make([]cnat.CnatEndpointTuple, len(e.Backends)),
	}
	if e.IsRealIP {
		t.IsRealIP = 1
	}
	// The source endpoint is ignored with NO_CLIENT (C3), but VPP decodes it:
	// an unspecified address of the VIP's family.
	unspecified := netip.IPv4Unspecified()
	if e.IP.Is6() {
		unspecified = netip.IPv6Unspecified()
	}
	for i, b := range e.Backends {
		t.Paths[i] = cnat.CnatEndpointTuple{DstEp: endpoint(b.IP, b.Port), SrcEp: endpoint(unspecified, 0)}
		if b.NoNAT {
			t.Paths[i].Flags = pathNoNAT
		}
	}
	return t
}

// fromBinapi reads a dumped translation. A path's flags carry the tracker's own
// bits too; only NO_NAT is ours (F5).
func fromBinapi(t *cnat.CnatTranslation) types.Translation {
	e := types.CnatTranslateEntry{
		Proto:  types.Protocol(t.IPProto),
		IP:     fromAddress(t.Vip.Addr),
		Port:   t.Vip.Port,
		LBType: types.LBType(t.LbType),
	}
	for _, p := range t.Paths {
		e.Backends = append(e.Backends, types.Backend{
			IP: fromAddress(p.DstEp.Addr), Port: p.DstEp.Port, NoNAT: p.Flags&pathNoNAT != 0,
		})
	}
	// Only sorted, not compacted: duplicates in VPP are a difference.
	slices.SortFunc(e.Backends, types.Backend.Compare)
	return types.Translation{ID: t.ID, Entry: e}
}

func endpoint(a netip.Addr, port uint16) cnat.CnatEndpoint {
	return cnat.CnatEndpoint{Addr: toAddress(a), SwIfIndex: noInterface, Port: port}
}

func toAddress(a netip.Addr) ip_types.Address {
	if a.Is4() {
		return ip_types.Address{Af: ip_types.ADDRESS_IP4, Un: ip_types.AddressUnionIP4(a.As4())}
	}
	return ip_types.Address{Af: ip_types.ADDRESS_IP6, Un: ip_types.AddressUnionIP6(a.As16())}
}

func fromAddress(a ip_types.Address) netip.Addr {
	if a.Af == ip_types.ADDRESS_IP4 {
		return netip.AddrFrom4(a.Un.GetIP4())
	}
	return netip.AddrFrom16(a.Un.GetIP6())
}
