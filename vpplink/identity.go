// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vpplink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"go.fd.io/govpp/binapi/ip"
)

const (
	// markerPrefix begins the name of the table that marks a VPP instance.
	markerPrefix = "calico-vpp-services:"
	// markerTable is the first table id that is tried for the marker: out of the
	// way of ids that people and agents count up from 0.
	markerTable = uint32(0x63767073)
	// markerTries bounds the search for a free table id.
	markerTries = 64
)

// Instance returns the identity of the running VPP: a UUID that lives and dies
// with it. A pid is none (containers reuse them), nor is a connection (VPP may
// be another one after a reconnect, vpp-facts L2, L3).
//
// The UUID is kept in VPP itself, as the name of an IPv6 FIB table that nothing
// uses. fresh is true when the call had to make it: this VPP was
// not programmed by any agent of ours before.
func (s *Session) Instance(ctx context.Context) (id string, fresh bool, err error) {
	var found []string
	used := map[uint32]bool{}
	err = dump(ctx, s, &ip.IPTableDump{}, func(d *ip.IPTableDetails) {
		used[d.Table.TableID] = true
		if name, ok := strings.CutPrefix(strings.TrimRight(d.Table.Name, "\x00"), markerPrefix); ok {
			found = append(found, name)
		}
	})
	if err != nil {
		return "", false, fmt.Errorf("identity of VPP: %w", err)
	}
	if len(found) > 0 {
		// Two agents that start at once may both have made one: all agree on
		// the least.
		return slices.Min(found), false, nil
	}
	id = uuid.NewString()
	for n := range uint32(markerTries) {
		if used[markerTable+n] {
			continue
		}
		reply, err := call[*ip.IPTableAddDelReply](ctx, s, &ip.IPTableAddDel{
			IsAdd: true,
			Table: ip.IPTable{TableID: markerTable + n, IsIP6: true, Name: markerPrefix + id},
		})
		if err == nil {
			err = apiError(reply.Retval)
		}
		if err != nil {
			return "", false, fmt.Errorf("mark VPP with an identity: %w", err)
		}
		return id, true, nil
	}
	return "", false, errors.New("mark VPP with an identity: no free table id")
}

// RemoveInstance takes the identity out of VPP again. To the next agent this VPP
// is one that was never programmed.
func (s *Session) RemoveInstance(ctx context.Context) error {
	var markers []ip.IPTable
	err := dump(ctx, s, &ip.IPTableDump{}, func(d *ip.IPTableDetails) {
		if strings.HasPrefix(d.Table.Name, markerPrefix) {
			markers = append(markers, d.Table)
		}
	})
	if err != nil {
		return fmt.Errorf("identity of VPP: %w", err)
	}
	for _, table := range markers {
		reply, err := call[*ip.IPTableAddDelReply](ctx, s, &ip.IPTableAddDel{Table: table})
		if err == nil {
			err = absentIsFine(apiError(reply.Retval))
		}
		if err != nil {
			return fmt.Errorf("identity of VPP: %w", err)
		}
	}
	return nil
}
