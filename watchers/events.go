// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"context"

	tomb "gopkg.in/tomb.v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"calico-vpp-services/services/model"
)

// Component is who Events are from.
const Component = "calico-vpp-services"

// Events tells the authors of Services about Problems, by Events on the
// Service. client-go aggregates what is alike and limits the rate of each object;
// what its queue has no room for is dropped, so a Report never waits.
type Events struct {
	client      kubernetes.Interface
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

// NewEvents returns Events from the agent on a node.
func NewEvents(client kubernetes.Interface, nodeName string) *Events {
	b := record.NewBroadcaster()
	return &Events{
		client:      client,
		broadcaster: b,
		recorder:    b.NewRecorder(scheme.Scheme, corev1.EventSource{Component: Component, Host: nodeName}),
	}
}

// Report makes a Warning on the Service. It never blocks.
func (e *Events) Report(svc *corev1.Service, p model.Problem) {
	e.recorder.Event(svc, corev1.EventTypeWarning, string(p.Reason), p.Field+": "+p.Message)
}

// Serve sends the Events to the API server until t is dying.
func (e *Events) Serve(t *tomb.Tomb) error {
	ctx := t.Context(context.Background())
	defer e.broadcaster.Shutdown()
	w := e.broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: e.client.CoreV1().Events("")})
	<-ctx.Done()
	w.Stop()
	return nil
}
