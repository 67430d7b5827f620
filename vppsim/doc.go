// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package vppsim is a simulator of the binary API of VPP 26.06, as far as
// Kubernetes services need it.
//
//	govpp socketclient ──unix socket──> server.go ──frames──> dispatch.go ─┬─> cnat.go, snat.go, sessions.go
//	                                                          faults.go ───┤   fib.go, routes.go, interfaces.go
//	tests, "explain" ──> inspect.go, trace.go ─────────────────────────────┴─> instance (one life of VPP)
//
// It is a server on a unix socket that speaks VPP's socket transport, so that
// production client code runs on it unmodified. It is neither a dataplane nor a
// mock inside the client: a test talks to it as to VPP and then asks it what
// VPP would now hold ([Sim.Translations], [Sim.SNAT], [Sim.Routes]), what it was
// asked ([Sim.Calls]) and where a packet would go ([Sim.Trace], [Sim.Send]).
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
// messages that kill VPP (F6, F10, SNAT calls before there is a SNAT address),
// what is not checked (F7), the flags of an address (C1 to C3), the table name
// as the only marker of an instance (L3), a feature that must not be enabled
// twice, flows that stay as they began (S1).
//
// testdata/contract.txt is the account of them: conversations that a real VPP
// 26.06 and the simulator answer with the same words. With a vpp on PATH, or in
// VPP_BIN, the tests hold them with both, and send the same packets through both;
// what differs is a bug of the simulator. -update rewrites the account.
//
// # What it is not
//
// Which of several backends a flow gets is not VPP's choice, only made from the
// same fields. Time does not pass: [Sim.Sweep] and [Sim.Expire] stand for the
// scanner and for age. Packets have no neighbours to be resolved, and are
// traced in the default table only.
//
// # Faults
//
// [Sim.SetFaults] makes writes fail by chance, by key or by count, drops
// replies, cuts links and kills the VPP before or after it applied a message.
// [Sim.Stall], [Sim.DropLink] and [Sim.Restart] do at once what they say. Every
// fault is counted ([Sim.Injected]); chance comes from [Sim.Seed].
package vppsim
