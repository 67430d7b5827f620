// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"calico-vpp-services/services/reconcile"
	"calico-vpp-services/vpplink/types"
)

// Suffix ends the name of every state file.
const Suffix = ".state"

// format is the version of what the file holds.
const format = 1

// ErrLocked says that another process has the file.
var ErrLocked = errors.New("state file in use")

// DefaultPath returns the path of the store of the VPP with that API socket.
func DefaultPath(socket string) string { return socket + ".services" + Suffix }

// Store is an open file. It belongs to one goroutine at a time.
type Store struct {
	path    string
	file    *os.File
	content content
	// size is the length of the file, live what it was when it held nothing
	// out of date.
	size, live int64
	// broken: the last write failed, so the file has to be written anew.
	broken bool
	report Report
}

// Report says what was found when the file was opened.
type Report struct {
	// SetAside is where a file was put that could not be used, and Why.
	SetAside string
	Why      error
	// BadRecords counts records that made no sense.
	BadRecords int
}

var _ reconcile.Store = (*Store)(nil)

// Open opens or makes the file at path, by the rules of the package. Its error
// says what to do.
func Open(path string) (*Store, error) {
	if filepath.Ext(path) != Suffix {
		// What can't be read is set aside: that must not befall any other file.
		return nil, fmt.Errorf("state file %s: wanted a name that ends in %s", path, Suffix)
	}
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("state file %s: not a regular file", path)
	}
	f, err := openLocked(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("state file %s: no such directory: %w", path, err)
	case err != nil:
		return nil, fmt.Errorf("state file: %w", err)
	}
	s := &Store{path: path, file: f}
	if err := s.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("state file: %w", err), f.Close())
	}
	return s, nil
}

// read takes up the file, or sets it aside.
func (s *Store) read() error {
	text, err := io.ReadAll(io.LimitReader(s.file, maxSize+1))
	if err != nil {
		return err
	}
	var good int
	if len(text) > maxSize {
		err = fmt.Errorf("larger than %d bytes", maxSize)
	} else {
		s.content, good, err = parse(text)
	}
	if err == nil && good > 0 {
		s.size, s.live = int64(good), int64(good)
		return s.file.Truncate(s.size)
	}
	if err != nil {
		s.report.Why, s.report.SetAside = err, s.path+".bad"
		if err := os.Rename(s.path, s.report.SetAside); err != nil {
			return err
		}
	}
	s.content = newContent("")
	return s.rewrite()
}

// Close gives the file back.
func (s *Store) Close() error { return s.file.Close() }

// Report says what was found when the file was opened, and since.
func (s *Store) Report() Report { return s.report }

// Problems implements services.Store.
func (s *Store) Problems() (int, error) {
	n := s.report.BadRecords
	if s.report.SetAside != "" {
		n++
	}
	return n, s.report.Why
}

// Instance returns the VPP that the file is about; "" for none.
func (s *Store) Instance() string { return s.content.Instance }

func (s *Store) bad(err error) {
	s.report.BadRecords++
	s.report.Why = err
}

// Begin implements reconcile.Store.
func (s *Store) Begin(instance string) (map[types.Key]reconcile.Record, bool, error) {
	if instance != s.content.Instance {
		s.content = newContent(instance)
		if err := s.rewrite(); err != nil {
			s.broken = true
			return nil, false, fmt.Errorf("state file: %w", err)
		}
		return nil, false, nil
	}
	records := map[types.Key]reconcile.Record{}
	for _, name := range slices.Sorted(maps.Keys(s.content.Translations)) {
		var rec reconcile.Record
		key, err := types.ParseKey(name)
		if err == nil {
			err = json.Unmarshal(s.content.Translations[name], &rec)
		}
		if err == nil {
			err = rec.Check(key)
		}
		if err != nil { // one record is no reason to lose the others
			s.bad(err)
			continue
		}
		records[key] = rec
	}
	return records, true, nil
}

// Put implements reconcile.Store.
func (s *Store) Put(records map[types.Key]*reconcile.Record) error {
	ch := change{Translations: make(map[string]json.RawMessage, len(records))}
	for key, rec := range records {
		value, err := json.Marshal(rec) // null forgets
		if err != nil {
			return fmt.Errorf("state file: %w", err)
		}
		ch.Translations[key.String()] = value
	}
	return s.commit(&ch)
}

// Routes returns the unreachable routes of ours in the VPP that was begun
// with, sorted.
func (s *Store) Routes() ([]netip.Prefix, error) {
	var out []netip.Prefix
	for name := range s.content.Routes {
		p, err := netip.ParsePrefix(name)
		if err != nil {
			s.bad(err)
			continue
		}
		out = append(out, p)
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return out, nil
}

// PutRoutes records routes and forgets others.
func (s *Store) PutRoutes(add, forget []netip.Prefix) error {
	ch := change{Routes: map[string]json.RawMessage{}}
	for _, p := range forget {
		ch.Routes[p.String()] = json.RawMessage("null")
	}
	for _, p := range add {
		ch.Routes[p.String()] = json.RawMessage("true")
	}
	return s.commit(&ch)
}

// Setting implements services.Store.
func (s *Store) Setting(name string) (value string, err error) {
	if text, there := s.content.Settings[name]; there {
		err = json.Unmarshal(text, &value)
	}
	return value, err
}

// PutSetting implements services.Store.
func (s *Store) PutSetting(name, value string) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	return s.commit(&change{Settings: map[string]json.RawMessage{name: text}})
}
