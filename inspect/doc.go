// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package inspect lets people ask a running agent.
//
//	agent: Source (services.Server) ──> Server ──HTTP──> admin socket (mode 0600)
//	tool:  `show`, `resync`         ──> Client ─────────────┘
//
// The server reads only what the services server has published, so an answer
// never waits for VPP. The same tables are printed by `run --once`, `replay` and
// `show`, by Print.
package inspect
