// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The names of the sources, as in model.Event.Source.
const (
	SourceKubernetes = "kubernetes"
	SourceFiles      = "files"
	SourceReplay     = "replay"
)

// LabelServiceProxyName is the label that gives a Service, whatever its value, to
// another proxy than the cluster's default one (service-semantics.md A3).
const LabelServiceProxyName = "service.kubernetes.io/service-proxy-name"

// Selection says which objects are ours. The zero value is right for the
// cluster's default proxy.
type Selection struct {
	// ProxyName is the value of the service-proxy-name label of the Services
	// that are ours; empty: those without the label.
	ProxyName string
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
		// Service's service-proxy-name (A3, A4).
		_, headless := obj.GetLabels()[corev1.IsHeadlessService]
		return !headless
	}
	return true
}

// serviceSelector is Selects for Services, in the API server's words.
func (s Selection) serviceSelector() string {
	if s.ProxyName == "" {
		return "!" + LabelServiceProxyName
	}
	return LabelServiceProxyName + "=" + s.ProxyName
}

// sliceSelector is Selects for EndpointSlices, in the API server's words.
func (s Selection) sliceSelector() string { return "!" + corev1.IsHeadlessService }
