// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

// The names of the sources, as in model.Event.Source.
const (
	SourceKubernetes = "kubernetes"
	SourceFiles      = "files"
	SourceReplay     = "replay"
)
