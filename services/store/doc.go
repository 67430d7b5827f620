// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package store is the agent's memory on disk: which translations and routes of
// the running VPP are ours, and what VPP does not tell of them (vpp-facts F5).
//
//	bucket "meta"          "format": 1, "instance": the VPP that all else is about
//	bucket "translations"  proto;ip;port -> reconcile.Record as JSON
//	bucket "routes"        prefix -> nothing
//	bucket "settings"      name -> what VPP was told and does not tell, as JSON
//
// It is worth what the VPP of its instance is worth: with another VPP it is
// emptied. What is in VPP is always believed over it. It is not synced to disk:
// a process that is killed loses nothing by that, and a machine that goes down
// takes its VPP along.
//
// The rules for a file that is not as it should be:
//
//   - missing: a new one is made;
//   - not a store, damaged, or of another format: it is set aside under the
//     same name with ".bad" behind it, and a new one is made;
//   - a record in it that cannot be read: it is dropped, the others hold;
//   - in use by another process: an error, for there would be two agents.
//
// Without its record, a translation is adopted when it is wanted, and otherwise
// removed as nobody's (standalone) or left alone as somebody else's (sidecar).
package store
