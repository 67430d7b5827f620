// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package store is the agent's memory on disk: which translations and routes of
// the running VPP are ours, and what VPP does not tell of them (vpp-facts F5).
//
// It is a log of JSON lines, each with a checksum in front: first a header with
// the format and the VPP that all else is about, then one line for each change, which
// is there whole or not at all. When much of it is out of date it is written
// anew and moved into place.
//
// A database would be the first choice, but must be trusted with a file that
// was damaged: bbolt, tried here, loops for ever or takes all memory on some. What
// this holds fits into memory, and is read once at the start.
//
// It is worth what the VPP of its instance is worth: with another VPP it is
// emptied. What is in VPP is always believed over it. It is not synced to disk:
// a process that is killed loses nothing by that, and a machine that goes down
// takes its VPP along.
//
// The rules for a file that is not as it should be:
//
//   - missing or empty: a new one is made;
//   - not a store, damaged, or of another format: it is set aside under the
//     same name with ".bad" behind it, and a new one is made. An older record could
//     tell a wrong hash, which no dump corrects, so nothing of it is used;
//   - its last line is cut off: that change was never acted upon, and is dropped;
//   - a record in it that makes no sense: it is dropped, the others hold;
//   - in use by another process: an error, for there would be two agents.
//
// Without its record, a translation is adopted when it is wanted, and otherwise
// removed as nobody's (standalone) or left alone as somebody else's (sidecar).
package store
