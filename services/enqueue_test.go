// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"net/netip"
	"slices"
	"testing"

	"calico-vpp-services/vpplink/types"
)

// TestFlappingKeysWaitOnce: keys that fail on and off faster than their Services
// are told make the queue no longer.
func TestFlappingKeysWaitOnce(t *testing.T) {
	var keys, queue []types.Key
	for i := range 100 {
		keys = append(keys, types.Key{Proto: types.TCP, IP: netip.AddrFrom4([4]byte{10, 96, 0, byte(i)}), Port: 80})
	}
	for range 50 {
		queue = enqueue(queue, keys[50:])
	}
	queue = enqueue(queue, keys)
	if want := append(slices.Clone(keys[50:]), keys[:50]...); !slices.Equal(queue, want) {
		t.Errorf("%d keys wait: %v\nwant %v", len(queue), queue, want)
	}
}
