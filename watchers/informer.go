// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"context"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// resource is a kind of object as the API server lists it.
type resource struct {
	group, name string
	// example is an empty object of the kind.
	example object
	// labels and fields select what is listed.
	labels, fields string
	// optional: an API server that does not have the resource, or does not let
	// us list it, is no reason to wait.
	optional bool
	// unknown is what to do about an API server that does not know the resource.
	unknown string
	list    func(context.Context, metav1.ListOptions) (runtime.Object, error)
	watch   func(context.Context, metav1.ListOptions) (watch.Interface, error)
}

func serviceResource(c kubernetes.Interface) *resource {
	api := c.CoreV1().Services(metav1.NamespaceAll)
	return &resource{
		name:    "services",
		example: &corev1.Service{},
		list:    func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) },
		watch:   api.Watch,
	}
}

func sliceResource(c kubernetes.Interface) *resource {
	api := c.DiscoveryV1().EndpointSlices(metav1.NamespaceAll)
	return &resource{
		group:   "discovery.k8s.io",
		name:    "endpointslices",
		unknown: "wanted Kubernetes 1.21 or later",
		example: &discoveryv1.EndpointSlice{},
		list:    func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) },
		watch:   api.Watch,
	}
}

func nodeResource(c kubernetes.Interface) *resource {
	api := c.CoreV1().Nodes()
	return &resource{
		name:    "nodes",
		example: &corev1.Node{},
		list:    func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) },
		watch:   api.Watch,
	}
}

func serviceCIDRResource(c kubernetes.Interface) *resource {
	api := c.NetworkingV1().ServiceCIDRs()
	return &resource{
		group:    "networking.k8s.io",
		name:     "servicecidrs",
		unknown:  "it is left out, as before Kubernetes 1.33; the service CIDRs can be configured instead",
		example:  &networkingv1.ServiceCIDR{},
		optional: true,
		list:     func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) },
		watch:    api.Watch,
	}
}

// is tells whether obj is a (not nil) object of the kind.
func (r *resource) is(obj any) bool {
	return reflect.TypeOf(obj) == reflect.TypeOf(r.example) && !reflect.ValueOf(obj).IsNil()
}

// informer follows the objects of one resource.
type informer struct {
	cache.SharedIndexInformer
	*resource
	access *access
	// handled is done when the handler has been given the first complete
	// list. The informer's own HasSynced is true earlier, when only its
	// cache is full.
	handled cache.DoneChecker
	// refused is closed when a request was refused for good, if the resource is optional.
	refused chan struct{}
	refuse  sync.Once
	// guards are the goroutines behind watches.
	guards sync.WaitGroup
}

// newInformer returns an informer, not yet running, that calls h. Objects get
// their type if typed, and lose what nobody needs.
func newInformer(c kubernetes.Interface, r *resource, b *board, typed bool, h cache.ResourceEventHandler) (*informer, error) {
	i := &informer{resource: r, access: &access{resource: r, board: b}, refused: make(chan struct{})}
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc:  i.listAPI,
		WatchFuncWithContext: i.watchAPI,
	}, c)
	// No resync: equal objects sent again mend nothing (K7).
	i.SharedIndexInformer = cache.NewSharedIndexInformerWithOptions(lw, r.example, cache.SharedIndexInformerOptions{})
	if err := i.SetTransform(func(in any) (any, error) {
		if obj, ok := in.(object); ok && r.is(in) {
			obj.SetManagedFields(nil)
			if typed {
				setType(obj, typeOf(obj))
			}
		}
		return in, nil
	}); err != nil {
		return nil, err
	}
	// The access knows of failed requests; what ends a watch that had begun
	// is counted here. client-go would log both, at each try.
	if err := i.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		b.count("relist")
		b.log.WithError(err).Debugf("%s: listing again", r.name)
	}); err != nil {
		return nil, err
	}
	registration, err := i.AddEventHandler(h)
	if err != nil {
		return nil, err
	}
	i.handled = registration.HasSyncedChecker()
	return i, nil
}

// run follows the objects until ctx ends, and leaves no goroutine behind.
func (i *informer) run(ctx context.Context) {
	i.RunWithContext(ctx)
	i.guards.Wait()
}

func (i *informer) selected(o metav1.ListOptions) metav1.ListOptions {
	o.LabelSelector, o.FieldSelector = i.labels, i.fields
	return o
}

func (i *informer) listAPI(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	list, err := i.list(ctx, i.selected(o))
	if ctx.Err() == nil {
		i.access.listed(err)
		i.noteRefusal(err)
	}
	return list, err
}

// noteRefusal notes that an optional resource is not to be had.
func (i *informer) noteRefusal(err error) {
	if i.optional && (apierrors.IsNotFound(err) || apierrors.IsForbidden(err)) {
		i.refuse.Do(func() { close(i.refused) })
	}
}

// wasRefused tells whether noteRefusal noted one.
func (i *informer) wasRefused() bool {
	select {
	case <-i.refused:
		return true
	default:
		return false
	}
}

func (i *informer) watchAPI(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := i.watch(ctx, i.selected(o))
	if ctx.Err() == nil {
		i.access.watched(err, o.SendInitialEvents != nil && *o.SendInitialEvents)
	}
	if err != nil {
		return nil, err
	}
	g := &guard{in: w, out: make(chan watch.Event), done: make(chan struct{})}
	i.guards.Go(func() { g.pass(i.resource, i.access.board) })
	return g, nil
}

// guard lets through the events of a watch that make sense. An event without an
// object has crashed agents before: client-go's own code reads it.
type guard struct {
	in   watch.Interface
	out  chan watch.Event
	done chan struct{}
	once sync.Once
}

// ResultChan implements watch.Interface.
func (g *guard) ResultChan() <-chan watch.Event { return g.out }

// Stop implements watch.Interface.
func (g *guard) Stop() {
	g.once.Do(func() {
		close(g.done)
		g.in.Stop()
	})
}

func (g *guard) pass(r *resource, b *board) {
	defer close(g.out)
	for {
		var e watch.Event
		var ok bool
		select {
		case e, ok = <-g.in.ResultChan():
		case <-g.done:
			return
		}
		if !ok {
			b.count("watch_closed")
			return
		}
		switch {
		case e.Type == watch.Error:
			b.count("watch_error")
			if s, ok := e.Object.(*metav1.Status); !ok || s == nil {
				e.Object = &metav1.Status{Status: metav1.StatusFailure, Message: "error event without a status"}
			}
			b.log.WithError(apierrors.FromObject(e.Object)).Debugf("watch of %s", r.name)
		case !r.is(e.Object):
			if b.count("watch_wrong_object") {
				b.log.Warnf("watch of %s: the API server sent %s with a %T; passed over (told once)", r.name, e.Type, e.Object)
			}
			continue
		}
		select {
		case g.out <- e:
		case <-g.done:
			return
		}
	}
}
