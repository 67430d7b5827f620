// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	tomb "gopkg.in/tomb.v2"

	"calico-vpp-services/services"
	"calico-vpp-services/services/resolve"
	"calico-vpp-services/services/store"
	"calico-vpp-services/vpplink"
	"calico-vpp-services/vppsim"
)

// stopTimeout bounds the whole of a shutdown.
const stopTimeout = 10 * time.Second

// nodeFlags say which node this is.
type nodeFlags struct {
	name string
	ips  []string
}

func (n *nodeFlags) register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&n.name, "node-name", "", "name of this node's Node object (default $NODENAME, else the host name)")
	cmd.Flags().StringSliceVar(&n.ips, "node-ip", nil, "address of this node, may be repeated, the primary one of each family first (default: from the Node object)")
}

// apply puts the flags into the server's configuration.
func (n *nodeFlags) apply(cfg *services.Config) error {
	var errs []error
	for _, s := range n.ips {
		a, err := netip.ParseAddr(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("--node-ip %q: wanted an IPv4 or IPv6 address", s))
			continue
		}
		a = a.Unmap()
		if why := resolve.Special(a); why != "" {
			errs = append(errs, fmt.Errorf("--node-ip %s: %s; wanted an address of this node that others can reach", s, why))
			continue
		}
		if a.Zone() != "" {
			errs = append(errs, fmt.Errorf("--node-ip %s: wanted an address without a zone", s))
			continue
		}
		cfg.NodeIPs = append(cfg.NodeIPs, a)
	}
	cfg.NodeName = n.name
	if cfg.NodeName == "" {
		cfg.NodeName = os.Getenv("NODENAME")
	}
	if cfg.NodeName == "" {
		var err error
		if cfg.NodeName, err = nodeNameOf(os.Hostname()); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// nodeNameOf makes a host name the name of a Node, as the kubelet does: that of a
// Node has no capitals.
func nodeNameOf(host string, err error) (string, error) {
	host = strings.ToLower(strings.TrimSpace(host))
	if err == nil && host == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", fmt.Errorf("--node-name: not given, and there is no host name: %w", err)
	}
	return host, nil
}

// vppFlags say which VPP to program, and what in it is ours.
type vppFlags struct {
	socket string
	kind   string
	wait   time.Duration
	mode   string
	state  string
}

func (v *vppFlags) register(cmd *cobra.Command, kind string) {
	f := cmd.Flags()
	f.StringVar(&v.socket, "vpp-api-socket", "", "path of VPP's API socket (default "+vpplink.DefaultSocket+")")
	f.StringVar(&v.kind, "vpp", kind, "\"embedded\" programs a simulator of VPP's API inside this process instead of a VPP")
	f.DurationVar(&v.wait, "vpp-wait", 10*time.Second, "how long to wait for VPP at the start; 0 is one try")
	f.StringVar(&v.mode, "mode", string(services.Standalone), "standalone: every translation in VPP is ours; sidecar: another agent, such as Calico's own, has translations there that are left alone")
	f.StringVar(&v.state, "state-file", "", "file that remembers what is ours in VPP, with a name in "+store.Suffix+" (default "+store.DefaultPath("SOCKET")+", SOCKET being VPP's API socket)")
	if kind == "" {
		cmd.MarkFlagsMutuallyExclusive("vpp-api-socket", "vpp")
	}
}

func (v *vppFlags) embedded() (bool, error) {
	switch {
	case v.socket != "":
		return false, nil
	case v.kind == "embedded":
		return true, nil
	case v.kind == "":
		return false, nil
	}
	return false, fmt.Errorf("--vpp %q: the accepted value is embedded; for a running VPP give --vpp-api-socket", v.kind)
}

// agent is everything that runs in one process, wired up.
type agent struct {
	log    *logrus.Entry
	sim    *vppsim.Sim // nil with a real VPP
	simDir string
	link   vpplink.Config
	store  *store.Store // nil with the embedded simulator
	server *services.Server

	// sources and server run under work, the link under conn: VPP is let go
	// last, when nobody writes any more.
	work, conn tomb.Tomb
}

// newAgent reaches VPP, once, and builds the servers. stop must be called on
// what it returns.
func newAgent(ctx context.Context, log *logrus.Entry, vpp vppFlags, cfg services.Config) (*agent, error) {
	a := &agent{log: log}
	if err := a.start(ctx, vpp, cfg); err != nil {
		a.closeSim()
		return nil, errors.Join(err, a.closeStore())
	}
	return a, nil
}

