// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package reconcile makes VPP hold what the book wants.
//
//	book.Wanted(key) ─┐
//	                  ├─> plan ─> writes in order ─> VPP ─> confirmed, or dirty again
//	what VPP holds  ──┘
//
// What VPP holds is known from a dump at the start of each connection and from
// the replies to our writes since; ids of translations live here and nowhere
// else. A key is dirty until VPP confirmed it. A failed write is retried with
// back-off, for that key alone. A round in which nothing differs makes no call.
//
// A Reconciler belongs to one goroutine, the services server's loop.
package reconcile
