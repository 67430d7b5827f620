// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package metrics tells Prometheus how the agent stands.
//
// It keeps no numbers of its own: at each scrape it reads the snapshot that the
// services server published last, and the counters of the link to VPP. So it
// never waits for VPP, and a scrape while VPP is away is answered at once, with
// calico_vpp_services_vpp_up 0 (scenario 46).
package metrics
