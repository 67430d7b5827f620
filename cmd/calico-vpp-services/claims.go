// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/netip"
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
	// prefixes that external and load balancer IPs may be in, or may not
	externalAllowed, externalDenied         []string
	loadBalancerAllowed, loadBalancerDenied []string
	exempt                                  []string
	refuseNode                              bool
	protected                               []string
	proxyName                               string

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
	f.StringSliceVar(&c.externalAllowed, resolve.FlagExternalIPsAllowed, nil, "prefixes that externalIPs may be in (default: any)")
	f.StringSliceVar(&c.externalDenied, resolve.FlagExternalIPsDenied, nil, "prefixes that externalIPs may not be in, even if allowed (default: none)")
	f.StringSliceVar(&c.loadBalancerAllowed, resolve.FlagLoadBalancerIPsAllowed, nil, "prefixes that load balancer IPs may be in (default: any)")
	f.StringSliceVar(&c.loadBalancerDenied, resolve.FlagLoadBalancerIPsDenied, nil, "prefixes that load balancer IPs may not be in, even if allowed (default: none)")
	f.StringSliceVar(&c.exempt, resolve.FlagGuardExempt, nil, "prefixes in which external and load balancer IPs may be service or pod addresses")
	f.BoolVar(&c.refuseNode, resolve.FlagRefuseNodeAddresses, false, "refuse external and load balancer IPs that are this node's own addresses, on any port")
	f.StringSliceVar(&c.protected, resolve.FlagProtectedNodePorts, portNames(resolve.DefaultProtectedNodePorts()), "ports of this node's own addresses that no external or load balancer IP may take")
	f.StringVar(&c.sourceRanges, resolve.FlagSourceRanges, string(resolve.SourceRangesRefuse), "load balancer IPs whose Service restricts its clients, which VPP cannot do: refuse, ignore")
	f.StringVar(&c.proxyName, resolve.FlagServiceProxyName, "", "serve the Services with this value of the label "+resolve.LabelServiceProxyName+" (default: those without the label)")
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
	for _, p := range []struct {
		flag string
		list []string
		into *[]netip.Prefix
	}{
		{resolve.FlagServiceCIDRs, c.serviceCIDRs, &o.ServiceCIDRs},
		{"virtual-cidr", c.virtualCIDRs, &cfg.VirtualCIDRs},
		{resolve.FlagExternalIPsAllowed, c.externalAllowed, &o.ExternalIPsAllowed},
		{resolve.FlagExternalIPsDenied, c.externalDenied, &o.ExternalIPsDenied},
		{resolve.FlagLoadBalancerIPsAllowed, c.loadBalancerAllowed, &o.LoadBalancerIPsAllowed},
		{resolve.FlagLoadBalancerIPsDenied, c.loadBalancerDenied, &o.LoadBalancerIPsDenied},
		{resolve.FlagGuardExempt, c.exempt, &o.GuardExempt},
	} {
		*p.into, err = resolve.ParsePrefixes(p.list)
		note(p.flag, err)
	}
	o.ExternalIPs, o.RefuseNodeAddresses, o.ServiceProxyName = c.externalIPs, c.refuseNode, c.proxyName
	o.ProtectedNodePorts, err = ports(c.protected)
	note(resolve.FlagProtectedNodePorts, err)
	o.SourceRanges, err = resolve.ParseSourceRangesPolicy(c.sourceRanges)
	note(resolve.FlagSourceRanges, err)
	if err := o.Validate(); err != nil {
		errs = append(errs, err) // it names the flags
	}
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
