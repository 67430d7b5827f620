// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"calico-vpp-services/vppsim"
)

func newVPPSim(log *logrus.Entry) *cobra.Command {
	var (
		cfg       vppsim.Config
		addresses []string
		fail      float64
	)
	cmd := &cobra.Command{
		Use:   "vpp-sim",
		Short: "Run the simulator of VPP's binary API on a socket of its own",
		Long: `vpp-sim answers on a unix socket as the binary API of VPP 26.06 does, as far as
services need it, with VPP's quirks. It forwards no packets. Point an agent at it with
--vpp-api-socket. It runs until interrupted, or until a message comes that would have
killed a real VPP.`,
		Example: `  calico-vpp-services vpp-sim --socket /tmp/vpp.sock &
  calico-vpp-services run --manifests yaml/demo --node-name node-a --vpp-api-socket /tmp/vpp.sock`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cfg.Socket == "" {
				return errors.New("--socket: give the path of the socket to answer on")
			}
			if fail < 0 || fail > 1 {
				return fmt.Errorf("--fail %v: wanted a probability, 0 to 1", fail)
			}
			for _, a := range addresses {
				p, err := netip.ParsePrefix(a)
				if err != nil {
					return fmt.Errorf("--address %q: wanted address/length, such as 192.0.2.11/24", a)
				}
				cfg.NodeAddresses = append(cfg.NodeAddresses, p)
			}
			cfg.Log = log
			sim, err := vppsim.New(cfg)
			if err != nil {
				return err
			}
			defer sim.Close()
			sim.SetFaults(vppsim.Faults{FailProbability: fail})
			log.WithFields(logrus.Fields{"socket": sim.Socket(), "seed": sim.Seed()}).Info("simulating VPP")
			select {
			case <-cmd.Context().Done():
				return nil
			case <-sim.CrashC():
				return fmt.Errorf("VPP would have died: %s", sim.Crashed())
			}
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Socket, "socket", "", "path of the API socket to make (required)")
	f.Uint64Var(&cfg.Seed, "seed", 0, "seed of faults and message ids; 0 picks one and logs it")
	f.StringSliceVar(&addresses, "address", nil, "addresses of the simulated uplink, such as 192.0.2.11/24")
	f.Float64Var(&fail, "fail", 0, "probability, 0 to 1, that a write is answered with an error")
	return cmd
}
