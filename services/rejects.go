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
	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink"
	"calico-vpp-services/vpplink/types"
)

// rejects keeps the routes by which VPP refuses what no translation serves:
// one over each service CIDR and each declared pool of virtual addresses, and one
// for each ClusterIP and load balancer IP outside of them. cnat itself has no way
// to refuse, and without a route the packet would leave by the default
// route (E1, E4, E5; scenario 73).
//
// A route takes the whole address, so it must be one that only Services have.
// External IPs are typed in by whoever writes a Service, and may be a router's or
// another node's: they are refused in declared pools only. So are addresses on a
// link of VPP, where their host would be; what is unserved there meets no default route.
//
// The routes do not come and go with endpoints: a translation is matched
// before the FIB, so its first and last backend are one write each, with no
// moment in which a packet could leak (E6).
type rejects struct {
	// claimed counts the keys of each address that is virtual by the kind of
	// their owners, which are the keys in virtual.
	claimed map[netip.Addr]int
	virtual map[types.Key]bool
	// found is what VPP's own routes said when they were last read.
	found vpplink.Routes
	// held are the routes that VPP has of ours, or as we would have them.
	held map[netip.Prefix]bool
	// want are the routes that VPP should have; nil when that must be found
	// out anew.
	want map[netip.Prefix]bool
	// storeErr is why routes could not be remembered.
	storeErr error
}

func newRejects() rejects {
	return rejects{claimed: map[netip.Addr]int{}, virtual: map[types.Key]bool{}, held: map[netip.Prefix]bool{}}
}

// countClaimed follows the changes of the book.
func (s *Server) countClaimed(changes []book.Change) {
	r := &s.rejects
	for _, c := range changes {
		owner := s.book.Owner(c.Key)
		is := owner != nil && (owner.Kind == model.KindClusterIP || owner.Kind == model.KindLoadBalancer)
		if is == r.virtual[c.Key] {
			continue
		}
		r.want = nil
		if is {
			r.virtual[c.Key] = true
			r.claimed[c.Key.IP]++
			continue
		}
		delete(r.virtual, c.Key)
		if r.claimed[c.Key.IP]--; r.claimed[c.Key.IP] == 0 {
			delete(r.claimed, c.Key.IP)
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
	cover := append(s.serviceCIDRs(), s.cfg.VirtualCIDRs...)
	own := slices.Concat(s.node.Addresses, s.node.Own)
	for _, p := range cover {
		// A node inside a service CIDR would lose what comes to it.
		if !slices.ContainsFunc(own, p.Contains) {
			want[p] = true
		}
	}
	for a := range s.rejects.claimed {
		contains := func(p netip.Prefix) bool { return p.Contains(a) }
		inside := slices.ContainsFunc(cover, func(p netip.Prefix) bool { return want[p] && contains(p) })
		if !inside && !s.node.Has(a) && !slices.ContainsFunc(s.rejects.found.Connected, contains) {
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
		s.markDirty(s.st.ids()...)
	}
}

// addRejects adds the routes that are missing. It comes before translations are
// removed, and delRejects after they are added: in between, refusing wins. A
// route that VPP refuses holds up no other.
func (s *Server) addRejects(ctx context.Context) error {
	r := &s.rejects
	var missing []netip.Prefix
	for _, p := range slices.SortedFunc(maps.Keys(s.wantedRejects()), netip.Prefix.Compare) {
		if !r.held[p] {
			missing = append(missing, p)
		}
	}
	// Recorded before they are made, so that nothing of ours is unlisted.
	s.recordRoutes(missing, nil)
	var errs []error
	for _, p := range missing {
		if err := s.session.AddUnreachable(ctx, p); err != nil {
			errs = append(errs, err)
			continue
		}
		r.held[p] = true
	}
	return summary(errs, "routes")
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
	var errs []error
	for _, p := range slices.SortedFunc(maps.Keys(r.held), netip.Prefix.Compare) {
		if want[p] {
			continue
		}
		if err := s.session.DelUnreachable(ctx, p); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(r.held, p)
		gone = append(gone, p)
	}
	s.recordRoutes(nil, gone)
	return summary(errs, "routes")
}

// readRoutes finds out which addresses VPP has, and which of the routes that are
// wanted, or that we left in this VPP, it has. A route that is neither is
// somebody else's.
func (s *Server) readRoutes(ctx context.Context) error {
	found, err := s.session.Routes(ctx)
	if err != nil {
		return err
	}
	r := &s.rejects
	ours := maps.Clone(r.held)
	if s.cfg.Store != nil {
		var stored []netip.Prefix
		stored, r.storeErr = s.cfg.Store.Routes()
		for _, p := range stored {
			ours[p] = true
		}
	}
	if !slices.Equal(found.Connected, r.found.Connected) {
		r.want = nil
	}
	r.found = found
	s.vppOwn = found.Local
	s.nodeChanged()
	want := s.wantedRejects()
	r.held = map[netip.Prefix]bool{}
	for _, p := range found.Unreachable {
		if want[p] || ours[p] {
			r.held[p] = true
		}
	}
	return nil
}

// summary is the first of many errors and their number: what is wrong with one
// of them mostly is wrong with all (scenario 80).
func summary(errs []error, what string) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return fmt.Errorf("%w, and %d more %s", errs[0], len(errs)-1, what)
}
