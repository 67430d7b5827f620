// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Command calico-vpp-services keeps the service translations of a FD.io VPP as
// the objects of a Kubernetes cluster ask. `calico-vpp-services --help` lists
// what else it does.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"calico-vpp-services/vpplink"
	"calico-vpp-services/watchers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// newRoot builds the command tree. Nothing is kept in package variables, so
// tests can run any number of them side by side.
func newRoot() *cobra.Command {
	var level string
	log := logrus.New()
	root := &cobra.Command{
		Use:   "calico-vpp-services",
		Short: "Kubernetes service load balancing on FD.io VPP",
		Long: `calico-vpp-services watches Services and EndpointSlices, decides which address,
port and protocol must lead to which backends on this node, and keeps VPP's cnat
plugin exactly so: through shared addresses, restarts, lost links and drift.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			l, err := logrus.ParseLevel(level)
			if err != nil {
				return fmt.Errorf("--log-level %q: accepted values are %s", level, levelNames())
			}
			log.SetLevel(l)
			log.SetOutput(cmd.ErrOrStderr())
			library := logrus.New()
			library.SetOutput(cmd.ErrOrStderr())
			library.SetLevel(logrus.PanicLevel) // what fails is in the errors of its calls
			if l >= logrus.TraceLevel {
				library.SetLevel(l)
			}
			vpplink.SetLibraryLogger(library)
			watchers.RedirectClientLogs(logrus.NewEntry(log))
			return nil
		},
	}
	root.PersistentFlags().StringVar(&level, "log-level", "info", "how much to log: "+levelNames())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w (see %s --help)", err, cmd.CommandPath())
	})
	entry := logrus.NewEntry(log)
	root.AddCommand(
		newRun(entry), newReplay(entry), newRecord(entry), newShow(), newResync(), newCleanup(entry),
		newVPPSim(entry), newDemo(), newVersion(),
	)
	return root
}

func levelNames() string {
	names := make([]string, 0, len(logrus.AllLevels))
	for _, l := range logrus.AllLevels[2:] { // panic and fatal are no levels to choose
		names = append(names, l.String())
	}
	return strings.Join(names, ", ")
}
