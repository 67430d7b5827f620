// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// maxSocketPath is the room for a path in a unix socket address on Linux.
const maxSocketPath = 107

// DefaultSocket returns where the admin socket of this user's agent is.
func DefaultSocket() string {
	if os.Geteuid() == 0 {
		return "/run/calico-vpp-services/admin.sock"
	}
	return filepath.Join(os.TempDir(), "calico-vpp-services-"+strconv.Itoa(os.Geteuid()), "admin.sock")
}

// listen makes a socket at path that only this user can open. A socket that a
// dead agent left behind is replaced; that of a living one is an error.
//
// It returns the file too, to know it by when it is removed: another agent may
// have put its own there by then.
//
// The socket is made in a directory that nobody else may enter and moved into place
// when its mode is right: there is no moment in which others could connect.
func listen(path string) (net.Listener, os.FileInfo, error) {
	if len(path) > maxSocketPath {
		return nil, nil, fmt.Errorf("admin socket %s: the path has %d bytes, a socket's may have %d; choose a shorter one with --admin-socket", path, len(path), maxSocketPath)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("admin socket: %w; choose another place with --admin-socket", err)
	}
	if err := checkFree(path); err != nil {
		return nil, nil, err
	}
	private, err := os.MkdirTemp(dir, ".s")
	if err != nil {
		return nil, nil, fmt.Errorf("admin socket: %w; choose another place with --admin-socket", err)
	}
	defer os.RemoveAll(private)
	tmp := filepath.Join(private, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: tmp, Net: "unix"})
	if err != nil {
		return nil, nil, fmt.Errorf("admin socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	err = os.Chmod(tmp, 0o600)
	var info os.FileInfo
	if err == nil {
		info, err = os.Lstat(tmp)
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("admin socket: %w", err), l.Close())
	}
	return l, info, nil
}

// checkFree returns an error if path is no socket, or one that is answered.
func checkFree(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("admin socket: %w", err)
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("admin socket: %s exists and is not a socket; choose another place with --admin-socket", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return nil // nobody listens
	}
	return errors.Join(
		fmt.Errorf("admin socket: another agent answers on %s; stop it, or give this one its own --admin-socket", path),
		conn.Close())
}
