// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sirupsen/logrus"
	tomb "gopkg.in/tomb.v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"calico-vpp-services/services/model"
	"calico-vpp-services/services/resolve"
)

// KubernetesConfig configures a Kubernetes.
type KubernetesConfig struct {
	// Client talks to the API server; NewClientset makes one.
	Client kubernetes.Interface
	// NodeName is the name of this node's Node object; no other is watched.
	NodeName string
	// ServiceCIDRs has the ServiceCIDR objects followed too. An API server that
	// has none of them, or keeps them from us, holds nothing else up.
	ServiceCIDRs bool
	// Selection says which objects are ours.
	Selection resolve.Selection
}

// Kubernetes sends the Services, the EndpointSlices and the Node of this node as
// the API server has them.
//
// The objects of one kind are sent in order, those of different kinds from
// different goroutines. Synced is sent when the receiver has been given the first
// complete list of every kind. After that, whatever the API server does, objects
// stay until it says that they are gone, or leaves them out of a complete list.
type Kubernetes struct {
	cfg       KubernetesConfig
	sink      model.Sink
	log       *logrus.Entry
	board     *board
	informers []*informer
	// ctx is that of Serve. Handlers run only between its first and its last
	// line.
	ctx context.Context
}

// NewKubernetes returns a source for the objects of a cluster. sink.Send must be
// safe for concurrent use.
func NewKubernetes(cfg KubernetesConfig, sink model.Sink, log *logrus.Entry) (*Kubernetes, error) {
	switch {
	case cfg.Client == nil:
		return nil, errors.New("kubernetes source: no client")
	case cfg.NodeName == "":
		return nil, errors.New("kubernetes source: no node name: give the name of this node's Node object")
	}
	if err := cfg.Selection.Validate(); err != nil {
		return nil, fmt.Errorf("kubernetes source: %w", err)
	}
	k := &Kubernetes{cfg: cfg, sink: sink, log: log, board: newBoard(log)}

	services := serviceResource(cfg.Client)
	services.labels = cfg.Selection.ServiceSelector()
	slices := sliceResource(cfg.Client)
	slices.labels = cfg.Selection.SliceSelector()
	nodes := nodeResource(cfg.Client)
	nodes.fields = fields.OneTermEqualSelector(metav1.ObjectNameField, cfg.NodeName).String()

	resources := []*resource{services, slices, nodes}
	if cfg.ServiceCIDRs {
		resources = append(resources, serviceCIDRResource(cfg.Client))
	}
	for _, r := range resources {
		i, err := newInformer(cfg.Client, r, k.board, false, &handler{k: k, resource: r})
		if err != nil {
			return nil, fmt.Errorf("kubernetes source: %s: %w", r.name, err)
		}
		k.informers = append(k.informers, i)
	}
	return k, nil
}

// Name is the Source of the events.
func (k *Kubernetes) Name() string { return SourceKubernetes }

// Status returns how the source stands.
func (k *Kubernetes) Status() Status {
	s := k.board.status()
	for _, i := range k.informers {
		if !cache.IsDone(i.handled) && !i.wasRefused() {
			s.Waiting = append(s.Waiting, i.name)
		}
	}
	return s
}

// Serve follows the objects until t is dying. It may be called once.
func (k *Kubernetes) Serve(t *tomb.Tomb) error {
	ctx, cancel := context.WithCancel(withLogger(t.Context(context.Background()), k.log))
	defer cancel()
	k.ctx = ctx
	var running sync.WaitGroup
	for _, i := range k.informers {
		running.Go(func() { i.run(ctx) })
	}
	defer running.Wait()
	defer cancel()

	for _, i := range k.informers {
		select {
		case <-i.handled.Done():
		case <-i.refused: // and known to be optional
		case <-t.Dying():
			return nil
		}
	}
	k.checkNode()
	// Everything before this was handed over before a handler returned.
	if k.sink.Send(ctx, model.Event{Op: model.Synced, Source: SourceKubernetes}) == nil {
		k.board.setSynced()
		k.log.Info("the API server's first complete lists have been handed over")
	}
	<-t.Dying()
	return nil
}

// checkNode says so if there is no Node of our name.
func (k *Kubernetes) checkNode() {
	for _, i := range k.informers {
		if i.name != "nodes" || !cache.IsDone(i.handled) {
			continue
		}
		k.board.setOwnNode(k.cfg.NodeName, len(i.GetStore().ListKeys()) > 0)
	}
}

// handler passes on what an informer tells of one resource.
type handler struct {
	k *Kubernetes
	*resource
}

// OnAdd implements cache.ResourceEventHandler.
func (h *handler) OnAdd(obj any, _ bool) { h.send(model.Upsert, h.object(obj)) }

// OnUpdate implements cache.ResourceEventHandler.
func (h *handler) OnUpdate(old, obj any) {
	if n := h.object(obj); n != nil && !isSameVersion(old, n) {
		h.send(model.Upsert, n)
	}
}

// OnDelete implements cache.ResourceEventHandler.
func (h *handler) OnDelete(obj any) { h.send(model.Delete, h.deleted(obj)) }

func (h *handler) send(op model.Op, obj metav1.Object) {
	if obj == nil {
		return
	}
	// An error means that we are to end.
	_ = h.k.sink.Send(h.k.ctx, model.Event{Op: op, Object: obj, Source: SourceKubernetes})
	if h.name == "nodes" && h.k.board.status().Synced {
		h.k.checkNode()
	}
}

func (h *handler) object(obj any) metav1.Object { return objectOf(obj, h.resource, h.k.board) }

func (h *handler) deleted(obj any) metav1.Object { return deletedOf(obj, h.resource, h.k.board) }

// objectOf returns what an informer calls an object, or nil if it is none.
func objectOf(obj any, r *resource, b *board) metav1.Object {
	if o, ok := obj.(object); ok && r.is(obj) {
		return o
	}
	if b.count("wrong_type") {
		b.log.Warnf("%s: the cache told of a %T; passed over (told once)", r.name, obj)
	}
	return nil
}

// deletedOf returns the object that is gone. If the watch was broken when it
// went, there is a tombstone in its place, whose object may be stale, or be no
// object at all; its key is right in any case.
func deletedOf(obj any, r *resource, b *board) metav1.Object {
	var key string
	switch d := obj.(type) {
	case cache.DeletedFinalStateUnknown:
		key, obj = d.Key, d.Obj
	case *cache.DeletedFinalStateUnknown:
		if d != nil {
			key, obj = d.Key, d.Obj
		}
	}
	if key == "" {
		return objectOf(obj, r, b)
	}
	b.count("tombstone")
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	last := objectOf(obj, r, b)
	if err != nil || (last != nil && last.GetNamespace() == namespace && last.GetName() == name) {
		return last
	}
	gone := newObject(typeOf(r.example))
	setType(gone, typeOf(r.example))
	gone.SetNamespace(namespace)
	gone.SetName(name)
	return gone
}

// isSameVersion tells of an update without change, as each new list brings for
// every object.
func isSameVersion(old any, obj metav1.Object) bool {
	o, ok := old.(metav1.Object)
	return ok && obj.GetResourceVersion() != "" && o.GetResourceVersion() == obj.GetResourceVersion() && o.GetUID() == obj.GetUID()
}
