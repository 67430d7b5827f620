// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package types holds the values that travel between the services server and
// vpplink: a Key names one slot of VPP's cnat plugin, a CnatTranslateEntry is
// everything that VPP is told about that slot, a Translation is what VPP said
// it holds.
//
// The types know nothing of binapi and do no I/O, so every layer above vpplink
// can compare, sort and print them. An entry that passes Validate can neither
// abort VPP (an update without paths does, on 26.06) nor be accepted by it in a form that
// means something else than written (VPP checks neither LB type nor family).
package types
