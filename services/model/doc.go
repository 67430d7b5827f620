// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package model holds the words that the stages of the services server share:
//
//	watchers --Event--> resolve --Claim--> book --Claim--> reconcile
//
// An Event carries an object as it is now, never a difference. A Claim says
// that a service id wants a Key with an entry. A Problem is something that the
// author of an object should hear about; it never stops other services. A
// TranslationState is what users see of one key.
//
// The package has no behaviour beyond comparing and printing, so every stage
// may import it and it imports none of them.
package model
