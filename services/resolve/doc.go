// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package resolve says what one Service claims, from the state as it is now.
//
//	Service ──┬─ families ── ClusterIP, nodePort addresses, LB and external IPs ──┐ guards
//	          ├─ ports (name, protocol) ───────────────────┐                      │
//	          └─ policies, annotations, affinity ────────┐ │                      │
//	slices ───── endpoints, each ip:port once, by port ──┴─┴─> cluster set ───────┴─> Claims
//	Node ─────── name, zone, addresses ────────────────────/   local set            Problems
//	                                                                                HealthCheck
//
// It is pure: no I/O, no clock, no memory of what was before. The same state in
// any order gives the same result, so every node and every restart agrees. What
// a Service asks for and cannot have is a Problem in the result: it is never an
// error, and it never touches another port or another Service.
//
// A Service port has at most two sets of endpoints in a family. The cluster set
// is the ready endpoints that the topology hints leave, or, if nothing is ready
// anywhere, those that terminate and still serve. The local set is the same for
// this node alone, without hints. Traffic policies choose between the two; a
// key whose set is empty is still claimed, and says why it is unserved.
//
// The rules are those of a Kubernetes service proxy, as numbered in
// service-semantics.md; where one is kept, its number stands in a comment, such
// as B12. Where VPP cannot do what kube-proxy does, design.md 9 decides.
package resolve
