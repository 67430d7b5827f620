// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink/types"
)

// The annotations of Calico-VPP on Services.
const (
	AnnotationLBType     = "cni.projectcalico.org/vppLBType"
	AnnotationHashConfig = "cni.projectcalico.org/vppHashConfig"
)

// balancing is how a Service wants its flows spread.
type balancing struct {
	lbType types.LBType
	hash   types.FlowHash
	noNAT  bool
}

// balancingOf reads annotations and session affinity. A value that is not
// accepted is as if it were not there: what the annotation said before is not
// remembered, so that a restart gives the same.
func balancingOf(svc *corev1.Service, problems *problemList) balancing {
	var b balancing
	lbSet := false
	if v, there := svc.Annotations[AnnotationLBType]; there {
		lbSet = true
		switch strings.TrimSpace(v) {
		case "ecmp":
		case "maglev":
			b.lbType = types.LBMaglev
		case "maglevdsr":
			b.lbType, b.noNAT = types.LBMaglev, true
		default:
			lbSet = false
			problems.add(model.ReasonAnnotationRefused, annotationField(AnnotationLBType),
				"%q is not accepted; accepted values are ecmp, maglev, maglevdsr; the default, ecmp, is used", v)
		}
	}
	hash, hashSet := hashOf(svc, problems)
	b.hash = hash
	if svc.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return b
	}
	// H1, H7: stickiness by hashing the client's address alone; maglev moves
	// few clients when the backends change.
	if !lbSet {
		b.lbType = types.LBMaglev
	}
	if hashSet && hash != types.HashSrcAddr {
		problems.add(model.ReasonUnsupported, "spec.sessionAffinity",
			"ClientIP is not kept, since the annotation %s is set and wins; remove it to have affinity", AnnotationHashConfig)
		return b
	}
	b.hash = types.HashSrcAddr
	if c := svc.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil &&
		*c.ClientIP.TimeoutSeconds != corev1.DefaultClientIPServiceAffinitySeconds {
		problems.add(model.ReasonUnsupported, "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
			"VPP has no time-out for affinity: clients keep their backend as long as the backends stay")
	}
	return b
}

// hashOf reads the hash annotation: a comma-separated list of fields.
func hashOf(svc *corev1.Service, problems *problemList) (hash types.FlowHash, set bool) {
	v, there := svc.Annotations[AnnotationHashConfig]
	if !there || strings.TrimSpace(v) == "" {
		return 0, false
	}
	for name := range strings.SplitSeq(v, ",") {
		bit, err := types.ParseFlowHash(strings.TrimSpace(name))
		if err != nil {
			problems.add(model.ReasonAnnotationRefused, annotationField(AnnotationHashConfig),
				"%s, separated by commas; the default hash is used", err)
			return 0, false
		}
		hash |= bit
	}
	return hash, true
}

func annotationField(name string) string { return "metadata.annotations[" + name + "]" }
