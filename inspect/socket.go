// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"os"
	"path/filepath"
	"strconv"
)

// DefaultSocket returns where the admin socket of this user's agent is.
func DefaultSocket() string {
	if os.Geteuid() == 0 {
		return "/run/calico-vpp-services/admin.sock"
	}
	return filepath.Join(os.TempDir(), "calico-vpp-services-"+strconv.Itoa(os.Geteuid()), "admin.sock")
}
