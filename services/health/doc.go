// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package health answers load balancers and probes about this node.
//
//	server's loop ──Set──> NodePorts ──a listener for each healthCheckNodePort──> "have you local endpoints of this Service?"
//	server's Status ─────> Proxy ────/healthz, /livez───────────────────────────> "does this node's service proxy work?"
//
// Both speak exactly as kube-proxy does (service-semantics.md J), so that what
// is configured for it keeps working. NodePorts is level-triggered: Set says all
// that should be, after VPP confirmed it, and only differences move.
package health
