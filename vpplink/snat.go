// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vpplink

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/interface_types"
	"go.fd.io/govpp/binapi/ip_types"

	"calico-vpp-services/vpplink/binapi2606"
	"calico-vpp-services/vpplink/types"
)

// SetSnatAddresses gives cnat the addresses that it uses as source; an invalid
// one leaves that family without. It comes before prefixes and policy: they
// have crashed a VPP that had no addresses yet (scenario 28).
func (s *Session) SetSnatAddresses(ctx context.Context, v4, v6 netip.Addr) error {
	req := &cnat.CnatSetSnatAddresses{SwIfIndex: noInterface}
	var errs []error
	if v4.IsValid() {
		if !v4.Is4() {
			errs = append(errs, fmt.Errorf("%s is not an IPv4 address", v4))
		} else {
			req.SnatIP4 = v4.As4()
		}
	}
	if v6.IsValid() {
		if !v6.Is6() || v6.Is4In6() {
			errs = append(errs, fmt.Errorf("%s is not an IPv6 address", v6))
		} else {
			req.SnatIP6 = v6.As16()
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("SNAT addresses: %w: %w", ErrInvalidEntry, err)
	}
	return callRetval(ctx, s, req, fmt.Sprintf("SNAT addresses %s %s", v4, v6),
		func(r *cnat.CnatSetSnatAddressesReply) int32 { return r.Retval })
}

// SnatAddresses returns the addresses that cnat uses as source; an
// invalid one where a family has none.
func (s *Session) SnatAddresses(ctx context.Context) (v4, v6 netip.Addr, err error) {
	r, err := call[*cnat.CnatGetSnatAddressesReply](ctx, s, &cnat.CnatGetSnatAddresses{})
	if err == nil {
		err = apiError(r.Retval)
	}
	if err != nil {
		return v4, v6, fmt.Errorf("SNAT addresses: %w", err)
	}
	if a := netip.AddrFrom4(r.SnatIP4); !a.IsUnspecified() {
		v4 = a
	}
	if a := netip.AddrFrom16(r.SnatIP6); !a.IsUnspecified() {
		v6 = a
	}
	return v4, v6, nil
}

// AddSnatPrefix excludes the destinations in p from source NAT.
func (s *Session) AddSnatPrefix(ctx context.Context, p netip.Prefix) error {
	return s.snatPrefix(ctx, p, true)
}

// DelSnatPrefix ends the exclusion of p; that there is none is success.
func (s *Session) DelSnatPrefix(ctx context.Context, p netip.Prefix) error {
	return absentIsFine(s.snatPrefix(ctx, p, false))
}

func (s *Session) snatPrefix(ctx context.Context, p netip.Prefix, add bool) error {
	if !p.IsValid() || p.Addr().Is4In6() || p != p.Masked() {
		return fmt.Errorf("SNAT prefix %s: %w: wanted address/length without host bits", p, ErrInvalidEntry)
	}
	req := &cnat.CnatSnatPolicyAddDelExcludePfx{
		Prefix: ip_types.Prefix{Address: toAddress(p.Addr()), Len: uint8(p.Bits())},
	}
	if add {
		req.IsAdd = 1
	}
	return callRetval(ctx, s, req, fmt.Sprintf("SNAT prefix %s", p),
		func(r *cnat.CnatSnatPolicyAddDelExcludePfxReply) int32 { return r.Retval })
}

// SetSnatPolicy chooses what cnat translates the source of.
func (s *Session) SetSnatPolicy(ctx context.Context, p types.SnatPolicy) error {
	if !p.Known() {
		return fmt.Errorf("SNAT policy %s: %w: accepted are none, if-pfx, k8s, dnat", p, ErrInvalidEntry)
	}
	return callRetval(ctx, s, &binapi2606.CnatSetSnatPolicy{Policy: binapi2606.CnatSnatPolicy(p)}, fmt.Sprintf("SNAT policy %s", p),
		func(r *binapi2606.CnatSetSnatPolicyReply) int32 { return r.Retval })
}

// AddSnatInterface puts an interface into a table of the SNAT policy.
func (s *Session) AddSnatInterface(ctx context.Context, swIfIndex uint32, t types.SnatTable) error {
	return s.snatInterface(ctx, swIfIndex, t, true)
}

// DelSnatInterface takes it out; that it is not there is success.
func (s *Session) DelSnatInterface(ctx context.Context, swIfIndex uint32, t types.SnatTable) error {
	return absentIsFine(s.snatInterface(ctx, swIfIndex, t, false))
}

func (s *Session) snatInterface(ctx context.Context, swIfIndex uint32, t types.SnatTable, add bool) error {
	if !t.Known() {
		return fmt.Errorf("SNAT table %s: %w: accepted are include-v4, include-v6, pod, host", t, ErrInvalidEntry)
	}
	req := &cnat.CnatSnatPolicyAddDelIf{
		SwIfIndex: interface_types.InterfaceIndex(swIfIndex),
		Table:     cnat.CnatSnatPolicyTable(t),
	}
	if add {
		req.IsAdd = 1
	}
	return callRetval(ctx, s, req, fmt.Sprintf("SNAT table %s, interface %d", t, swIfIndex),
		func(r *cnat.CnatSnatPolicyAddDelIfReply) int32 { return r.Retval })
}

// EnableCnatFeature makes cnat look at the packets that come in by an
// interface. With NO_CLIENT, which all our translations have, VIPs are
// translated on such interfaces only (vpp-facts C3).
func (s *Session) EnableCnatFeature(ctx context.Context, swIfIndex uint32) error {
	return s.cnatFeature(ctx, swIfIndex, true)
}

// DisableCnatFeature undoes EnableCnatFeature.
func (s *Session) DisableCnatFeature(ctx context.Context, swIfIndex uint32) error {
	return absentIsFine(s.cnatFeature(ctx, swIfIndex, false))
}

func (s *Session) cnatFeature(ctx context.Context, swIfIndex uint32, on bool) error {
	return callRetval(ctx, s, &binapi2606.FeatureCnatEnableDisable{SwIfIndex: interface_types.InterfaceIndex(swIfIndex), EnableDisable: on},
		fmt.Sprintf("cnat feature, interface %d", swIfIndex),
		func(r *binapi2606.FeatureCnatEnableDisableReply) int32 { return r.Retval })
}

// callRetval is call for the many messages whose reply is a retval.
func callRetval[R api.Message](ctx context.Context, s *Session, req api.Message, what string, retval func(R) int32) error {
	r, err := call[R](ctx, s, req)
	if err == nil {
		if err = apiError(retval(r)); err != nil {
			s.countFailed()
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func absentIsFine(err error) error {
	if IsNotFound(err) {
		return nil
	}
	return err
}
