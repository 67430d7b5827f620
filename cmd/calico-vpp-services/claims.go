// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"calico-vpp-services/services"
	"calico-vpp-services/services/book"
	"calico-vpp-services/services/resolve"
)

// claimFlags are the choices about what Services may claim, and what becomes
// of what nothing serves.
type claimFlags struct {
	nodePorts    []string
	serviceCIDRs []string
	virtualCIDRs []string
	externalIPs  bool
	allowed      []string
	exempt       []string
	protected    []string
	sourceRanges string
	ownership    string
	reject       string
}

func (c *claimFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&c.nodePorts, resolve.FlagNodePortAddresses, []string{"primary"}, "addresses of this node that serve node ports: primary, all, or CIDRs")
	f.StringSliceVar(&c.serviceCIDRs, resolve.FlagServiceCIDRs, nil, "prefix of ClusterIPs beside those of the ServiceCIDR objects, may be repeated; needed where there are no such objects")
	f.StringSliceVar(&c.virtualCIDRs, "virtual-cidr", nil, "prefix of addresses that only Services have, such as an announced pool of load balancer IPs: what is unserved in it is refused")
	f.BoolVar(&c.externalIPs, resolve.FlagExternalIPs, true, "serve spec.externalIPs of Services")
	f.StringSliceVar(&c.allowed, resolve.FlagExternalIPsAllowed, nil, "prefixes that externalIPs may be in (default: any)")
	f.StringSliceVar(&c.exempt, resolve.FlagGuardExempt, nil, "prefixes in which external and load balancer IPs may be service or pod addresses")
	f.StringSliceVar(&c.protected, resolve.FlagProtectedNodePorts, portNames(resolve.DefaultProtectedNodePorts()), "ports of this node's own addresses that no external or load balancer IP may take")
	f.StringVar(&c.sourceRanges, resolve.FlagSourceRanges, string(resolve.SourceRangesRefuse), "load balancer IPs whose Service restricts its clients, which VPP cannot do: refuse, ignore")
	f.StringVar(&c.ownership, "ownership", string(book.Latest), "which of several Services gets a shared address and port: the latest created, or the oldest")
	f.StringVar(&c.reject, "reject-unserved", "auto", "refuse at once what goes to an unserved service address, by routes: on, off, or auto, which is on in mode standalone")
}

// apply puts the flags into the server's configuration and reports all that is
// wrong with them.
func (c *claimFlags) apply(cfg *services.Config, mode string) error {
	var errs []error
	note := func(flag string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	o := &cfg.Resolve
	var err error
	o.NodePortAddresses, err = resolve.ParseNodePortAddresses(c.nodePorts)
	note(resolve.FlagNodePortAddresses, err)
	o.ServiceCIDRs, err = resolve.ParsePrefixes(c.serviceCIDRs)
	note(resolve.FlagServiceCIDRs, err)
	cfg.VirtualCIDRs, err = resolve.ParsePrefixes(c.virtualCIDRs)
	note("virtual-cidr", err)
	o.ExternalIPs = c.externalIPs
	o.ExternalIPsAllowed, err = resolve.ParsePrefixes(c.allowed)
	note(resolve.FlagExternalIPsAllowed, err)
	o.GuardExempt, err = resolve.ParsePrefixes(c.exempt)
	note(resolve.FlagGuardExempt, err)
	o.ProtectedNodePorts, err = ports(c.protected)
	note(resolve.FlagProtectedNodePorts, err)
	o.SourceRanges, err = resolve.ParseSourceRangesPolicy(c.sourceRanges)
	note(resolve.FlagSourceRanges, err)
	cfg.Ownership, err = book.ParsePolicy(c.ownership)
	note("ownership", err)
	switch c.reject {
	case "auto":
		// Beside Calico's agent, the routes of these prefixes are its own.
		cfg.RejectUnserved = mode != string(services.Sidecar)
	case "on":
		cfg.RejectUnserved = true
	case "off":
		cfg.RejectUnserved = false
	default:
		note("reject-unserved", fmt.Errorf("%q: accepted values are auto, on, off", c.reject))
	}
	return errors.Join(errs...)
}

func ports(list []string) ([]uint16, error) {
	out := []uint16{}
	var errs []error
	for _, s := range list {
		n, err := strconv.ParseUint(s, 10, 16)
		if err != nil || n == 0 {
			errs = append(errs, fmt.Errorf("%q: wanted a port, 1-65535", s))
			continue
		}
		out = append(out, uint16(n))
	}
	return out, errors.Join(errs...)
}

func portNames(list []uint16) []string {
	out := make([]string, len(list))
	for i, p := range list {
		out[i] = strconv.Itoa(int(p))
	}
	return out
}
