// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"
)

func (s *Store) view(f func(*bolt.Tx) error) error   { return s.do(s.db.View, f) }
func (s *Store) update(f func(*bolt.Tx) error) error { return s.do(s.db.Update, f) }

func (s *Store) do(do func(func(*bolt.Tx) error) error, f func(*bolt.Tx) error) error {
	if err := guarded(func() error { return do(f) }); err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	return nil
}

// guarded runs f and turns a panic into an error: bbolt reads its file by
// mmap, and panics on pages that make no sense; a page beyond the end of a
// file that was cut short is a memory fault.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("damaged: %v", r)
		}
	}()
	return f()
}
