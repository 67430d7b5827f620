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
	"go.fd.io/govpp/binapi/feature"
	"go.fd.io/govpp/binapi/interface_types"
	"go.fd.io/govpp/binapi/ip_types"

	"calico-vpp-services/vpplink/binapi2606"
	"calico-vpp-services/vpplink/types"
)

// defaultFIB is the index of VPP's default FIB. With USE_AS_DEFAULT its policy is
// the one that all calls without a FIB index work on.
const defaultFIB = 0

// SetSnatAddresses gives cnat the addresses that it uses as source; an invalid
// one leaves that family without.
//
// It is the call that must come first: on 26.06 a policy or an excluded prefix
// before any address kills VPP (scenario 28), so the other calls here ask for the
// addresses before they send. It goes by the second version of the message, with
// NO_CLIENT: the first one puts the address into the FIB for replies alone, and
// for an address of the node that drops whatever else comes to the node.
func (s *Session) SetSnatAddresses(ctx context.Context, v4, v6 netip.Addr) error {
	req := &binapi2606.CnatSetSnatAddressesV2{
		FwdFibIndex: defaultFIB, RetFibIndex: defaultFIB, SwIfIndex: noInterface,
		Flags: binapi2606.CnatSnatPolicyNoClient | binapi2606.CnatSnatPolicyUseAsDefault,
	}
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
		func(r *binapi2606.CnatSetSnatAddressesV2Reply) int32 { return r.Retval })
}

// needSnatAddresses keeps calls away from VPP that it would die of.
func (s *Session) needSnatAddresses(ctx context.Context, what string) error {
	v4, v6, err := s.SnatAddresses(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if !v4.IsValid() && !v6.IsValid() {
		return fmt.Errorf("%s: %w: set the SNAT addresses first", what, ErrInvalidEntry)
	}
	return nil
}

// SnatAddresses returns the addresses that cnat uses as source; an
// invalid one where a family has none.
func (s *Session) SnatAddresses(ctx context.Context) (v4, v6 netip.Addr, err error) {
	r, err := call[*cnat.CnatGetSnatAddressesReply](ctx, s, &cnat.CnatGetSnatAddresses{})
	if err == nil {
		err = apiError(r.Retval)
	}
	if errors.Is(err, api.FEATURE_DISABLED) { // no address was ever set
		return v4, v6, nil
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
	if err := s.needSnatAddresses(ctx, fmt.Sprintf("SNAT prefix %s", p)); err != nil {
		return err
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
	if err := s.needSnatAddresses(ctx, fmt.Sprintf("SNAT policy %s", p)); err != nil {
		return err
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
//
// VPP counts: a feature that was enabled twice translates nothing for new
// flows. So VPP is asked first, and an enabled one is left alone; a restarted agent
// may enable without knowing.
func (s *Session) EnableCnatFeature(ctx context.Context, swIfIndex uint32) error {
	return s.cnatFeature(ctx, swIfIndex, true)
}

// DisableCnatFeature undoes EnableCnatFeature; that it is off is success.
func (s *Session) DisableCnatFeature(ctx context.Context, swIfIndex uint32) error {
	return s.cnatFeature(ctx, swIfIndex, false)
}

func (s *Session) cnatFeature(ctx context.Context, swIfIndex uint32, on bool) error {
	what := fmt.Sprintf("cnat feature, interface %d", swIfIndex)
	// The node that the message enables first; VPP says yes for names that it
	// does not know, so they must be right.
	is, err := call[*feature.FeatureIsEnabledReply](ctx, s, &feature.FeatureIsEnabled{
		ArcName: "ip4-unicast", FeatureName: "cnat-input-ip4", SwIfIndex: interface_types.InterfaceIndex(swIfIndex),
	})
	if err == nil {
		err = apiError(is.Retval)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if is.IsEnabled == on {
		return nil
	}
	return callRetval(ctx, s, &binapi2606.FeatureCnatEnableDisable{SwIfIndex: interface_types.InterfaceIndex(swIfIndex), EnableDisable: on}, what,
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
