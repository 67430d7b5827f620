// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"path"
	"reflect"
	"slices"
	"strings"

	"calico-vpp-services/vpplink/types"
)

// Dataplane is what VPP needs beside translations for them to take effect. Beside
// Calico's own agent, which sees to all of it, it stays zero.
type Dataplane struct {
	// Interfaces are names of VPP interfaces on which cnat shall look at packets.
	// Our translations work on such interfaces only (vpp-facts C3). A name may be
	// a pattern, such as tap*, of which there may be none.
	Interfaces []string
	// PodInterfaces are names or patterns of the interfaces with pods behind
	// them, whose packets keep their source unless they leave for elsewhere (C4).
	PodInterfaces []string
	// SNAT has cnat translate the source of what leaves for elsewhere, to the
	// node's own primary addresses, by the policy for Kubernetes (C4).
	SNAT bool
	// SNATExclude are destinations that need no source NAT, such as the pods'.
	SNATExclude []netip.Prefix
}

func (d *Dataplane) validate() error {
	var errs []error
	for _, name := range slices.Concat(d.Interfaces, d.PodInterfaces) {
		if strings.TrimSpace(name) == "" {
			errs = append(errs, errors.New("interface: an empty name"))
		} else if _, err := path.Match(name, ""); err != nil {
			errs = append(errs, fmt.Errorf("interface %q: wanted a name, or a pattern such as tap*: %w", name, err))
		}
	}
	if len(d.PodInterfaces) > 0 && !d.SNAT {
		errs = append(errs, errors.New("pod interfaces without SNAT: switch it on, or leave them out"))
	}
	for _, p := range d.SNATExclude {
		if !p.IsValid() || p != p.Masked() {
			errs = append(errs, fmt.Errorf("SNAT exclusion %s: wanted address/length without host bits", p))
		}
	}
	if len(d.SNATExclude) > 0 && !d.SNAT {
		errs = append(errs, errors.New("SNAT exclusions without SNAT: switch it on, or leave them out"))
	}
	return errors.Join(errs...)
}

// snatState is what a VPP was told of source NAT, which it does not tell again
// but for the addresses. It is recorded in the store.
type snatState struct {
	V4      netip.Addr     `json:"v4"`
	V6      netip.Addr     `json:"v6"`
	Exclude []netip.Prefix `json:"exclude"`
	// Pods are the interfaces in the table of pods, sorted.
	Pods []uint32 `json:"pods"`
}

// snatSetting is the name of the snatState in the store.
const snatSetting = "snat"

// recallSettings reads what the store knows of the VPP attached to.
func (s *Server) recallSettings() {
	text, err := s.cfg.Store.Setting(snatSetting)
	if err == nil && text != "" {
		err = json.Unmarshal([]byte(text), &s.snat)
	}
	if err != nil {
		s.snat = snatState{} // told anew, which does no harm
		s.log.WithError(err).Warn("what VPP was told of source NAT can't be recalled")
	}
}

// wantedSNAT has the first address of each family of the node.
func (s *Server) wantedSNAT() snatState {
	want := snatState{Exclude: slices.SortedFunc(slices.Values(s.cfg.Dataplane.SNATExclude), netip.Prefix.Compare)}
	want.Exclude = slices.Compact(want.Exclude)
	for _, a := range s.node.Addresses {
		switch {
		case a.Is4() && !want.V4.IsValid():
			want.V4 = a
		case a.Is6() && !want.V6.IsValid():
			want.V6 = a
		}
	}
	return want
}

// prepare applies the Dataplane to VPP, after each dump and each change of the
// node's addresses. It reads before it writes, and is quiet when nothing
// differs. The SNAT addresses come first, for VPP dies of the rest before
// there are any.
func (s *Server) prepare(ctx context.Context) error {
	d := &s.cfg.Dataplane
	want := s.wantedSNAT()
	same := want.V4 == s.snat.V4 && want.V6 == s.snat.V6
	if s.prepared && (same || !d.SNAT) || (len(d.Interfaces) == 0 && !d.SNAT) {
		return nil
	}
	names, err := s.session.InterfaceNames(ctx)
	if err != nil {
		return err
	}
	on, err := matching(names, d.Interfaces)
	for _, name := range slices.Sorted(maps.Keys(on)) {
		if ferr := s.session.EnableCnatFeature(ctx, on[name]); ferr != nil {
			err = errors.Join(err, fmt.Errorf("cnat interface %q: %w", name, ferr))
		}
	}
	if d.SNAT && (want.V4.IsValid() || want.V6.IsValid()) {
		pods, perr := matching(names, d.PodInterfaces)
		want.Pods = slices.Sorted(maps.Values(pods))
		err = errors.Join(err, perr, s.prepareSNAT(ctx, want))
	}
	s.prepared = err == nil
	return err
}

// matching returns the interfaces that have one of the names or match one of
// the patterns. A plain name that is not there is an error.
func matching(have map[string]uint32, wanted []string) (map[string]uint32, error) {
	out := map[string]uint32{}
	var errs []error
	for _, pattern := range wanted {
		found := strings.ContainsAny(pattern, "*?[")
		for name, index := range have {
			if ok, err := path.Match(pattern, name); name == pattern || (ok && err == nil) {
				out[name], found = index, true
			}
		}
		if !found {
			errs = append(errs, fmt.Errorf("interface %q: VPP has no such interface; it has %s",
				pattern, strings.Join(slices.Sorted(maps.Keys(have)), ", ")))
		}
	}
	return out, errors.Join(errs...)
}

// prepareSNAT makes VPP's source NAT as wanted.
func (s *Server) prepareSNAT(ctx context.Context, want snatState) error {
	vpp := s.session
	v4, v6, err := vpp.SnatAddresses(ctx)
	if err != nil {
		return err
	}
	addressed := v4 == want.V4 && v6 == want.V6
	if addressed && reflect.DeepEqual(normal(s.snat), normal(want)) {
		return nil
	}
	if !addressed {
		if err := vpp.SetSnatAddresses(ctx, want.V4, want.V6); err != nil {
			return err
		}
	}
	if err := vpp.SetSnatPolicy(ctx, types.SnatK8s); err != nil {
		return err
	}
	for _, p := range want.Exclude {
		if err := vpp.AddSnatPrefix(ctx, p); err != nil {
			return err
		}
	}
	for _, p := range s.snat.Exclude {
		if !slices.Contains(want.Exclude, p) {
			if err := vpp.DelSnatPrefix(ctx, p); err != nil {
				return err
			}
		}
	}
	for _, index := range want.Pods {
		if !slices.Contains(s.snat.Pods, index) {
			if err := vpp.AddSnatInterface(ctx, index, types.SnatPod); err != nil {
				return err
			}
		}
	}
	for _, index := range s.snat.Pods {
		if !slices.Contains(want.Pods, index) {
			if err := vpp.DelSnatInterface(ctx, index, types.SnatPod); err != nil {
				return err
			}
		}
	}
	s.snat = want
	if s.cfg.Store == nil {
		return nil
	}
	text, err := json.Marshal(want)
	if err == nil {
		err = s.cfg.Store.PutSetting(snatSetting, string(text))
	}
	if err != nil {
		// Told anew by the next agent, which does no harm.
		s.log.WithError(err).Warn("what VPP was told of source NAT can't be recorded")
	}
	return nil
}

// normal is s for comparisons: an empty list is none.
func normal(s snatState) snatState {
	if len(s.Exclude) == 0 {
		s.Exclude = nil
	}
	if len(s.Pods) == 0 {
		s.Pods = nil
	}
	return s
}
