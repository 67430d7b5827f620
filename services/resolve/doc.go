// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package resolve says what one Service claims, from the state as it is now.
//
//	Service ─┬─ frontends: ClusterIP, NodePort, load balancer and external IPs ─┐
//	         └─ ports (name, protocol) ─┐                                       ├─> Claims
//	slices ──── endpoints ──────────────┴─> cluster set, local set ─────────────┘
//	Node ────── zone, addresses ────────────────┘
//
// It is pure: no I/O, no clock, no memory of what was before. The same input in
// any order gives the same claims. What a Service asks for and cannot have is a
// Problem in the result; it is never an error, and never touches another port or
// Service.
//
// The rules are those of a Kubernetes service proxy; each is cited where it is
// kept by its number in docs/semantics.md, such as B12.
package resolve
