// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"calico-vpp-services/services/reconcile"
	"calico-vpp-services/vpplink/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func entry(n byte) types.CnatTranslateEntry {
	return types.CnatTranslateEntry{
		Proto: types.TCP, IP: netip.AddrFrom4([4]byte{10, 96, 0, n}), Port: 80, Flags: types.FlagNoClient,
		Backends: []types.Backend{{IP: netip.MustParseAddr("10.244.1.5"), Port: 8080, NoNAT: true}},
		LBType:   types.LBMaglev, Hash: types.HashSrcAddr, IsRealIP: true,
	}
}

func records(n int) map[types.Key]*reconcile.Record {
	out := map[types.Key]*reconcile.Record{}
	for i := range n {
		e := entry(byte(i))
		rec := &reconcile.Record{Held: &reconcile.Held{ID: uint32(i), Entry: e, Trust: reconcile.Confirmed}}
		switch i % 3 {
		case 1:
			rec.Doing = &reconcile.Doing{Action: reconcile.Delete}
		case 2:
			rec.Doing = &reconcile.Doing{Action: reconcile.Recreate, Entry: &e}
		}
		out[e.Key()] = rec
	}
	return out
}

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func begin(t *testing.T, s *Store, instance string, wantKnown bool) map[types.Key]reconcile.Record {
	t.Helper()
	recs, known, err := s.Begin(instance)
	if err != nil || known != wantKnown {
		t.Fatalf("Begin(%s): known %v, %v; want known %v", instance, known, err, wantKnown)
	}
	return recs
}

func filled(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vpp"+Suffix)
	s := open(t, path)
	begin(t, s, "one", false)
	if err := errors.Join(s.Put(records(n)), s.PutRoutes([]netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}, nil), s.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRoundTrip(t *testing.T) {
	path := filled(t, 20)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	s := open(t, path)
	got := begin(t, s, "one", true)
	want := map[types.Key]reconcile.Record{}
	for k, r := range records(20) {
		want[k] = *r
	}
	if d := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{})); d != "" {
		t.Error(d)
	}
	routes, err := s.Routes()
	if err != nil || len(routes) != 1 {
		t.Errorf("routes %v, %v", routes, err)
	}
	// Forgetting.
	gone := map[types.Key]*reconcile.Record{}
	for k := range want {
		gone[k] = nil
	}
	if err := errors.Join(s.Put(gone), s.PutRoutes(nil, routes)); err != nil {
		t.Fatal(err)
	}
	routes, err = s.Routes()
	if got := begin(t, s, "one", true); len(got) != 0 || len(routes) != 0 || err != nil {
		t.Errorf("left: %v, %v, %v", got, routes, err)
	}
}

// TestAnotherVPP: what is remembered of one VPP is nothing for another.
func TestAnotherVPP(t *testing.T) {
	s := open(t, filled(t, 5))
	if got := begin(t, s, "two", false); len(got) != 0 {
		t.Errorf("records %v of a new VPP", got)
	}
	if routes, err := s.Routes(); len(routes) != 0 || err != nil {
		t.Errorf("routes %v, %v of a new VPP", routes, err)
	}
	if got := begin(t, s, "one", false); len(got) != 0 {
		t.Errorf("records %v of a VPP that went away", got)
	}
}

