// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package binapi2606 holds the messages of VPP 26.06 that the bindings of
// govpp v0.13.0, made for 25.10, do not have (vpp-facts M1). All other messages
// have the same CRC on both, so they are taken from govpp.
//
// Each message is a small struct in the shape of a generated one. Fields are
// encoded in wire order; the header (client index and context, or context
// alone) is the codec's business, not theirs.
//
// Call [Register] before the first connection is made.
//
// A govpp stream looks up the type of a reply among the messages registered
// under the import path of the request that was sent last. A dump of this
// package, which is ended by a ping, must therefore be followed by this
// package's [ControlPing], not by govpp's, or the stream knows the type of only
// one of details and ping reply.
package binapi2606
