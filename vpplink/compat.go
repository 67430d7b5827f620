// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vpplink

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"go.fd.io/govpp/adapter"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/feature"
	interfaces "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/memclnt"
	"go.fd.io/govpp/binapi/vpe"

	"calico-vpp-services/vpplink/binapi2606"
)

// requiredMessages are all the messages that this package sends or expects, but
// for those that only give words: what VPP lacks is told at once, not in the
// middle of a round.
//
// feature_cnat_enable_disable is among them also as the mark of 26.06: with no
// change of any CRC, an older VPP gives the NO_NAT path flag another value and
// does not know NO_CLIENT (vpp-facts M2), so it would be programmed wrongly.
func requiredMessages() []api.Message {
	return []api.Message{
		&cnat.CnatTranslationUpdate{}, &cnat.CnatTranslationUpdateReply{},
		&cnat.CnatTranslationDel{}, &cnat.CnatTranslationDelReply{},
		&cnat.CnatTranslationDump{}, &cnat.CnatTranslationDetails{},
		&binapi2606.FeatureCnatEnableDisable{}, &binapi2606.FeatureCnatEnableDisableReply{},
		&feature.FeatureIsEnabled{}, &feature.FeatureIsEnabledReply{},
		&interfaces.SwInterfaceDump{}, &interfaces.SwInterfaceDetails{},
		&ip.IPRouteAddDel{}, &ip.IPRouteAddDelReply{}, &ip.IPRouteDump{}, &ip.IPRouteDetails{},
		&cnat.CnatGetSnatAddresses{}, &cnat.CnatGetSnatAddressesReply{},
		&binapi2606.CnatSetSnatAddressesV2{}, &binapi2606.CnatSetSnatAddressesV2Reply{},
		&binapi2606.CnatSetSnatPolicy{}, &binapi2606.CnatSetSnatPolicyReply{},
		&cnat.CnatSnatPolicyAddDelExcludePfx{}, &cnat.CnatSnatPolicyAddDelExcludePfxReply{},
		&cnat.CnatSnatPolicyAddDelIf{}, &cnat.CnatSnatPolicyAddDelIfReply{},
		&ip.IPTableAddDel{}, &ip.IPTableAddDelReply{}, &ip.IPTableDump{}, &ip.IPTableDetails{},
		&ip.IPAddressDump{}, &ip.IPAddressDetails{},
		&memclnt.ControlPing{}, &memclnt.ControlPingReply{},
		&memclnt.SockclntDelete{}, &memclnt.SockclntDeleteReply{},
	}
}

// messageIDs is the part of a govpp connection that the check needs.
type messageIDs interface {
	GetMessageID(api.Message) (uint16, error)
}

// checkCompatible returns the required messages that VPP lacks, sorted.
func checkCompatible(ids messageIDs) ([]string, error) {
	var missing []string
	for _, m := range requiredMessages() {
		_, err := ids.GetMessageID(m)
		var unknown *adapter.UnknownMsgError
		switch {
		case err == nil:
		case errors.As(err, &unknown):
			missing = append(missing, m.GetMessageName()+"_"+m.GetCrcString())
		default:
			return nil, fmt.Errorf("message table: %w", err)
		}
	}
	sort.Strings(missing)
	return missing, nil
}

// versionOf is only used for words: a VPP without show_version has none.
func versionOf(ctx context.Context, s *Session) string {
	reply, err := call[*vpe.ShowVersionReply](ctx, s, &vpe.ShowVersion{})
	if err != nil {
		s.log.WithError(err).Debug("VPP does not tell its version")
		return ""
	}
	return reply.Version
}
