// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"cmp"
	"slices"

	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink/types"
)

// portClaim is a claim with the index of the Service port that it is of.
type portClaim struct {
	model.Claim
	port int
}

// claim adds the claim of Service port i on one address.
func (r *resolver) claim(i int, proto types.Protocol, port uint16, v *vip, c choice) {
	svc := r.in.Service
	r.claims = append(r.claims, portClaim{port: i, Claim: model.Claim{
		Service:  model.ServiceIDOf(svc.Namespace, svc.Name),
		UID:      string(svc.UID),
		Created:  svc.CreationTimestamp.Time,
		Kind:     v.kind,
		PortName: svc.Spec.Ports[i].Name,
		Unserved: c.unserved,
		Entry: types.CnatTranslateEntry{
			Proto:    proto,
			IP:       v.addr,
			Port:     port,
			Backends: c.backends,
			IsRealIP: v.real,
			LBType:   r.balance.lbType,
			Hash:     r.balance.hash,
			Flags:    r.in.Options.Flags,
		},
		LocalPolicy: c.localPolicy,
		HasLocal:    c.hasLocal,
	}})
}

// sortedClaims returns one claim for each key. Where a Service claims a key more
// than once, the kind of the highest rank has it, as among Services (design.md
// 4), then the port that is listed first. One port that does so is no mistake
// (L10); another port that loses its key is told.
func (r *resolver) sortedClaims() []model.Claim {
	slices.SortStableFunc(r.claims, func(a, b portClaim) int {
		return cmp.Or(
			a.Key().Compare(b.Key()),
			cmp.Compare(a.Kind.Rank(), b.Kind.Rank()),
			cmp.Compare(a.port, b.port),
			cmp.Compare(a.Kind, b.Kind),
		)
	})
	var out []model.Claim
	var owner *portClaim
	for i := range r.claims {
		c := &r.claims[i]
		if owner == nil || owner.Key() != c.Key() {
			owner = c
			out = append(out, c.Claim)
		} else if owner.port != c.port {
			r.problems.add(model.ReasonPortRefused, fieldAt("spec.ports", c.port, ""),
				"%s is the %s of %s too, which has it", c.Key(), owner.Kind, fieldAt("spec.ports", owner.port, ""))
		}
	}
	return out
}
