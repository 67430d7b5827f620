// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"calico-vpp-services/inspect"
	"calico-vpp-services/services"
)

func newShow() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Ask a running agent what it holds",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newShowTranslations())
	return cmd
}

func newShowTranslations() *cobra.Command {
	var socket, output string
	cmd := &cobra.Command{
		Use:   "translations",
		Short: "List every claimed address, port and protocol: owner, state, backends, who waits",
		Example: `  calico-vpp-services show translations
  calico-vpp-services show translations -o wide
  calico-vpp-services show translations -o json | jq '.[] | select(.state=="failed")'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			format, err := inspect.ParseFormat(output, inspect.Table, inspect.Wide, inspect.JSON, inspect.YAML)
			if err != nil {
				return fmt.Errorf("-o: %w", err)
			}
			client := inspect.NewClient(socket)
			defer client.Close()
			rows, err := client.Translations(cmd.Context())
			if err != nil {
				return err
			}
			if err := inspect.Print(cmd.OutOrStdout(), format, rows); err != nil {
				return err
			}
			st, err := client.Status(cmd.Context())
			if err != nil {
				return err
			}
			return warnStatus(cmd.ErrOrStderr(), &st)
		},
	}
	adminSocketFlag(cmd, &socket)
	cmd.Flags().StringVarP(&output, "output", "o", "table", "form of the output: table, wide, json, yaml")
	return cmd
}

// warnStatus says why a table may not be the whole truth.
func warnStatus(w io.Writer, st *services.Status) error {
	var err error
	switch {
	case !st.Synced:
		_, err = fmt.Fprintf(w, "the agent is still waiting for the first complete list of: %v\n", st.WaitingFor)
	case !st.Connected:
		_, err = fmt.Fprintf(w, "the agent is not connected to VPP: %s\n", st.LinkError)
	case st.DataplaneError != "":
		_, err = fmt.Fprintf(w, "VPP beside its translations: %s\n", st.DataplaneError)
	}
	return err
}

func newResync() *cobra.Command {
	var socket string
	cmd := &cobra.Command{
		Use:   "resync",
		Short: "Have a running agent dump VPP now and mend what differs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client := inspect.NewClient(socket)
			defer client.Close()
			st, err := client.Resync(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "dumped and compared: %d keys claimed, %d found otherwise than left since the agent started\n", st.Keys, st.Drift)
			return err
		},
	}
	adminSocketFlag(cmd, &socket)
	return cmd
}

func adminSocketFlag(cmd *cobra.Command, socket *string) {
	cmd.Flags().StringVar(socket, "admin-socket", inspect.DefaultSocket(), "the agent's admin socket")
}