// TestUnusable: a file that is no store of ours is set aside and replaced; the
// agent starts, and says so.
func TestUnusable(t *testing.T) {
	for name, spoil := range map[string]func(good []byte) []byte{
		"text":         func([]byte) []byte { return []byte("not a database\n") },
		"no line":      func([]byte) []byte { return []byte("x") },
		"zeros":        func([]byte) []byte { return append(make([]byte, 1<<16), '\n') },
		"newer format": func([]byte) []byte { b, _ := line(header{Format: 2, Instance: "one"}); return b },
		"a line gone":  func(good []byte) []byte { return append(bytes.SplitAfter(good, []byte("\n"))[1], '\n') },
		"a bit flipped": func(good []byte) []byte {
			good[len(good)/2] ^= 1
			return good
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filled(t, 200)
			good, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, spoil(good), 0o600); err != nil {
				t.Fatal(err)
			}
			s := open(t, path)
			if r := s.Report(); r.SetAside != path+".bad" || r.Why == nil {
				t.Errorf("report %+v", r)
			}
			if got := begin(t, s, "one", false); len(got) != 0 {
				t.Errorf("records of a file that can't be read: %v", got)
			}
			if err := s.Put(records(3)); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(path + ".bad"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCutAnywhere: a process that is killed while it writes leaves a part of a
// line. Whatever the part, the changes before it hold.
func TestCutAnywhere(t *testing.T) {
	path := filled(t, 3)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	e := entry(200)
	begin(t, s, "one", true)
	if err := errors.Join(s.Put(map[types.Key]*reconcile.Record{e.Key(): {Held: &reconcile.Held{Entry: e}}}), s.Close()); err != nil {
		t.Fatal(err)
	}
	longer, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := len(good); n <= len(longer); n++ {
		if err := os.WriteFile(path, longer[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		s := open(t, path)
		want := 3
		if n == len(longer) {
			want = 4
		}
		if got := begin(t, s, "one", true); len(got) != want || s.Report().SetAside != "" {
			t.Fatalf("cut at %d of %d: %d records, %+v", n, len(longer), len(got), s.Report())
		}
		// The next line is whole.
		if err := errors.Join(s.Put(records(5)), s.Close()); err != nil {
			t.Fatal(err)
		}
		s = open(t, path)
		if got := begin(t, s, "one", true); len(got) != want+2 {
			t.Fatalf("cut at %d: %d records after another Put", n, len(got))
		}
		s.Close()
	}
}

// TestStaysSmall: what is out of date does not pile up, and the file that takes
// the place of the old one is locked as that was.
func TestStaysSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vpp"+Suffix)
	s := open(t, path)
	begin(t, s, "one", false)
	for range 400 {
		if err := s.Put(records(100)); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 2*slack {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
	if _, err := Open(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a second agent: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := begin(t, open(t, path), "one", true); len(got) != 100 {
		t.Errorf("%d records, want 100", len(got))
	}
}

func TestEmptyFileIsNew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "vpp"+Suffix)
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s := open(t, path)
	begin(t, s, "one", false)
	if r := s.Report(); r != (Report{}) {
		t.Errorf("report %+v", r)
	}
	if info, _ := os.Stat(path); info.Mode() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}
}

// TestBadRecords: what cannot be read is dropped, the rest holds.
func TestBadRecords(t *testing.T) {
	path := filled(t, 3)
	s := open(t, path)
	err := s.commit(&change{
		Translations: map[string]json.RawMessage{
			"TCP;10.96.0.77;80": json.RawMessage(`[]`),
			"TCP;10.96.0.78;80": json.RawMessage("{}"),
			"XXX;10.96.0.79;80": json.RawMessage(`{"doing":{"action":0}}`),
			"TCP;10.96.0.80;80": json.RawMessage(`{"doing":{"action":9}}`),
			"TCP;10.96.0.81;80": json.RawMessage(`{"doing":{"action":3}}`),
			"TCP;10.96.0.82;80": json.RawMessage(`{"held":{"id":1,"trust":3,"entry":{"Proto":6,"IP":"10.96.0.82","Port":80}}}`),
			"TCP;10.96.0.83;80": json.RawMessage(`{"held":{"id":1,"trust":1,"entry":{"Proto":6,"IP":"10.96.0.1","Port":80}}}`),
		},
		Routes: map[string]json.RawMessage{"nonsense": json.RawMessage("true")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := begin(t, s, "one", true); len(got) != 3 {
		t.Errorf("%d records, want 3", len(got))
	}
	if routes, err := s.Routes(); len(routes) != 1 || err != nil {
		t.Errorf("routes %v, %v", routes, err)
	}
	if r := s.Report(); r.BadRecords != 8 || r.Why == nil {
		t.Errorf("report %+v, want 8 bad records", r)
	}
}

// TestRefused: what is no matter of damage is an error that says what to do,
// and touches nothing.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	path := filled(t, 1)
	open(t, path)
	if _, err := Open(path); !errors.Is(err, ErrLocked) {
		t.Errorf("a second agent: %v", err)
	}
	other := filepath.Join(dir, "passwd")
	if err := os.WriteFile(other, []byte("root"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "d.state"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{other, filepath.Join(dir, "d.state"), filepath.Join(dir, "missing", "vpp"+Suffix)} {
		if _, err := Open(p); err == nil {
			t.Errorf("%s was opened", p)
		}
	}
	if b, err := os.ReadFile(other); string(b) != "root" || err != nil {
		t.Errorf("%s was touched: %q, %v", other, b, err)
	}
}

// TestAnyDamage flips bytes all over a file: Open never panics, and what it
// opens can be used.
func TestAnyDamage(t *testing.T) {
	good, err := os.ReadFile(filled(t, 100))
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	aside := 0
	for i := range 80 {
		bad := bytes.Clone(good)
		for range 1 + rng.IntN(40) {
			bad[rng.IntN(len(bad))] ^= byte(1 + rng.IntN(255))
		}
		if rng.IntN(4) == 0 {
			bad = bad[:rng.IntN(len(bad))]
		}
		path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.state", i))
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(path)
		if err != nil {
			t.Fatalf("file %d of seed %d: %v", i, seed, err)
		}
		if s.Report().SetAside != "" {
			aside++
		}
		if _, _, err := s.Begin("one"); err != nil {
			t.Errorf("file %d: %v", i, err)
		} else if err := s.Put(records(50)); err != nil {
			t.Errorf("file %d: %v", i, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("file %d: %v", i, err)
		}
	}
	if aside == 0 {
		t.Error("no damage was noticed")
	}
}