func (a *agent) start(ctx context.Context, vpp vppFlags, cfg services.Config) error {
	embedded, err := vpp.embedded()
	if err != nil {
		return err
	}
	if vpp.mode != "" {
		if cfg.Mode, err = services.ParseMode(vpp.mode); err != nil {
			return fmt.Errorf("--mode: %w", err)
		}
	}
	socket := vpp.socket
	if embedded {
		if socket, err = a.startSim(cfg.NodeIPs); err != nil {
			return err
		}
	} else {
		if socket == "" {
			socket = vpplink.DefaultSocket
		}
		// It also sees to it that no two agents program one VPP.
		if err := a.openStore(vpp.state, socket); err != nil {
			return err
		}
		cfg.Store = a.store
	}
	a.link = vpplink.DefaultConfig(socket)
	a.link.Log = a.log.WithField("part", "vpplink")
	first, err := connect(ctx, a.link, vpp.wait)
	if err != nil {
		return err
	}
	link := vpplink.NewLink(a.link, first)
	a.server, err = services.NewServer(cfg, link, a.log.WithField("part", "services"))
	if err != nil {
		first.Close()
		return err
	}
	a.conn.Go(func() error { return link.Serve(&a.conn) })
	a.work.Go(func() error { return a.server.ServeService(&a.work) })
	return nil
}

// connect tries to reach VPP until wait is over, at least once. A VPP that can't be
// programmed, or may not be, is no reason to wait.
func connect(ctx context.Context, cfg vpplink.Config, wait time.Duration) (*vpplink.Session, error) {
	over := time.NewTimer(max(wait, 0))
	defer over.Stop()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	said := false
	for {
		// A try has timeouts of its own: one that wait cut off could not say why.
		s, err := vpplink.Connect(ctx, cfg)
		if err == nil || errors.Is(err, vpplink.ErrIncompatible) || errors.Is(err, vpplink.ErrPermission) {
			return s, err
		}
		if !said && wait > 0 {
			said = true
			cfg.Log.WithError(err).Infof("waiting up to %s for VPP", wait)
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-over.C:
			return nil, err
		case <-tick.C:
		}
	}
}

// startSim starts the embedded simulator on a socket in a directory of its own.
func (a *agent) startSim(nodeIPs []netip.Addr) (socket string, err error) {
	if a.simDir, err = os.MkdirTemp("", "vpp-sim-"); err != nil {
		return "", fmt.Errorf("embedded VPP: %w", err)
	}
	cfg := vppsim.Config{Socket: filepath.Join(a.simDir, "api.sock"), Log: a.log.WithField("part", "vppsim")}
	for _, ip := range nodeIPs {
		cfg.NodeAddresses = append(cfg.NodeAddresses, netip.PrefixFrom(ip, ip.BitLen()))
	}
	if a.sim, err = vppsim.New(cfg); err != nil {
		return "", fmt.Errorf("embedded VPP: %w", err)
	}
	return cfg.Socket, nil
}

// openStore opens the memory of what is ours in the VPP with that API socket.
func (a *agent) openStore(path, socket string) (err error) {
	if path == "" {
		path = store.DefaultPath(socket)
	}
	if a.store, err = store.Open(path); err != nil {
		return fmt.Errorf("%w (see --state-file)", err)
	}
	if r := a.store.Report(); r.SetAside != "" {
		a.log.WithField("setAside", r.SetAside).Info("starting with a new state file")
	}
	return nil
}

func (a *agent) closeStore() error {
	if a.store == nil {
		return nil
	}
	return a.store.Close()
}

func (a *agent) closeSim() {
	if a.sim != nil {
		a.sim.Close()
	}
	if a.simDir != "" {
		if err := os.RemoveAll(a.simDir); err != nil {
			a.log.WithError(err).Warn("embedded VPP: leftovers")
		}
	}
}

// run has one more server run beside the services server; when one ends with
// an error, all end.
func (a *agent) run(serve func(*tomb.Tomb) error) {
	a.work.Go(func() error { return serve(&a.work) })
}

// wait returns when ctx ends, or when a server failed; stop then says why.
func (a *agent) wait(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-a.work.Dying():
	}
}

// stop ends the servers, then the connection to VPP, whose translations stay.
func (a *agent) stop() error {
	a.work.Kill(nil)
	err := waitTomb(&a.work, "servers")
	a.conn.Kill(nil)
	err = errors.Join(err, waitTomb(&a.conn, "connection to VPP"), a.closeStore())
	a.closeSim()
	return err
}

func waitTomb(t *tomb.Tomb, what string) error {
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-t.Dead():
		return t.Err()
	case <-timer.C:
		return fmt.Errorf("%s: still not ended after %s", what, stopTimeout)
	}
}

// finish stops the agent and adds what that says to err.
func (a *agent) finish(err *error) { *err = errors.Join(*err, a.stop()) }
