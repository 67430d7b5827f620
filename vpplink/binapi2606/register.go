// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package binapi2606

import (
	"sync"

	"go.fd.io/govpp/api"
)

var registerOnce sync.Once //nolint:gochecknoglobals // govpp's registry, which it guards, is one for the process

// Register makes the messages known to govpp. It may be called any number of
// times, but the first call must be over before a connection is made: govpp
// asks VPP for the ids of the registered messages while it connects, and later
// drops every reply whose id belongs to none of them. govpp's registry has no
// lock, which is the other reason to be early.
//
// Generated bindings do this in init; here it is a call, so that importing a
// type changes nothing.
func Register() {
	registerOnce.Do(func() {
		for _, m := range messages() {
			api.RegisterMessage(m.msg, m.goName)
		}
	})
}

type named struct {
	msg    api.Message
	goName string
}

// messages lists every message of the package.
func messages() []named {
	return []named{
		{new(FeatureCnatEnableDisable), "FeatureCnatEnableDisable"},
		{new(FeatureCnatEnableDisableReply), "FeatureCnatEnableDisableReply"},
		{new(CnatSetSnatAddressesV2), "CnatSetSnatAddressesV2"},
		{new(CnatSetSnatAddressesV2Reply), "CnatSetSnatAddressesV2Reply"},
		{new(CnatSnatAddressesDump), "CnatSnatAddressesDump"},
		{new(CnatSnatAddressesDetails), "CnatSnatAddressesDetails"},
		{new(CnatSetSnatPolicy), "CnatSetSnatPolicy"},
		{new(CnatSetSnatPolicyReply), "CnatSetSnatPolicyReply"},
		{new(CnatSessionDump), "CnatSessionDump"},
		{new(CnatSessionDetails), "CnatSessionDetails"},
		{new(ControlPing), "ControlPing"},
		{new(ControlPingReply), "ControlPingReply"},
	}
}
