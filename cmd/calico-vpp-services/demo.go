// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"calico-vpp-services/inspect"
	"calico-vpp-services/services"
	"calico-vpp-services/services/model"
	"calico-vpp-services/vpplink"
	"calico-vpp-services/yaml"
)

const (
	demoNode     = "node-a"
	demoAddress  = "198.51.100.10"
	demoOwner    = "60-sale-b.yaml"
	demoHeir     = model.ServiceID("shop/sale-a")
	demoDeadline = 10 * time.Second
)

func newDemo() *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Show the main job on a small shop: no root, no cluster, no VPP",
		Long: `demo writes the manifests of yaml/demo to a temporary directory, runs the agent on them with
the embedded simulator of VPP's API, and shows what it programs. Then it deletes the Service
that owns an address which another one claims too, and shows the takeover.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return demo(cmd.Context(), cmd.OutOrStdout()) },
	}
}

func demo(ctx context.Context, w io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, demoDeadline)
	defer cancel()
	dir, err := os.MkdirTemp("", "calico-vpp-services-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	files, err := fs.Sub(yaml.DemoFiles, "demo")
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, files); err != nil {
		return err
	}
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	log := logrus.NewEntry(quiet)
	cfg := services.DefaultConfig(demoNode)
	in, err := (&inputFlags{manifests: dir}).open(&cfg)
	if err != nil {
		return err
	}
	cfg.ResyncPeriod = 0
	a, err := newAgent(ctx, log, vppFlags{kind: "embedded", wait: demoDeadline}, cfg)
	if err != nil {
		return err
	}
	defer a.finish(&err)

	fmt.Fprintf(w, "1. A small shop (yaml/demo) on %s, with VPP's API simulated in this process:\n\n", demoNode)
	if err := in.serve(a, &cfg); err != nil {
		return err
	}
	if err := a.server.Settle(ctx); err != nil {
		return err
	}
	before, err := demoStep(w, a, vpplink.Calls{})
	if err != nil {
		return err
	}

	fmt.Fprintf(w, "2. shop/sale-b, which owns %s port 443, is deleted. %s takes over:\n\n", demoAddress, demoHeir)
	if err := os.Remove(filepath.Join(dir, demoOwner)); err != nil {
		return err
	}
	if err := awaitOwner(ctx, a, demoHeir); err != nil {
		return err
	}
	if err := a.server.Settle(ctx); err != nil {
		return err
	}
	_, err = demoStep(w, a, before)
	return err
}

// demoStep prints the table, and the calls since the ones given.
func demoStep(w io.Writer, a *agent, since vpplink.Calls) (vpplink.Calls, error) {
	now := a.link.Counters.Read()
	if err := inspect.Print(w, inspect.Table, a.server.Translations()); err != nil {
		return now, err
	}
	calls := now.Sub(since)
	_, err := fmt.Fprintf(w, "\nVPP calls in this step: %d update, %d delete, %d dump\n\n", calls.Update, calls.Del, calls.Dump)
	return now, err
}

// awaitOwner waits until id has the shared address.
func awaitOwner(ctx context.Context, a *agent, id model.ServiceID) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, r := range a.server.Translations() {
			if r.IP == demoAddress && r.Service == id {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s has not taken over: %w", id, ctx.Err())
		case <-tick.C:
		}
	}
}
