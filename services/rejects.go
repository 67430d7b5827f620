// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/sirupsen/logrus"
	networkingv1 "k8s.io/api/networking/v1"

	"calico-vpp-services/services/book"
)

// rejects keeps the routes by which VPP refuses what no translation serves:
// one over each service CIDR, and one for each other address that is claimed
// and is not the node's own. cnat itself has no way to refuse, and without a
// route the packet would leave by the default route (E1, E4, E5; scenario 73).
//
// The routes do not come and go with endpoints: a translation is matched
// before the FIB, so its first and last backend are one write each, with no
// moment in which a packet could leak (E6).
type rejects struct {
	// claimed counts the claimed keys of each virtual address.
	claimed map[netip.Addr]int
	// held are the routes that VPP has of ours, or as we would have them.
	held map[netip.Prefix]bool
	// instance is the VPP whose routes held are; "" when that must be read.
	instance string
	// want are the routes that VPP should have; nil when that must be found
	// out anew.
	want map[netip.Prefix]bool
	// storeErr is why routes could not be remembered.
	storeErr error
}

// count follows the changes of the book.
func (r *rejects) count(changes []book.Change) {
	if len(changes) > 0 {
		r.want = nil
	}
	for _, c := range changes {
		switch {
		case c.Before == "" && c.Owner != "":
			r.claimed[c.Key.IP]++
		case c.Before != "" && c.Owner == "":
			if r.claimed[c.Key.IP]--; r.claimed[c.Key.IP] == 0 {
				delete(r.claimed, c.Key.IP)
			}
		}
	}
}

// wantedRejects returns the routes that VPP should have.
func (s *Server) wantedRejects() map[netip.Prefix]bool {
	if s.rejects.want != nil {
		return s.rejects.want
	}
	want := map[netip.Prefix]bool{}
	s.rejects.want = want
	if !s.cfg.RejectUnserved {
		return want
	}
	own := map[netip.Addr]bool{}
	for _, a := range s.node.Addresses {
		own[a] = true
	}
	cidrs := s.serviceCIDRs()
	for _, p := range cidrs {
		// A node inside a service CIDR would lose what comes to it.
		if !slices.ContainsFunc(s.node.Addresses, p.Contains) {
			want[p] = true
		}
	}
	for a := range s.rejects.claimed {
		inside := slices.ContainsFunc(cidrs, func(p netip.Prefix) bool { return want[p] && p.Contains(a) })
		if !own[a] && !inside {
			want[netip.PrefixFrom(a, a.BitLen())] = true
		}
	}
	return want
}

// serviceCIDRs are those of the configuration and of the ServiceCIDR objects
// (KEP-1880), sorted.
func (s *Server) serviceCIDRs() []netip.Prefix {
	all := map[netip.Prefix]bool{}
	for _, p := range s.cfg.Resolve.ServiceCIDRs {
		all[p.Masked()] = true
	}
	for _, list := range s.st.serviceCIDRs {
		for _, p := range list {
			all[p] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), netip.Prefix.Compare)
}

// setServiceCIDR takes a ServiceCIDR object in or out. All Services are
// resolved again, for the guards about addresses go by the CIDRs.
func (s *Server) setServiceCIDR(o *networkingv1.ServiceCIDR, deleted bool) {
	var list []netip.Prefix
	if !deleted {
		for i, text := range o.Spec.CIDRs {
			p, err := netip.ParsePrefix(text)
			if err != nil || p.Bits() == 0 {
				s.log.WithFields(logrus.Fields{"serviceCIDR": o.Name, "field": fmt.Sprintf("spec.cidrs[%d]", i)}).
					Warnf("%q is not a CIDR; it is ignored", text)
				continue
			}
			list = append(list, p.Masked())
		}
	}
	before := s.serviceCIDRs()
	delete(s.st.serviceCIDRs, o.Name)
	if len(list) > 0 {
		s.st.serviceCIDRs[o.Name] = list
	}
	if !slices.Equal(before, s.serviceCIDRs()) {
		s.rejects.want = nil
		for _, id := range s.st.ids() {
			s.dirty[id] = true
		}
	}
}

// addRejects adds the routes that are missing. It comes before translations are
// removed, and delRejects after they are added: in between, refusing wins.
func (s *Server) addRejects(ctx context.Context) error {
	r := &s.rejects
	if r.instance != s.status.VPPInstance {
		if err := s.readRejects(ctx); err != nil {
			return err
		}
	}
	var missing []netip.Prefix
	for _, p := range slices.SortedFunc(maps.Keys(s.wantedRejects()), netip.Prefix.Compare) {
		if !r.held[p] {
			missing = append(missing, p)
		}
	}
	// Recorded before they are made, so that nothing of ours is unlisted.
	s.recordRoutes(missing, nil)
	for _, p := range missing {
		if err := s.session.AddUnreachable(ctx, p); err != nil {
			return err
		}
		r.held[p] = true
	}
	return nil
}

// recordRoutes has the store remember and forget routes of ours.
func (s *Server) recordRoutes(add, forget []netip.Prefix) {
	if s.cfg.Store == nil || len(add)+len(forget) == 0 {
		return
	}
	s.rejects.storeErr = s.cfg.Store.PutRoutes(add, forget)
}

// delRejects removes the routes of ours that are not wanted any more.
func (s *Server) delRejects(ctx context.Context) error {
	r := &s.rejects
	want := s.wantedRejects()
	var gone []netip.Prefix
	defer func() { s.recordRoutes(nil, gone) }()
	for _, p := range slices.SortedFunc(maps.Keys(r.held), netip.Prefix.Compare) {
		if want[p] {
			continue
		}
		if err := s.session.DelUnreachable(ctx, p); err != nil {
			return err
		}
		delete(r.held, p)
		gone = append(gone, p)
	}
	return nil
}

// readRejects finds out which of the wanted routes, and of those that we left
// in this VPP, it has. A route that is neither is somebody else's.
func (s *Server) readRejects(ctx context.Context) error {
	r := &s.rejects
	ours := maps.Clone(r.held)
	if s.cfg.Store != nil {
		stored, err := s.cfg.Store.Routes()
		r.storeErr = err
		for _, p := range stored {
			ours[p] = true
		}
	}
	if !s.cfg.RejectUnserved && len(ours) == 0 {
		r.instance = s.status.VPPInstance
		return nil
	}
	list, err := s.session.Unreachables(ctx)
	if err != nil {
		return err
	}
	want := s.wantedRejects()
	r.held = map[netip.Prefix]bool{}
	for _, p := range list {
		if want[p] || ours[p] {
			r.held[p] = true
		}
	}
	r.instance = s.status.VPPInstance
	return nil
}
