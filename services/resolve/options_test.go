// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestParsePrefixes: one parser reads what operators write, strictly, wherever
// a prefix is wanted.
func TestParsePrefixes(t *testing.T) {
	got, err := ParsePrefixes([]string{" 10.96.3.7/16", "2001:db8::1/64 "})
	want := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("2001:db8::/64")}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "10.96.0.0", "010.96.0.0/16", "10.96.0.0/33", "::ffff:10.96.0.0/112", "fe80::%eth0/64"} {
		if _, err := ParsePrefixes([]string{"10.0.0.0/8", bad}); err == nil || !strings.Contains(err.Error(), quote(bad)) {
			t.Errorf("%q: %v", bad, err)
		}
		if _, err := ParseNodePortAddresses([]string{"10.0.0.0/8", bad}); err == nil || !strings.Contains(err.Error(), quote(bad)) {
			t.Errorf("node port addresses %q: %v", bad, err)
		}
	}
}
