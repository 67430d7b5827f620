// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package reconcile

import (
	"math/rand/v2"
	"time"
)

// DefaultConfig returns the production configuration. A failed key is tried
// again within a second, so that VPP is right no later than that after it can
// be.
func DefaultConfig() Config {
	return Config{
		MinBackoff: 50 * time.Millisecond,
		MaxBackoff: time.Second,
		MaxSteps:   1024,
		Now:        time.Now,
		Jitter:     rand.Float64,
	}
}
