// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package services is the services server: it keeps VPP's cnat plugin exactly
// as the Kubernetes objects ask.
//
//	watchers ──Event──> state ──dirty ids──> resolve ──Claims──> book ──keys──> reconcile ──> VPP
//	                                                              │
//	                                                              └──> view (what `show` prints)
//
// One goroutine, the server's loop under a tomb, owns all of it. Events only
// change the state and mark service ids dirty; a round then resolves the dirty
// ids from the state as it is, lets the book pick owners, and writes the
// difference to VPP. Everyone else sends events or reads the view, which is brought up to date
// after each round, so that asking never waits for VPP.
//
// Nothing is written before every source has delivered its first complete list.
package services
