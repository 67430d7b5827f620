// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"calico-vpp-services/services"
	"calico-vpp-services/services/store"
)

func newCleanup(log *logrus.Entry) *cobra.Command {
	var vpp vppFlags
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove from VPP what an agent that has ended left there",
		Long: `cleanup removes the translations and routes that are ours from VPP: in mode sidecar
those that the state file lists, in mode standalone every translation that there is. It
refuses to while an agent runs; that one does it by itself with run --cleanup-on-exit.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			calls, err := cleanup(cmd.Context(), log, vpp)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "removed %d translations\n", calls)
			return err
		},
	}
	vpp.register(cmd, "")
	return cmd
}

// cleanup runs a server that hears of no object and removes what is ours as it
// ends.
func cleanup(ctx context.Context, log *logrus.Entry, vpp vppFlags) (removed uint64, err error) {
	if embedded, err := vpp.embedded(); err != nil || embedded {
		return 0, errors.Join(err, errors.New("cleanup: wanted a running VPP; give --vpp-api-socket"))
	}
	cfg := services.DefaultConfig("cleanup")
	cfg.Sources, cfg.CleanupOnExit = []string{"none"}, true
	a, err := newAgent(ctx, log, vpp, cfg)
	if errors.Is(err, store.ErrLocked) {
		return 0, fmt.Errorf("cleanup: an agent is running; end it first, or run it with --cleanup-on-exit: %w", err)
	}
	if err != nil {
		return 0, err
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	// VPP has answered by now; what is left to wait for is a dump.
	deadline := time.After(max(vpp.wait, stopTimeout))
	for !a.server.Status().Connected {
		select {
		case <-tick.C:
			continue
		case <-deadline:
		case <-ctx.Done():
		}
		break // stop says that VPP is not connected
	}
	err = a.stop()
	return a.link.Counters.Read().Del, err
}
