// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"cmp"
	"fmt"
)

// Reason classifies a Problem. It becomes the reason of the Kubernetes Event on
// the object, so the values are part of the interface.
type Reason string

// The reasons of Problems.
const (
	// ReasonAnnotationRefused: an annotation has a value that is not accepted;
	// the default is used in its place.
	ReasonAnnotationRefused Reason = "AnnotationRefused"
	// ReasonAddressRefused: an address of the object is malformed or not
	// allowed by configuration; the keys on it are not programmed.
	ReasonAddressRefused Reason = "AddressRefused"
	// ReasonPortRefused: a port, its protocol or its number cannot be served.
	ReasonPortRefused Reason = "PortRefused"
	// ReasonEndpointRefused: an endpoint or a port of a slice was skipped.
	ReasonEndpointRefused Reason = "EndpointRefused"
	// ReasonUnsupported: the object asks for something that VPP cannot do.
	ReasonUnsupported Reason = "Unsupported"
	// ReasonKeyLost: another claim has the key (design.md 4).
	ReasonKeyLost Reason = "KeyLost"
	// ReasonProgrammingFailed: VPP refused a write; it is retried.
	ReasonProgrammingFailed Reason = "ProgrammingFailed"
	// ReasonHealthCheckFailed: the health check node port could not be
	// bound (service-semantics.md J5; kube-proxy's own reason).
	ReasonHealthCheckFailed Reason = "FailedToStartServiceHealthcheck"
)

// Problem is something about an object that its author should hear. It is a
// result, not an error: everything else of the object goes on.
type Problem struct {
	Reason Reason
	// Field is the path inside the object, such as spec.externalIPs[0].
	Field string
	// Message says what is wrong, what is accepted, and what happens now.
	Message string
}

// Compare orders problems for output.
func (p Problem) Compare(o Problem) int {
	return cmp.Or(cmp.Compare(p.Field, o.Field), cmp.Compare(p.Reason, o.Reason), cmp.Compare(p.Message, o.Message))
}

// String prints the problem on one line.
func (p Problem) String() string { return fmt.Sprintf("%s: %s: %s", p.Reason, p.Field, p.Message) }
