// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"calico-vpp-services/watchers"
)

func newRecord(log *logrus.Entry) *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Record the watches of a cluster, for replay and for bug reports",
		Long: `record writes all Services, EndpointSlices, Nodes and ServiceCIDRs of a cluster and what
becomes of them to the standard output, one watch event a line in order of arrival, until it is
interrupted. It reads no Secrets and leaves managedFields out. "replay" plays what it wrote.`,
		Example: `  calico-vpp-services record --kubeconfig ~/.kube/config > watch.jsonl`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := watchers.NewClientset(kubeconfig)
			if err != nil {
				return err
			}
			return watchers.Record(cmd.Context(), client, cmd.OutOrStdout(), log)
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "record from the API server of this kubeconfig (default: the cluster that this pod is in)")
	return cmd
}
