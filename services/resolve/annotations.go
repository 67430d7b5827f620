// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink/types"
)

// The annotations of a Service that are read, those of Calico-VPP.
const (
	// AnnotationLBType is one of ecmp (the default), maglev, and maglevdsr,
	// which is maglev without NAT: backends get the packet as it was sent to
	// the VIP, and answer the client themselves. Where they cannot, because their
	// port is another or the VIP is the node's, it is maglev.
	AnnotationLBType = "cni.projectcalico.org/vppLBType"
	// AnnotationHashConfig is a list, separated by commas, of the packet fields
	// that choose the backend: srcport, dstport, srcaddr, dstaddr, iproto, and
	// the modifiers reverse and symmetric.
	AnnotationHashConfig = "cni.projectcalico.org/vppHashConfig"
)

// balancing is how a Service wants its new flows spread.
type balancing struct {
	lbType types.LBType
	hash   types.FlowHash
	noNAT  bool
}

// balancing reads annotations and session affinity. As in Calico-VPP, case and
// spaces do not count. A value that is not accepted is as if it were not
// there: what the annotation said before is not remembered, for then a restart
// would change what is programmed.
func (r *resolver) balancing() balancing {
	lbType, noNAT, lbGiven := r.lbTypeAnnotation()
	hash, hashGiven := r.hashAnnotation()
	b := balancing{lbType: lbType, hash: hash, noNAT: noNAT}
	switch r.in.Service.Spec.SessionAffinity {
	case "", corev1.ServiceAffinityNone:
		return b
	case corev1.ServiceAffinityClientIP:
	default:
		r.problems.add(model.ReasonUnsupported, "spec.sessionAffinity", "%s: accepted values are None, ClientIP; there is no affinity",
			quote(string(r.in.Service.Spec.SessionAffinity)))
		return b
	}
	// H1, H7: a client sticks to a backend because nothing but its address is
	// hashed (vpp-facts S6), over the same backends at each VIP of the port.
	if hashGiven && hash&^types.HashProto != types.HashSrcAddr {
		r.problems.add(model.ReasonUnsupported, "spec.sessionAffinity",
			"ClientIP affinity is not kept: annotation %s says otherwise and wins; remove it, or set it to srcaddr", AnnotationHashConfig)
		return b
	}
	if !hashGiven {
		b.hash = types.HashSrcAddr
	}
	if !lbGiven {
		b.lbType = types.LBMaglev // moves few clients when backends change (H3)
	} else if lbType != types.LBMaglev {
		r.problems.add(model.ReasonUnsupported, "spec.sessionAffinity",
			"ClientIP affinity holds only while the backends stay the same: annotation %s says ecmp; with maglev few clients move",
			AnnotationLBType)
	}
	r.checkAffinityTimeout()
	return b
}

// checkAffinityTimeout tells those who chose a time-out that there is none (H2,
// design.md 9). The API server writes the default into every Service, so it
// is no choice.
func (r *resolver) checkAffinityTimeout() {
	c := r.in.Service.Spec.SessionAffinityConfig
	if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil ||
		*c.ClientIP.TimeoutSeconds == corev1.DefaultClientIPServiceAffinitySeconds {
		return
	}
	r.problems.add(model.ReasonUnsupported, "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
		"VPP has no time-out for affinity: a client keeps its backend for as long as that one is there")
}

// lbTypeAnnotation reads AnnotationLBType; given says that it is there and accepted.
func (r *resolver) lbTypeAnnotation() (lbType types.LBType, noNAT, given bool) {
	text, given := r.in.Service.Annotations[AnnotationLBType]
	if !given {
		return types.LBDefault, false, false
	}
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "ecmp":
		return types.LBDefault, false, true
	case "maglev":
		return types.LBMaglev, false, true
	case "maglevdsr":
		return types.LBMaglev, true, true
	}
	r.refuseAnnotation(AnnotationLBType, "%s: accepted values are ecmp, maglev, maglevdsr", quote(text))
	return types.LBDefault, false, false
}

// hashAnnotation reads AnnotationHashConfig; given says that it is there and
// accepted, as a whole.
func (r *resolver) hashAnnotation() (hash types.FlowHash, given bool) {
	text, given := r.in.Service.Annotations[AnnotationHashConfig]
	if !given {
		return 0, false
	}
	for name := range strings.SplitSeq(text, ",") {
		bit, err := types.ParseFlowHash(strings.ToLower(strings.TrimSpace(name)))
		if err != nil {
			r.refuseAnnotation(AnnotationHashConfig, "%s: %s is not one of the accepted values, which are, separated by commas, %s",
				quote(text), quote(name), strings.Join(types.FlowHashNames(), ", "))
			return 0, false
		}
		hash |= bit
	}
	if hash&^(types.HashReverse|types.HashSymmetric) == 0 {
		r.refuseAnnotation(AnnotationHashConfig, "%s names nothing to hash, so that one backend would get everything: "+
			"wanted at least one of srcaddr, dstaddr, srcport, dstport, iproto", quote(text))
		return 0, false
	}
	return hash, true
}

func (r *resolver) refuseAnnotation(name, format string, args ...any) {
	r.problems.add(model.ReasonAnnotationRefused, "metadata.annotations["+name+"]", format+"; the default is used", args...)
}
