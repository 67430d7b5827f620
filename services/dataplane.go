// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"calico-vpp-services/vpplink"
	"calico-vpp-services/vpplink/types"
)

// Dataplane is what VPP needs beside translations for them to take effect. Beside
// Calico's own agent, which sees to all of it, it stays zero.
type Dataplane struct {
	// Interfaces are names of VPP interfaces on which cnat shall look at packets.
	// Our translations work on such interfaces only (vpp-facts C3).
	Interfaces []string
	// SNAT has cnat translate the source of what leaves for elsewhere, to the
	// node's own primary addresses, by the policy for Kubernetes (C4).
	SNAT bool
	// SNATExclude are destinations that need no source NAT, such as the pods'.
	SNATExclude []netip.Prefix
}

func (d *Dataplane) validate() error {
	var errs []error
	for _, name := range d.Interfaces {
		if strings.TrimSpace(name) == "" {
			errs = append(errs, errors.New("cnat interface: an empty name"))
		}
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

// preparation is what was last applied, and to which VPP.
type preparation struct {
	instance string
	v4, v6   netip.Addr
}

// prepare applies the Dataplane to the VPP of the session, once for each VPP and
// each change of the node's addresses. Every step may be repeated. The SNAT
// addresses come first, for VPP dies of the others before there are any.
func (s *Server) prepare(ctx context.Context) error {
	d := &s.cfg.Dataplane
	want := preparation{instance: s.status.VPPInstance}
	for _, a := range s.node.Addresses {
		switch {
		case a.Is4() && !want.v4.IsValid():
			want.v4 = a
		case a.Is6() && !want.v6.IsValid():
			want.v6 = a
		}
	}
	if want == s.prepared || (len(d.Interfaces) == 0 && !d.SNAT) {
		return nil
	}
	err := s.prepareInterfaces(ctx, d.Interfaces)
	if d.SNAT && (want.v4.IsValid() || want.v6.IsValid()) {
		err = errors.Join(err, prepareSNAT(ctx, s.session, want.v4, want.v6, d.SNATExclude))
	}
	if err == nil {
		s.prepared = want
	}
	return err
}

func (s *Server) prepareInterfaces(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	list, err := s.session.Interfaces(ctx)
	if err != nil {
		return err
	}
	byName := map[string]uint32{}
	known := make([]string, 0, len(list))
	for _, i := range list {
		byName[i.Name] = i.SwIfIndex
		known = append(known, i.Name)
	}
	var errs []error
	for _, name := range names {
		index, there := byName[name]
		if !there {
			errs = append(errs, fmt.Errorf("cnat interface %q: VPP has no such interface; it has %s", name, strings.Join(known, ", ")))
			continue
		}
		if err := s.session.EnableCnatFeature(ctx, index); err != nil {
			errs = append(errs, fmt.Errorf("cnat interface %q: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func prepareSNAT(ctx context.Context, vpp *vpplink.Session, v4, v6 netip.Addr, exclude []netip.Prefix) error {
	have4, have6, err := vpp.SnatAddresses(ctx)
	if err != nil {
		return err
	}
	if have4 != v4 || have6 != v6 {
		if err := vpp.SetSnatAddresses(ctx, v4, v6); err != nil {
			return err
		}
	}
	if err := vpp.SetSnatPolicy(ctx, types.SnatK8s); err != nil {
		return err
	}
	for _, p := range exclude {
		if err := vpp.AddSnatPrefix(ctx, p); err != nil {
			return err
		}
	}
	return nil
}
