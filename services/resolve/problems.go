// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package resolve

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	netutils "k8s.io/utils/net"

	"calico-vpp-services/services/model"
)

// maxProblems bounds what one object is told for one reason; the rest is
// counted. It is by reason, so that a thousand bad endpoints do not hide the
// typo in an annotation.
const maxProblems = 20

// problemList collects problems in any order and number.
type problemList struct{ list []model.Problem }

func (p *problemList) add(reason model.Reason, field, format string, args ...any) {
	p.list = append(p.list, model.Problem{Reason: reason, Field: field, Message: fmt.Sprintf(format, args...)})
}

// sorted returns the problems sorted, each once, and not too many.
func (p *problemList) sorted() []model.Problem {
	slices.SortFunc(p.list, model.Problem.Compare)
	all := slices.Compact(p.list)
	count := map[model.Reason]int{}
	var out []model.Problem
	for _, problem := range all {
		count[problem.Reason]++
		switch n := count[problem.Reason]; {
		case n > maxProblems+1:
			continue
		case n == maxProblems+1:
			// Without their number, which would make it a new problem, and a new
			// Event, with each pod that comes or goes.
			problem.Field, problem.Message = "", fmt.Sprintf("more than %d problems like these; the others are not told", maxProblems)
		}
		out = append(out, problem)
	}
	slices.SortFunc(out, model.Problem.Compare)
	return out
}

// fieldAt returns the path of element i of a list, or of its field named sub.
func fieldAt(list string, i int, sub string) string {
	at := list + "[" + strconv.Itoa(i) + "]"
	if sub != "" {
		at += "." + sub
	}
	return at
}

// quote prints a value that somebody typed, if it is long its beginning.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	return strconv.Quote(s)
}

// parseIP reads an address as stored objects may have it: with leading zeros,
// or as IPv4 in IPv6 (A7).
func parseIP(s string) (netip.Addr, bool) {
	a, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(s))
	return a.Unmap(), ok
}

// parseCIDR reads a prefix as stored objects may have it: with leading zeros, or
// with host bits (A7). What an operator writes is read by ParsePrefix.
func parseCIDR(s string) (netip.Prefix, bool) {
	_, n, err := netutils.ParseCIDRSloppy(s)
	if err != nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	ones, bits := n.Mask.Size()
	if bits == 128 && a.Is4In6() { // ::ffff:192.0.2.0/120
		ones -= 96
	}
	p, err := a.Unmap().Prefix(ones)
	return p, ok && err == nil
}

// Special names what makes an address one that no Service, endpoint or node
// can be reached at from elsewhere, such as "a loopback address"; empty for an
// ordinary one.
func Special(ip netip.Addr) string {
	switch {
	case ip.IsUnspecified():
		return "the unspecified address"
	case ip.IsLoopback():
		return "a loopback address"
	case ip.IsLinkLocalUnicast():
		return "a link-local address"
	case ip.IsMulticast():
		return "a multicast address"
	case ip == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "the broadcast address"
	}
	return ""
}
