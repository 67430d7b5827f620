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
			Backends: r.addressed(i, port, v, c.backends),
			IsRealIP: v.real,
			LBType:   r.balance.lbType,
			Hash:     r.balance.hash,
			Flags:    r.in.Options.Flags,
		},
		LocalPolicy: c.localPolicy,
		HasLocal:    c.hasLocal,
	}})
}

// addressed returns backends as the Service wants packets for them addressed. Without
// NAT (maglevdsr) a packet arrives as it was sent, so a backend must have the
// address and the port of the key. Where it cannot, every backend of the key
// gets NAT, for part of the flows would be lost otherwise, and the author hears
// of it: the address of a node port is the node's own, which no pod has, and
// a backend may listen on another port.
func (r *resolver) addressed(i int, port uint16, v *vip, backends []types.Backend) []types.Backend {
	if !r.balance.noNAT {
		return backends
	}
	refuse := func(format string, args ...any) []types.Backend {
		r.problems.add(model.ReasonUnsupported, "metadata.annotations["+AnnotationLBType+"]",
			"maglevdsr, which rewrites nothing, is not possible for "+format+"; maglev with NAT is used there", args...)
		return backends
	}
	if v.kind == model.KindNodePort {
		return refuse("the node port of %s: no endpoint has the node's address", fieldAt("spec.ports", i, ""))
	}
	if j := slices.IndexFunc(backends, func(b types.Backend) bool { return b.Port != port }); j >= 0 {
		return refuse("%s: clients send to port %d and endpoints have port %d", fieldAt("spec.ports", i, ""), port, backends[j].Port)
	}
	out := slices.Clone(backends) // other claims share them
	for j := range out {
		out[j].NoNAT = true
	}
	return out
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
