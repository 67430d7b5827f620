// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package unixsocket makes the sockets that the agent listens on: the admin
// socket, and those of the CNI plugin and of Felix.
//
// Only the agent's user can open them, from the first moment on. What a dead
// agent left behind is replaced, a living agent's socket is an error, and a
// socket is only ever removed by the one who made it.
package unixsocket
