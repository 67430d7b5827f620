// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Op is what an Event says about its object.
type Op uint8

// The operations.
const (
	// Upsert: the object exists and looks like this.
	Upsert Op = iota
	// Delete: the object is gone. Only its namespace and name are read, since
	// a tombstone may carry a stale one (service-semantics.md K2).
	Delete
	// Synced: the source has delivered its first complete list of every kind
	// that it watches. Nothing is written before all sources said so (K3).
	Synced
)

// Event is one message from a watcher: an object as it is now. Receivers must
// not modify the object, nor may the sender after sending.
type Event struct {
	Op Op
	// Object is a *corev1.Service, *discoveryv1.EndpointSlice or *corev1.Node;
	// nil for Synced and with Facts. Other types are ignored by the server.
	Object metav1.Object
	// Facts, when not nil, is said by an Upsert without Object. The receiver
	// keeps it.
	Facts *Facts
	// Source names the watcher, for the sync gate and for logs.
	Source string
}

// Sink takes events. Send blocks while the server is busy (that is the
// back-pressure) and returns an error only when ctx ends.
type Sink interface {
	Send(ctx context.Context, events ...Event) error
}
