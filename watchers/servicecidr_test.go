// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"errors"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// ServiceCIDRs are followed; one that the API server does not have, or keeps from
// us, holds nothing up.
func TestServiceCIDRs(t *testing.T) {
	cidr := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}}
	resource := schema.GroupResource{Group: "networking.k8s.io", Resource: "servicecidrs"}
	for name, tc := range map[string]struct {
		err  error
		seen bool
	}{
		"there":     {nil, true},
		"forbidden": {apierrors.NewForbidden(resource, "", errors.New("no")), false},
		"not there": {apierrors.NewNotFound(resource, ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(cidr)
			if tc.err != nil {
				for _, verb := range []string{"list", "watch"} {
					client.PrependReactor(verb, "servicecidrs", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, tc.err })
				}
			}
			log, _ := newLog()
			sink := newSink()
			k, err := NewKubernetes(KubernetesConfig{Client: client, NodeName: "node-a", ServiceCIDRs: true}, sink, log)
			if err != nil {
				t.Fatal(err)
			}
			stop := serve(t, k.Serve)
			defer stop()
			eventually(t, long, "synced", func() bool { return k.Status().Synced })
			o, seen := sink.get("ServiceCIDR", "", "kubernetes").(*networkingv1.ServiceCIDR)
			if seen && o.Spec.CIDRs[0] != "10.96.0.0/16" {
				t.Errorf("the ServiceCIDR has %v", o.Spec.CIDRs)
			}
			if seen != tc.seen {
				t.Errorf("the ServiceCIDR was seen: %v, want %v", seen, tc.seen)
			}
		})
	}
}
