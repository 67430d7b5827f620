// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// LabelServiceProxyName is the label that gives a Service, whatever its value, to
// another proxy than the cluster's default one (A3, KEP-2447).
const LabelServiceProxyName = "service.kubernetes.io/service-proxy-name"

// Selection says which objects are ours, to those who watch them and to
// Service alike. The zero value is right for the cluster's default proxy.
type Selection struct {
	// ProxyName is the value of LabelServiceProxyName of the Services that are
	// ours; empty: those without the label.
	ProxyName string
}

// Validate says what is wrong with the proxy name, if anything.
func (s Selection) Validate() error {
	if msgs := validation.IsValidLabelValue(s.ProxyName); len(msgs) > 0 {
		return fmt.Errorf("proxy name %s: %s", quote(s.ProxyName), msgs[0])
	}
	return nil
}

// Selects tells whether obj is ours. One that is not counts as deleted: a label
// may come and go while the object lives.
func (s Selection) Selects(obj metav1.Object) bool {
	switch obj.(type) {
	case *corev1.Service:
		name, labelled := obj.GetLabels()[LabelServiceProxyName]
		if s.ProxyName == "" {
			return !labelled
		}
		return labelled && name == s.ProxyName
	case *discoveryv1.EndpointSlice:
		// Only this label counts on slices: they may carry a copy of the
		// Service's proxy name (A3, A4).
		_, headless := obj.GetLabels()[corev1.IsHeadlessService]
		return !headless
	}
	return true
}

// ServiceSelector is Selects for Services, as a label selector.
func (s Selection) ServiceSelector() string {
	if s.ProxyName == "" {
		return "!" + LabelServiceProxyName
	}
	return LabelServiceProxyName + "=" + s.ProxyName
}

// SliceSelector is Selects for EndpointSlices, as a label selector.
func (s Selection) SliceSelector() string { return "!" + corev1.IsHeadlessService }
