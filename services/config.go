// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package services

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"calico-vpp-services/services/book"
	"calico-vpp-services/services/reconcile"
	"calico-vpp-services/services/resolve"
)

// Config configures a Server; DefaultConfig fills it.
type Config struct {
	// NodeName is the name of this node's Node object; endpoints with it are
	// local.
	NodeName string
	// NodeIPs, when not empty, are this node's addresses, the primary one of
	// each family first, whatever the Node object says.
	NodeIPs []netip.Addr
	// Sources are the names of the watchers whose first complete list is
	// waited for before anything is written.
	Sources []string
	// Mode says what in VPP is ours to change.
	Mode Mode
	// Store, when not nil, remembers what is ours in VPP, so that a restart of
	// the agent makes no write that need not be. In mode sidecar, an agent without
	// one takes what it left in VPP before for somebody else's.
	Store Store
	// CleanupOnExit has the server remove what is ours from VPP when it ends.
	CleanupOnExit bool
	// Ownership chooses between Services that claim one key.
	Ownership book.Policy
	// Resolve has the choices about what a Service may claim.
	Resolve resolve.Options
	// RejectUnserved has VPP refuse what goes to service CIDRs and other virtual
	// addresses and is not served, by unreachable routes.
	RejectUnserved bool
	// VirtualCIDRs are prefixes of addresses that only Services have, such as
	// the pool of a load balancer that is announced to the network.
	VirtualCIDRs []netip.Prefix
	// APIServerGrace is how long the last backends of default/kubernetes are kept
	// when it has none: an API server that restarts must be found again by that
	// way. 0 is not at all.
	APIServerGrace time.Duration
	// HealthPorts, when not nil, answers load balancers on the health check node
	// ports of Services.
	HealthPorts HealthPorts
	// Reporter, when not nil, tells the authors of Services what is wrong with
	// them; it is in the log in any case.
	Reporter Reporter
	// Latency, when not nil, takes samples of how long changes took to reach VPP.
	Latency Latency
	// Dataplane is what to see to in VPP beside translations.
	Dataplane Dataplane
	// BatchWindow is how long a round waits for more events after the
	// first one, so that a burst costs one round.
	BatchWindow time.Duration
	// ResyncPeriod is how often VPP is dumped and compared; 0 means never.
	ResyncPeriod time.Duration
	// Reconcile has the times of retries.
	Reconcile reconcile.Config
}

// DefaultConfig returns the configuration for a node.
func DefaultConfig(nodeName string) Config {
	return Config{
		NodeName:       nodeName,
		Mode:           Standalone,
		Ownership:      book.Latest,
		Resolve:        resolve.DefaultOptions(),
		RejectUnserved: true,
		APIServerGrace: 5 * time.Minute,
		BatchWindow:    20 * time.Millisecond,
		ResyncPeriod:   60 * time.Second,
		Reconcile:      reconcile.DefaultConfig(),
	}
}

// Validate reports every wrong field at once.
func (c *Config) Validate() error {
	var errs []error
	if c.NodeName == "" {
		errs = append(errs, errors.New("node name: empty; give the name of this node's Node object"))
	}
	for _, a := range c.NodeIPs {
		if !a.IsValid() || a.IsUnspecified() || a.IsMulticast() || a.Zone() != "" || a.Is4In6() {
			errs = append(errs, fmt.Errorf("node IP %s: wanted an address of this node", a))
		}
	}
	if _, err := ParseMode(string(c.Mode)); err != nil {
		errs = append(errs, err)
	}
	if len(c.Sources) == 0 {
		errs = append(errs, errors.New("sources: none; nothing would ever be written"))
	}
	if _, err := book.ParsePolicy(string(c.Ownership)); err != nil {
		errs = append(errs, err)
	}
	for _, p := range slices.Concat(c.VirtualCIDRs, c.Resolve.ServiceCIDRs) {
		if !p.IsValid() || p.Bits() == 0 || p.Addr().Is4In6() {
			errs = append(errs, fmt.Errorf("service or virtual CIDR %s: wanted address/length, and not all addresses", p))
		}
	}
	if err := c.Dataplane.validate(); err != nil {
		errs = append(errs, err)
	}
	if err := c.Resolve.Validate(); err != nil {
		errs = append(errs, err)
	}
	if c.BatchWindow < 0 || c.BatchWindow > time.Second {
		errs = append(errs, fmt.Errorf("batch window %s: wanted 0s to 1s", c.BatchWindow))
	}
	if c.APIServerGrace < 0 {
		errs = append(errs, fmt.Errorf("API server grace %s: wanted 0s (none) or more", c.APIServerGrace))
	}
	if c.ResyncPeriod < 0 {
		errs = append(errs, fmt.Errorf("resync period %s: wanted 0s (never) or more", c.ResyncPeriod))
	}
	return errors.Join(errs...)
}
