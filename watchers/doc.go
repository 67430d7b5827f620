// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package watchers turns sources of Kubernetes objects into model.Events:
//
//	API server ──informers──> Kubernetes ┐
//	*.yaml *.json ─fsnotify─> Files      ├──Event──> model.Sink (the services server)
//	recorded watch ─lines───> Replay     ┘
//	API server ──informers──> Record ──lines──> a file, for Replay
//
// An event carries an object as it is now, never a difference; receivers ask
// what should be true. Each source that runs for long is one call, Serve, under
// a tomb, and says model.Synced once, when the receiver has been given the first
// complete list of every kind: nothing may be written to VPP before that, since
// a half-full cache looks just like a cluster whose Services were deleted.
//
// Objects are decoded by the same code whether they come from a manifest or
// from a recording (convert.go), and the same resolve.Selection decides which of them
// are ours: what the API server leaves out by label selector, files and
// recordings leave out too.
//
// What goes wrong with one object, file or request is told once, in one line
// that says what is accepted, and everything else goes on; Status has the lines
// that are still true. Losing sight of an object is never taken for its
// deletion: a file that is half written, a directory that is gone for a moment,
// and an API server that does not answer leave everything as it was.
//
// Apart from cmd, this is the only package that imports client-go.
package watchers
