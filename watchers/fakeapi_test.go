// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

// fakeAPI is the part of an API server that watchers see: lists and watches
// with versions and selectors. A clientset's fake has neither of the two.
type fakeAPI struct {
	*fake.Clientset
	t *testing.T

	mu      sync.Mutex
	version int
	objects map[objectKey]object
	watches []*fakeWatch
	// refused has the error for "list services" and the like.
	refused map[string]error
	// calls counts the requests, "list services" and the like.
	calls map[string]int
}

type fakeWatch struct {
	*watch.RaceFreeFakeWatcher
	kind     string
	selector selector
}

// selector is that of a request.
type selector struct {
	labels labels.Selector
	fields fields.Selector
}

func (s selector) matches(o object) bool {
	return s.labels.Matches(labels.Set(o.GetLabels())) && s.fields.Matches(fields.Set{"metadata.name": o.GetName(), "metadata.namespace": o.GetNamespace()})
}

var kindOfResource = map[string]string{"services": "Service", "endpointslices": "EndpointSlice", "nodes": "Node", "servicecidrs": "ServiceCIDR"}

func newFakeAPI(t *testing.T, objects ...object) *fakeAPI {
	a := &fakeAPI{
		Clientset: &fake.Clientset{}, t: t, version: 1,
		objects: map[objectKey]object{}, refused: map[string]error{}, calls: map[string]int{},
	}
	a.AddReactor("list", "*", func(action k8stesting.Action) (bool, runtime.Object, error) {
		r := action.(k8stesting.ListAction).GetListRestrictions()
		list, err := a.list(action.GetResource(), selector{r.Labels, r.Fields})
		return true, list, err
	})
	a.AddWatchReactor("*", func(action k8stesting.Action) (bool, watch.Interface, error) {
		r := action.(k8stesting.WatchAction).GetWatchRestrictions()
		w, err := a.watch(action.GetResource(), selector{r.Labels, r.Fields}, r.ResourceVersion)
		return true, w, err
	})
	for _, o := range objects {
		a.put(o)
	}
	return a
}

// matching returns copies of the objects of a kind, sorted.
func (a *fakeAPI) matching(kind string, s selector) []object {
	var found []object
	for k, o := range a.objects {
		if k.kind == kind && s.matches(o) {
			found = append(found, o.DeepCopyObject().(object))
		}
	}
	slices.SortFunc(found, func(x, y object) int { return keyOf(x).compare(keyOf(y)) })
	return found
}

func (a *fakeAPI) list(gvr schema.GroupVersionResource, s selector) (runtime.Object, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls["list "+gvr.Resource]++
	if err := a.refused["list "+gvr.Resource]; err != nil {
		return nil, err
	}
	meta := metav1.ListMeta{ResourceVersion: strconv.Itoa(a.version)}
	objects := a.matching(kindOfResource[gvr.Resource], s)
	switch gvr.Resource {
	case "services":
		l := &corev1.ServiceList{ListMeta: meta}
		for _, o := range objects {
			l.Items = append(l.Items, *o.(*corev1.Service))
		}
		return l, nil
	case "endpointslices":
		l := &discoveryv1.EndpointSliceList{ListMeta: meta}
		for _, o := range objects {
			l.Items = append(l.Items, *o.(*discoveryv1.EndpointSlice))
		}
		return l, nil
	case "servicecidrs":
		l := &networkingv1.ServiceCIDRList{ListMeta: meta}
		for _, o := range objects {
			l.Items = append(l.Items, *o.(*networkingv1.ServiceCIDR))
		}
		return l, nil
	}
	l := &corev1.NodeList{ListMeta: meta}
	for _, o := range objects {
		l.Items = append(l.Items, *o.(*corev1.Node))
	}
	return l, nil
}

// watch begins at the version now; a version in the past is expired, so that
// nothing that happened while no watch was there is told as an event.
func (a *fakeAPI) watch(gvr schema.GroupVersionResource, s selector, version string) (watch.Interface, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls["watch "+gvr.Resource]++
	if err := a.refused["watch "+gvr.Resource]; err != nil {
		return nil, err
	}
	if version != strconv.Itoa(a.version) {
		return nil, apierrors.NewResourceExpired("too old resource version: " + version)
	}
	w := &fakeWatch{watch.NewRaceFreeFake(), kindOfResource[gvr.Resource], s}
	a.watches = append(a.watches, w)
	return w, nil
}

// put creates or changes an object.
func (a *fakeAPI) put(o object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := keyOf(o)
	old := a.objects[key]
	a.version++
	o = o.DeepCopyObject().(object)
	o.SetResourceVersion(strconv.Itoa(a.version))
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "test"}})
	a.objects[key] = o
	a.tell(key.kind, old, o)
}

// remove deletes an object.
func (a *fakeAPI) remove(o object) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := keyOf(o)
	old := a.objects[key]
	a.version++
	delete(a.objects, key)
	a.tell(key.kind, old, nil)
}

// tell sends watches what became of old, by their selectors.
func (a *fakeAPI) tell(kind string, old, o object) {
	for _, w := range a.watches {
		if w.kind != kind || w.IsStopped() {
			continue
		}
		was, is := old != nil && w.selector.matches(old), o != nil && w.selector.matches(o)
		switch {
		case was && is:
			w.Modify(o.DeepCopyObject())
		case is:
			w.Add(o.DeepCopyObject())
		case was:
			w.Delete(old.DeepCopyObject())
		}
	}
	// Others learn the version, as by bookmarks.
}

// watching tells whether the three resources that cannot be done without are
// watched now.
func (a *fakeAPI) watching() bool {
	open := a.open()
	return open["Service"] != nil && open["EndpointSlice"] != nil && open["Node"] != nil
}

// open returns the watch of each kind that is open.
func (a *fakeAPI) open() map[string]*fakeWatch {
	a.mu.Lock()
	defer a.mu.Unlock()
	open := map[string]*fakeWatch{}
	for _, w := range a.watches {
		if !w.IsStopped() {
			open[w.kind] = w
		}
	}
	return open
}

// breakWatches closes all watches, as when a connection is lost.
func (a *fakeAPI) breakWatches() {
	for _, w := range a.open() {
		w.Stop()
	}
}

// refuse makes requests fail; err nil lets them succeed again.
func (a *fakeAPI) refuse(err error, requests ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range requests {
		a.refused[r] = err
	}
}

func (a *fakeAPI) called(request string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[request]
}

// forbidden is what the API server answers when RBAC lacks a verb.
func forbidden(group, resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: group, Resource: resource}, "", errors.New("RBAC says no"))
}

func svc(name string, change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.1"}}
	for _, c := range change {
		c(s)
	}
	return s
}

func slice(name string, change ...func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func serviceCIDR(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
