// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package vppsim is a simulator of the binary API of VPP 26.06, as far as
// Kubernetes services need it.
//
//	govpp socketclient ──unix socket──> server.go ──frames──> dispatch.go ─┬─> cnat.go, snat.go
//	                                                          faults.go ───┤   routes.go, interfaces.go
//	                                                                       └─> instance (one life of VPP)
//
// It is a server on a unix socket that speaks VPP's socket transport, so that
// production client code runs on it unmodified. It is neither a dataplane nor a
// mock inside the client: a test talks to it as to VPP and then asks it what
// VPP would now hold ([Sim.Translations]), what it was asked ([Sim.Calls]) and
// where a packet would go ([Sim.Trace]).
//
// # What it holds
//
// Everything that VPP forgets when it dies is in one instance. [Sim.Restart]
// makes a new one, with other message ids. One request is handled at a time, in
// the order of arrival, and the replies of a client leave in that order, as on
// VPP's main thread.
//
// # Quirks
//
// The simulator behaves as VPP was measured to behave, not as one would like
// it to. Each quirk has a comment that names the fact and a test that would
// notice its fix: the slot per key (F1), ids handed out again (F2), what is
// taken at creation only (F3), the purge (F4), what a dump leaves out (F5), the
// message that kills VPP (F6, F10), what is not checked (F7), the flags of an
// address (C1 to C3), the table name as the only marker of an instance (L3).
//
// # Faults
//
// [Sim.SetFaults] makes writes fail by chance, by key or by count, drops
// replies, cuts links and kills the VPP before or after it applied a message.
// [Sim.Stall], [Sim.DropLink] and [Sim.Restart] do at once what they say. Every
// fault is counted ([Sim.Injected]); chance comes from [Sim.Seed].
package vppsim
