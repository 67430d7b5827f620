// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vpplink

import (
	"github.com/sirupsen/logrus"
	"go.fd.io/govpp/adapter/socketclient"
	"go.fd.io/govpp/core"
)

// SetLibraryLogger sends what govpp logs by itself to log. govpp keeps its
// loggers for the whole process, so this is for a main to call, before any
// Connect.
func SetLibraryLogger(log *logrus.Logger) {
	core.SetLogger(log)
	socketclient.SetLogger(log)
}
