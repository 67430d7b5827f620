// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"fmt"
	"net/netip"
	"slices"

	netutils "k8s.io/utils/net"

	"calico-vpp-services/services/model"
)

// maxProblems bounds what one object is told; what is beyond is counted.
const maxProblems = 20

// problemList collects problems.
type problemList struct{ list []model.Problem }

func (p *problemList) add(reason model.Reason, field, format string, args ...any) {
	p.list = append(p.list, model.Problem{Reason: reason, Field: field, Message: fmt.Sprintf(format, args...)})
}

// sorted returns the problems sorted, each once, and not too many.
func (p *problemList) sorted() []model.Problem {
	slices.SortFunc(p.list, model.Problem.Compare)
	out := slices.Compact(p.list)
	if more := len(out) - maxProblems; more > 0 {
		last := out[maxProblems]
		last.Message = fmt.Sprintf("and %d more problems", more)
		out = append(out[:maxProblems:maxProblems], last)
	}
	return out
}

func field(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// parseIP reads an address as stored objects may have it: with leading zeros,
// or as IPv4 in IPv6 (A7).
func parseIP(s string) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(s))
	return a.Unmap(), ok
}
