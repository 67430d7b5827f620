// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"calico-vpp-services/services/model"
)

// TestProblemsNameFlags: each name that a Problem may give is a flag of run.
func TestProblemsNameFlags(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../services/resolve/options.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	flags := newRun(logrus.NewEntry(quiet)).Flags()
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Flag") || len(spec.Values) != 1 {
			return true
		}
		lit, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		name, err := strconv.Unquote(lit.Value)
		if err != nil || flags.Lookup(name) == nil {
			t.Errorf("%s is %s, which is no flag of run", spec.Names[0].Name, lit.Value)
		}
		n++
		return true
	})
	if n == 0 {
		t.Error("no name was checked")
	}
}

// claimManifests has a Service of the cluster's default proxy with external IPs
// and a load balancer IP, and one that is for another proxy.
const claimManifests = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.1
  clusterIPs: [10.96.0.1]
  ipFamilies: [IPv4]
  externalIPs: [198.51.100.1, 198.51.100.2, 192.0.2.11]
  ports: [{port: 80, protocol: TCP}]
status: {loadBalancer: {ingress: [{ip: 203.0.113.1}, {ip: 203.0.113.2}]}}
---
apiVersion: v1
kind: Service
metadata: {name: vpp, namespace: shop, labels: {service.kubernetes.io/service-proxy-name: vpp}}
spec:
  clusterIP: 10.96.0.2
  clusterIPs: [10.96.0.2]
  ipFamilies: [IPv4]
  ports: [{port: 80, protocol: TCP}]
`

// TestClaimFlags: each flag about what Services may claim narrows or widens it.
func TestClaimFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shop.yaml")
	if err := os.WriteFile(file, []byte(claimManifests), 0o600); err != nil {
		t.Fatal(err)
	}
	const ext1, ext2, node, lb1, lb2 = "198.51.100.1", "198.51.100.2", "192.0.2.11", "203.0.113.1", "203.0.113.2"
	for flags, want := range map[string][]string{
		"":                                       {"10.96.0.1", node, ext1, ext2, lb1, lb2},
		"--external-ips=false":                   {"10.96.0.1", lb1, lb2},
		"--external-ips-allowed 198.51.100.0/24": {"10.96.0.1", ext1, ext2, lb1, lb2},
		"--external-ips-allowed 198.51.100.0/24 --external-ips-denied 198.51.100.2/32": {"10.96.0.1", ext1, lb1, lb2},
		"--external-ips-denied 198.51.100.2/32":                                        {"10.96.0.1", node, ext1, lb1, lb2},
		"--load-balancer-ips-allowed 203.0.113.1/32":                                   {"10.96.0.1", node, ext1, ext2, lb1},
		"--load-balancer-ips-denied 203.0.113.1/32":                                    {"10.96.0.1", node, ext1, ext2, lb2},
		"--refuse-node-addresses":                                                      {"10.96.0.1", ext1, ext2, lb1, lb2},
		"--protected-node-ports 80":                                                    {"10.96.0.1", ext1, ext2, lb1, lb2},
		"--service-cidr 198.51.100.0/24":                                               {"10.96.0.1", node, lb1, lb2},
		"--service-cidr 198.51.100.0/24 --guard-exempt 198.51.100.1/32":                {"10.96.0.1", node, ext1, lb1, lb2},
		"--service-proxy-name vpp":                                                     {"10.96.0.2"},
		"--service-proxy-name other":                                                   nil,
	} {
		t.Run(flags, func(t *testing.T) {
			args := []string{"run", "--once", "--manifests", file, "--vpp", "embedded", "--node-name", "n1", "--node-ip", node, "-o", "json", "--log-level", "error"}
			out, _, err := cli(t.Context(), "", append(args, strings.Fields(flags)...)...)
			if err != nil {
				t.Fatal(err)
			}
			var rows []model.TranslationState
			if err := json.Unmarshal([]byte(out), &rows); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range rows {
				got = append(got, r.IP)
			}
			if !slices.Equal(got, want) {
				t.Errorf("served are %q, wanted %q", got, want)
			}
		})
	}
}
