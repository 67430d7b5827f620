// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package vpplink speaks VPP's binary API for everything above it. Callers use
// the values of vpplink/types and this package's verbs; no binapi type leaves it.
//
//	Link ──keeps one──> Session ──govpp──> VPP's API socket
//	  └──Events: Up(session), Down(error)
//
// A Session is one connection to one running VPP. It never reconnects: message
// ids, translation ids and replies under way all belong to it, and when it ends
// they end with it. A handle from before can then not reach the next VPP, which
// is how a stale translation id is kept from deleting somebody else's translation
// (vpp-facts F2), and a stale message id from crashing a VPP with other plugins.
// Link makes the next Session, without limit and with back-off.
//
// Every call has a deadline. A call whose reply did not come in time ends its
// Session: govpp matches replies to requests by channel, so a late reply could be
// taken for the answer to another request. What such a call did in VPP is
// unknown; the next Session begins with a dump.
//
// Entries are validated before they are encoded, since VPP validates nothing
// (F7) and aborts on an update without paths (F6).
package vpplink
