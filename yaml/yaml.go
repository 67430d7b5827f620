// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package yaml carries the manifests that the binary itself needs: those of
// the demo. The rest of the directory is for kubectl.
package yaml

import "embed"

// DemoFiles are the objects of `calico-vpp-services demo`, in the folder demo.
//
//go:embed demo/*.yaml
var DemoFiles embed.FS
