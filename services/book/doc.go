// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package book is the ownership book: which service id has which key.
//
//	claims of a service ──Set──> cnatEntriesByServiceName   service id -> key -> claim
//	                                      │ rank
//	                                      v
//	                             serviceIDByKey             key -> owner
//
// VPP has one slot for a key (vpp-facts F1), yet several Services may claim
// it. The owner is the first of its claims in a total order (see Policy), so
// it depends on the claims alone: every node and every restart agrees, whatever
// the order of events (design.md 4). Losing a key is a state, not an error; the
// claim stays in the book and takes over in the very call in which the owner
// goes.
//
// The book does no I/O, holds no lock and knows no VPP ids. One goroutine, the
// services server's loop, calls it. What it promises the reconciler is small:
// Set returns exactly the keys whose wanted entry may have changed, so a service
// that is not the owner never causes a VPP call.
package book
