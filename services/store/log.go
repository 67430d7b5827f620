// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const (
	// maxSize bounds a file that is read: far beyond what any node needs.
	maxSize = 1 << 30
	// slack is what a file may hold beyond its content before it is written anew.
	slack = 1 << 20
	// lockTimeout is how long another process may take to let go of the file.
	lockTimeout = time.Second
)

// header is the first line.
type header struct {
	Format   int    `json:"format"`
	Instance string `json:"instance"`
}

// change is every other line. A null forgets.
type change struct {
	Translations map[string]json.RawMessage `json:"translations,omitempty"`
	Routes       map[string]json.RawMessage `json:"routes,omitempty"`
	Settings     map[string]json.RawMessage `json:"settings,omitempty"`
}

// content is what all lines come to.
type content struct {
	header
	change
}

func newContent(instance string) content {
	return content{header{format, instance}, change{
		map[string]json.RawMessage{}, map[string]json.RawMessage{}, map[string]json.RawMessage{},
	}}
}

func (c *content) apply(ch *change) {
	for _, m := range []struct{ to, from map[string]json.RawMessage }{
		{c.Translations, ch.Translations}, {c.Routes, ch.Routes}, {c.Settings, ch.Settings},
	} {
		for k, v := range m.from {
			if string(v) == "null" {
				delete(m.to, k)
			} else {
				m.to[k] = v
			}
		}
	}
}

// line puts the checksum in front of v.
func line(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "%08x %s\n", crc32.ChecksumIEEE(text), text), nil
}

// unline reads what line wrote.
func unline(b []byte, v any) error {
	if len(b) < 9 || b[8] != ' ' {
		return errors.New("no checksum")
	}
	sum, err := strconv.ParseUint(string(b[:8]), 16, 32)
	if err != nil || uint32(sum) != crc32.ChecksumIEEE(b[9:]) {
		return errors.New("wrong checksum")
	}
	return json.Unmarshal(b[9:], v)
}

// parse reads a whole file; good is how much of it is to be kept.
func parse(text []byte) (c content, good int, err error) {
	c = newContent("")
	for n := 1; ; n++ {
		end := bytes.IndexByte(text[good:], '\n')
		switch {
		case end < 0 && n == 1 && len(text) > 0: // a header is never cut off: see rewrite
			return c, 0, errors.New("not a state file: no header")
		case end < 0:
			return c, good, nil // nothing, or a change that was cut off
		}
		b := text[good : good+end]
		if n == 1 {
			if err := unline(b, &c.header); err != nil {
				return c, 0, fmt.Errorf("not a state file: line 1: %w", err)
			}
			if c.Format != format {
				return c, 0, fmt.Errorf("format %d; this agent knows %d", c.Format, format)
			}
		} else {
			var ch change
			if err := unline(b, &ch); err != nil {
				return c, 0, fmt.Errorf("damaged: line %d: %w", n, err)
			}
			c.apply(&ch)
		}
		good += end + 1
	}
}

// openLocked opens path for this process alone.
func openLocked(path string) (*os.File, error) {
	deadline := time.Now().Add(lockTimeout)
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			// It may have been replaced before it was locked.
			have, err1 := f.Stat()
			there, err2 := os.Lstat(path)
			if err1 == nil && err2 == nil && os.SameFile(have, there) {
				return f, os.Chmod(path, 0o600)
			}
		}
		f.Close()
		switch {
		case err != nil && !errors.Is(err, syscall.EWOULDBLOCK):
			return nil, fmt.Errorf("lock %s: %w", path, err)
		case time.Now().After(deadline):
			return nil, fmt.Errorf("%w: %s: another agent has it; one VPP has one agent", ErrLocked, path)
		}
		time.Sleep(20 * time.Millisecond) // flock has no wait with a deadline
	}
}

// rewrite puts a file with nothing but the content into place of the one that
// is open.
func (s *Store) rewrite() (err error) {
	tmp := s.path + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := openLocked(tmp)
	if err != nil {
		return err
	}
	head, err := line(s.content.header)
	if err == nil {
		var body []byte
		body, err = line(s.content.change)
		head = append(head, body...)
	}
	if err == nil {
		_, err = f.Write(head)
	}
	if err == nil {
		err = os.Rename(tmp, s.path)
	}
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(tmp))
	}
	old := s.file
	s.file, s.size, s.live = f, int64(len(head)), int64(len(head))
	if old != nil {
		return old.Close()
	}
	return nil
}

// commit records one change.
func (s *Store) commit(ch *change) error {
	b, err := line(ch)
	if err != nil {
		return fmt.Errorf("state file: %w", err)
	}
	s.content.apply(ch)
	if s.broken || s.size+int64(len(b)) > 2*s.live+slack {
		err = s.rewrite()
		if s.broken = err != nil; err != nil {
			return fmt.Errorf("state file %s: %w", s.path, err)
		}
		return nil
	}
	n, err := s.file.WriteAt(b, s.size)
	if err != nil {
		// What is there of the line is in the way of the next one.
		s.broken = true
		return fmt.Errorf("state file %s: %w", filepath.Base(s.path), err)
	}
	s.size += int64(n)
	return nil
}
