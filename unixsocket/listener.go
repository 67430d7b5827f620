// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package unixsocket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"
)

// maxPath is the room for a path in a unix socket address on Linux, without its
// final zero.
const maxPath = 107

// Listener is a socket that only this user can open. It is a net.Listener.
type Listener struct {
	net.Listener
	path, what string
	// file is what the socket is known by when it is removed: another agent may
	// have put its own there by then.
	file os.FileInfo
}

// Listen makes a socket at path with mode 0600, and its directory with mode 0700
// if there is none. Close must be called.
//
// In errors, what names the socket, such as "admin socket", and setting how to
// choose another path, such as "--admin-socket".
//
// The socket is made in a directory that nobody else may enter and moved into place
// when its mode is right: there is no moment in which others could connect.
func Listen(path, what, setting string) (*Listener, error) {
	if len(path) > maxPath {
		return nil, fmt.Errorf("%s %s: the path has %d bytes, a socket's may have %d; choose a shorter one with %s", what, path, len(path), maxPath, setting)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%s: %w; choose another place with %s", what, err, setting)
	}
	if err := checkFree(path, what, setting); err != nil {
		return nil, err
	}
	private, err := os.MkdirTemp(dir, ".s")
	if err != nil {
		return nil, fmt.Errorf("%s: %w; choose another place with %s", what, err, setting)
	}
	defer os.RemoveAll(private)
	tmp := filepath.Join(private, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: tmp, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
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
		return nil, errors.Join(fmt.Errorf("%s: %w", what, err), l.Close())
	}
	return &Listener{Listener: l, path: path, what: what, file: info}, nil
}

// Close stops listening and takes the socket away, if it is still ours. It may
// be called more than once.
func (l *Listener) Close() error {
	if err := l.Listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("%s: %w", l.what, err)
	}
	if info, err := os.Lstat(l.path); err != nil || !os.SameFile(info, l.file) {
		return nil
	}
	if err := os.Remove(l.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s: %w", l.what, err)
	}
	return nil
}

// checkFree returns an error if path is no socket, or one that is answered.
func checkFree(path, what, setting string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("%s: %s exists and is not a socket; choose another place with %s", what, path, setting)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err != nil {
		return nil // nobody listens
	}
	return errors.Join(
		fmt.Errorf("%s: another agent answers on %s; stop it, or give this one its own %s", what, path, setting),
		conn.Close())
}
