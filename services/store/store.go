// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"calico-vpp-services/services/reconcile"
	"calico-vpp-services/vpplink/types"
)

// FileName is the name of the store in the directory of VPP's API socket.
const FileName = "calico-vpp-services.db"

// format is the version of what the file holds.
const format = "1"

// lockTimeout is how long another process may take to let go of the file.
const lockTimeout = time.Second

// ErrLocked says that another process has the file.
var ErrLocked = errors.New("state file in use")

// DefaultPath returns the path of the store of the VPP with that API socket.
func DefaultPath(socket string) string { return filepath.Join(filepath.Dir(socket), FileName) }

// Store is an open file. It belongs to one goroutine at a time.
type Store struct {
	db *bolt.DB
	// instance is the VPP that the file is about.
	instance string
	report   Report
}

// Report says what was found when the file was opened.
type Report struct {
	// SetAside is where a file was put that could not be used, and Why.
	SetAside string
	Why      error
	// BadRecords counts records that could not be read.
	BadRecords int
}

var _ reconcile.Store = (*Store)(nil)

func bucketMeta() []byte         { return []byte("meta") }
func bucketTranslations() []byte { return []byte("translations") }
func bucketRoutes() []byte       { return []byte("routes") }
func bucketSettings() []byte     { return []byte("settings") }

// aboutVPP are the buckets that are worth what the VPP is worth.
func aboutVPP() [][]byte { return [][]byte{bucketTranslations(), bucketRoutes(), bucketSettings()} }

func keyFormat() []byte   { return []byte("format") }
func keyInstance() []byte { return []byte("instance") }

// Open opens or makes the file at path, by the rules of the package. Its error
// says what to do.
func Open(path string) (*Store, error) {
	if filepath.Ext(path) != ".db" {
		// What can't be read is set aside: that must not befall any other file.
		return nil, fmt.Errorf("state file %s: wanted a name that ends in .db, such as %s", path, FileName)
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("state file %s: not a regular file", path)
	}
	s := &Store{}
	if err := s.open(path); err != nil {
		if errors.Is(err, ErrLocked) || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("state file: %w", err)
		}
		s.report.Why = err
		s.report.SetAside = path + ".bad"
		if rerr := os.Rename(path, s.report.SetAside); rerr != nil {
			return nil, fmt.Errorf("state file %s: %w, and it can't be set aside: %w", path, err, rerr)
		}
		if err := s.open(path); err != nil {
			return nil, fmt.Errorf("state file: %w", err)
		}
	}
	return s, nil
}

// open opens a file that is as it should be.
func (s *Store) open(path string) error {
	// The list of free pages is in the file: without it bbolt would look for them
	// in a goroutine of its own, whose panics nobody can stop.
	var db *bolt.DB
	err := guarded(func() (err error) {
		db, err = bolt.Open(path, 0o600, &bolt.Options{Timeout: lockTimeout, NoSync: true})
		return err
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%w: %s: another agent has it; one VPP has one agent", ErrLocked, path)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: no such directory; give another path: %w", path, err)
	case err != nil:
		return fmt.Errorf("%s: %w", path, err)
	}
	s.db, s.instance = db, ""
	if err := errors.Join(os.Chmod(path, 0o600), s.check()); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", path, err), db.Close())
	}
	return nil
}

// check reads the whole file once, so that damage shows now and not in a
// later transaction, and makes the buckets that are missing.
func (s *Store) check() error {
	err := s.view(func(tx *bolt.Tx) error {
		err := tx.ForEach(func(_ []byte, b *bolt.Bucket) error {
			return b.ForEach(func(_, _ []byte) error { return nil })
		})
		if err != nil {
			return err
		}
		m := tx.Bucket(bucketMeta())
		if m == nil {
			return nil
		}
		if f := string(m.Get(keyFormat())); f != format {
			return fmt.Errorf("format %q; this agent knows %q", f, format)
		}
		s.instance = string(m.Get(keyInstance()))
		return nil
	})
	if err != nil {
		return err
	}
	return s.update(func(tx *bolt.Tx) error {
		for _, name := range append(aboutVPP(), bucketMeta()) {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketMeta()).Put(keyFormat(), []byte(format))
	})
}

// Close gives the file back.
func (s *Store) Close() error { return s.db.Close() }

// Report says what was found when the file was opened, and since.
func (s *Store) Report() Report { return s.report }

// Instance returns the VPP that the file is about; "" for none.
func (s *Store) Instance() string { return s.instance }

// Begin implements reconcile.Store.
func (s *Store) Begin(instance string) (map[types.Key]reconcile.Record, bool, error) {
	if instance != s.instance {
		err := s.update(func(tx *bolt.Tx) error {
			for _, name := range aboutVPP() {
				if err := tx.DeleteBucket(name); err != nil {
					return err
				}
				if _, err := tx.CreateBucket(name); err != nil {
					return err
				}
			}
			return tx.Bucket(bucketMeta()).Put(keyInstance(), []byte(instance))
		})
		if err != nil {
			return nil, false, err
		}
		s.instance = instance
		return nil, false, nil
	}
	records := map[types.Key]reconcile.Record{}
	err := s.view(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketTranslations()).ForEach(func(k, v []byte) error {
			key, rec, err := read(k, v)
			if err != nil {
				s.report.BadRecords++
				s.report.Why = err
				return nil //nolint:nilerr // one record is no reason to lose the others
			}
			records[key] = rec
			return nil
		})
	})
	if err != nil {
		return nil, false, err
	}
	return records, true, nil
}

func read(k, v []byte) (types.Key, reconcile.Record, error) {
	var rec reconcile.Record
	key, err := types.ParseKey(string(k))
	if err == nil {
		err = json.Unmarshal(v, &rec)
	}
	if err == nil {
		err = rec.Check(key)
	}
	return key, rec, err
}

// Put implements reconcile.Store.
func (s *Store) Put(records map[types.Key]*reconcile.Record) error {
	err := s.update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketTranslations())
		for key, rec := range records {
			name := []byte(key.String())
			if rec == nil {
				if err := b.Delete(name); err != nil {
					return err
				}
				continue
			}
			value, err := json.Marshal(rec)
			if err != nil {
				return err
			}
			if err := b.Put(name, value); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// Routes returns the unreachable routes of ours in the VPP that was begun
// with, sorted.
func (s *Store) Routes() ([]netip.Prefix, error) {
	var out []netip.Prefix
	err := s.view(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketRoutes()).ForEach(func(k, _ []byte) error {
			p, err := netip.ParsePrefix(string(k))
			if err != nil {
				s.report.BadRecords++
				s.report.Why = err
				return nil //nolint:nilerr // one record is no reason to lose the others
			}
			out = append(out, p)
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return out, nil
}

// PutRoutes records routes and forgets others.
func (s *Store) PutRoutes(add, forget []netip.Prefix) error {
	err := s.update(func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketRoutes())
		for _, p := range add {
			if err := b.Put([]byte(p.String()), nil); err != nil {
				return err
			}
		}
		for _, p := range forget {
			if err := b.Delete([]byte(p.String())); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// Setting implements services.Store.
func (s *Store) Setting(name string) (value string, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		value = string(tx.Bucket(bucketSettings()).Get([]byte(name)))
		return nil
	})
	return value, err
}

// PutSetting implements services.Store.
func (s *Store) PutSetting(name, value string) error {
	return s.update(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketSettings()).Put([]byte(name), []byte(value))
	})
}
