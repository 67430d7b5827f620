// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vpplink_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"go.uber.org/goleak"
	tomb "gopkg.in/tomb.v2"

	"calico-vpp-services/vpplink"
	"calico-vpp-services/vpplink/types"
	"calico-vpp-services/vppsim"
)

func TestMain(m *testing.M) {
	quiet := logrus.New()
	quiet.SetLevel(logrus.PanicLevel)
	vpplink.SetLibraryLogger(quiet)
	goleak.VerifyTestMain(m)
}

func startSim(t *testing.T, edit ...func(*vppsim.Config)) *vppsim.Sim {
	t.Helper()
	cfg := vppsim.Config{Socket: filepath.Join(t.TempDir(), "api.sock")}
	for _, f := range edit {
		f(&cfg)
	}
	sim, err := vppsim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sim.Close)
	return sim
}

func config(t *testing.T, socket string) vpplink.Config {
	t.Helper()
	cfg := vpplink.DefaultConfig(socket)
	cfg.CallTimeout = 2 * time.Second
	cfg.ConnectTimeout = 2 * time.Second
	cfg.PingInterval = 50 * time.Millisecond
	log, _ := logtest.NewNullLogger()
	cfg.Log = logrus.NewEntry(log)
	return cfg
}

func dial(t *testing.T, cfg vpplink.Config) *vpplink.Session {
	t.Helper()
	s, err := vpplink.Connect(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func entry(n int, backends ...string) *types.CnatTranslateEntry {
	e := &types.CnatTranslateEntry{
		Proto: types.TCP, IP: netip.AddrFrom4([4]byte{10, 96, byte(n >> 8), byte(n)}), Port: 80, Flags: types.FlagNoClient,
	}
	for _, b := range backends {
		ap := netip.MustParseAddrPort(b)
		e.Backends = append(e.Backends, types.Backend{IP: ap.Addr(), Port: ap.Port()})
	}
	e.Normalize()
	return e
}

func TestAddDumpDel(t *testing.T) {
	sim := startSim(t)
	cfg := config(t, sim.Socket())
	s := dial(t, cfg)
	ctx := t.Context()
	v6 := &types.CnatTranslateEntry{
		Proto: types.UDP, IP: netip.MustParseAddr("fd00::1"), Port: 53, LBType: types.LBMaglev, Hash: types.HashSrcAddr,
		IsRealIP: true, Flags: types.FlagNoClient,
		Backends: []types.Backend{{IP: netip.MustParseAddr("fd10::1"), Port: 5300, NoNAT: true}, {IP: netip.MustParseAddr("fd10::2"), Port: 5300}},
	}
	v4 := entry(1, "10.244.1.6:8080", "10.244.1.5:8080")
	ids := map[uint32]bool{}
	for _, e := range []*types.CnatTranslateEntry{v4, v6} {
		id, err := s.CnatTranslateAdd(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		ids[id] = true
	}
	if len(ids) != 2 {
		t.Fatalf("ids %v", ids)
	}
	for i, want := range []*types.CnatTranslateEntry{v4, v6} {
		if got := &sim.Translations()[i].Entry; got.String() != want.String() || got.Flags != want.Flags {
			t.Errorf("VPP holds %s flags %d, want %s flags %d", got, got.Flags, want, want.Flags)
		}
	}
	dump, err := s.CnatTranslationDump(ctx)
	if err != nil || len(dump) != 2 {
		t.Fatalf("dump %v, %v", dump, err)
	}
	seen := v6.Clone()
	seen.Hash, seen.IsRealIP, seen.Flags = 0, false, 0 // F5
	if got := &dump[1].Entry; got.String() != seen.String() || got.Compare(&seen) != types.Equal {
		t.Errorf("dumped %s, want %s", got, &seen)
	}
	for id := range ids {
		for range 2 { // the second finds nothing, which is success
			if err := s.CnatTranslateDel(ctx, id); err != nil {
				t.Error(err)
			}
		}
	}
	if n := len(sim.Translations()); n != 0 {
		t.Errorf("%d translations left", n)
	}
	want := vpplink.Calls{Update: 2, Del: 4, Dump: 1, Other: 1}
	if got := cfg.Counters.Read(); got != want {
		t.Errorf("calls %+v, want %+v", got, want)
	}
}

// TestInvalidEntriesNeverReachVPP: F6 and F7 are impossible, whatever is asked.
func TestInvalidEntriesNeverReachVPP(t *testing.T) {
	sim := startSim(t)
	s := dial(t, config(t, sim.Socket()))
	for name, spoil := range map[string]func(*types.CnatTranslateEntry){
		"F6 no backends":      func(e *types.CnatTranslateEntry) { e.Backends = nil },
		"F7 LB type 7":        func(e *types.CnatTranslateEntry) { e.LBType = 7 },
		"F7 other family":     func(e *types.CnatTranslateEntry) { e.Backends[0].IP = netip.MustParseAddr("fd10::1") },
		"F7 duplicate":        func(e *types.CnatTranslateEntry) { e.Backends = append(e.Backends, e.Backends[0]) },
		"backend port 0":      func(e *types.CnatTranslateEntry) { e.Backends[0].Port = 0 },
		"port 0":              func(e *types.CnatTranslateEntry) { e.Port = 0 },
		"protocol ICMP":       func(e *types.CnatTranslateEntry) { e.Proto = 1 },
		"hash of other bits":  func(e *types.CnatTranslateEntry) { e.Hash = 0x80 },
		"flags of other bits": func(e *types.CnatTranslateEntry) { e.Flags = 0x40 },
		"v4 in v6":            func(e *types.CnatTranslateEntry) { e.IP = netip.MustParseAddr("::ffff:10.0.0.1") },
		"no address":          func(e *types.CnatTranslateEntry) { e.IP = netip.Addr{} },
		"not sorted": func(e *types.CnatTranslateEntry) {
			e.Backends = append(e.Backends, types.Backend{IP: netip.MustParseAddr("10.0.0.1"), Port: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := entry(1, "10.244.1.5:8080")
			spoil(e)
			if _, err := s.CnatTranslateAdd(t.Context(), e); !errors.Is(err, vpplink.ErrInvalidEntry) {
				t.Errorf("error %v, want ErrInvalidEntry", err)
			}
		})
	}
	if n := sim.Calls()["cnat_translation_update"]; n != 0 {
		t.Errorf("%d updates reached VPP", n)
	}
}

// TestBatch: more writes than fit in flight, with an error of its own for each
// that VPP or we refuse.
func TestBatch(t *testing.T) {
	sim := startSim(t)
	cfg := config(t, sim.Socket())
	cfg.MaxInFlight = 7
	s := dial(t, cfg)
	const n = 500
	bad := entry(100, "10.244.1.5:8080").Key()
	sim.SetFaults(vppsim.Faults{FailKeys: map[types.Key]int32{bad: -2}})
	writes := make([]types.CnatWrite, n)
	for i := range writes {
		writes[i].Entry = entry(i, "10.244.1.5:8080")
	}
	writes[50].Entry = entry(50)
	for i, r := range s.CnatTranslateBatch(t.Context(), writes) {
		switch i {
		case 50:
			if !errors.Is(r.Err, vpplink.ErrInvalidEntry) {
				t.Errorf("50: %v", r.Err)
			}
		case 100:
			if r.Err == nil || vpplink.IsSessionLost(r.Err) || !strings.Contains(r.Err.Error(), bad.String()) {
				t.Errorf("100: %v", r.Err)
			}
		default:
			if r.Err != nil {
				t.Errorf("%d: %v", i, r.Err)
			}
		}
	}
	held := map[uint32]types.Key{}
	for _, tr := range sim.Translations() {
		held[tr.ID] = tr.Entry.Key()
	}
	if len(held) != n-2 {
		t.Errorf("%d translations, want %d", len(held), n-2)
	}
	if err := s.Err(); err != nil {
		t.Errorf("the session ended: %v", err)
	}
}

// TestBatchOrder: delete and create of a recreate arrive next to each other.
func TestBatchOrder(t *testing.T) {
	sim := startSim(t)
	s := dial(t, config(t, sim.Socket()))
	e := entry(1, "10.244.1.5:8080")
	id, err := s.CnatTranslateAdd(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	c := e.Clone()
	c.LBType = types.LBMaglev
	for _, r := range s.CnatTranslateBatch(t.Context(), []types.CnatWrite{{ID: id}, {Entry: &c}}) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if got := sim.Translations(); len(got) != 1 || got[0].Entry.LBType != types.LBMaglev {
		t.Errorf("VPP holds %v", got)
	}
}

// TestLargeDump: no reply is lost however many there are (govpp drops replies
// that wait too long).
func TestLargeDump(t *testing.T) {
	sim := startSim(t)
	const n = 20000
	entries := make([]types.CnatTranslateEntry, n)
	for i := range entries {
		entries[i] = *entry(i, "10.244.1.5:8080", "10.244.1.6:8080")
	}
	if err := sim.Load(entries); err != nil {
		t.Fatal(err)
	}
	s := dial(t, config(t, sim.Socket()))
	dump, err := s.CnatTranslationDump(t.Context())
	if err != nil || len(dump) != n {
		t.Fatalf("%d translations, %v; want %d", len(dump), err, n)
	}
	if !slices.IsSortedFunc(dump, func(a, b types.Translation) int { return a.Entry.Key().Compare(b.Entry.Key()) }) {
		t.Error("the dump is not sorted by key")
	}
}

// TestEndsWithSession is L1 and scenario 44: whatever becomes of VPP during a
// call, the call ends within its deadline, and the session with it.
func TestEndsWithSession(t *testing.T) {
	update := func(ctx context.Context, s *vpplink.Session) error {
		_, err := s.CnatTranslateAdd(ctx, entry(1, "10.244.1.5:8080"))
		return err
	}
	dump := func(ctx context.Context, s *vpplink.Session) error {
		_, err := s.CnatTranslationDump(ctx)
		return err
	}
	batch := func(ctx context.Context, s *vpplink.Session) error {
		writes := make([]types.CnatWrite, 300)
		for i := range writes {
			writes[i].Entry = entry(i, "10.244.1.5:8080")
		}
		return s.CnatTranslateBatch(ctx, writes)[299].Err
	}
	for _, tc := range []struct {
		name  string
		fault func(*vppsim.Sim)
		call  func(context.Context, *vpplink.Session) error
	}{
		{"stopped during an update", func(s *vppsim.Sim) { s.Stall() }, update},
		{"stopped during a dump", func(s *vppsim.Sim) { s.Stall() }, dump},
		{"killed before an update", func(s *vppsim.Sim) { s.SetFaults(vppsim.Faults{DieBefore: 1}) }, update},
		{"killed after an update", func(s *vppsim.Sim) { s.SetFaults(vppsim.Faults{DieAfter: 1}) }, update},
		{"killed in the middle of a batch", func(s *vppsim.Sim) { s.SetFaults(vppsim.Faults{DieAfter: 150}) }, batch},
		{"link cut in the middle of a batch", func(s *vppsim.Sim) { s.SetFaults(vppsim.Faults{CutAfter: 150}) }, batch},
		{"a reply is lost", func(s *vppsim.Sim) { s.SetFaults(vppsim.Faults{DropReply: 1}) }, update},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sim := startSim(t)
			cfg := config(t, sim.Socket())
			cfg.CallTimeout = 300 * time.Millisecond
			s := dial(t, cfg)
			tc.fault(sim)
			start := time.Now()
			err := tc.call(t.Context(), s)
			if !vpplink.IsSessionLost(err) {
				t.Errorf("error %v, want a lost session", err)
			}
			if d := time.Since(start); d > 2*time.Second {
				t.Errorf("the call took %s", d)
			}
			<-s.Done()
			if err := update(t.Context(), s); !vpplink.IsSessionLost(err) {
				t.Errorf("a call after the end: %v", err)
			}
			sim.Resume()
		})
	}
}

// TestIdleSessionNoticesDeath: nobody need call for VPP's death to be noticed.
func TestIdleSessionNoticesDeath(t *testing.T) {
	sim := startSim(t)
	s := dial(t, config(t, sim.Socket()))
	sim.DropLink()
	select {
	case <-s.Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the session lives on")
	}
}

// TestStoppedWithFullSocket: a write that blocks does not hold the call up, and
// its goroutine ends when VPP goes on.
func TestStoppedWithFullSocket(t *testing.T) {
	sim := startSim(t)
	cfg := config(t, sim.Socket())
	cfg.CallTimeout = 300 * time.Millisecond
	cfg.ConnectTimeout = 300 * time.Millisecond
	cfg.MaxInFlight = 10000
	s := dial(t, cfg)
	big := entry(1)
	for i := range 20000 {
		big.Backends = append(big.Backends, types.Backend{IP: netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), Port: 80})
	}
	sim.Stall()
	start := time.Now()
	if _, err := s.CnatTranslateAdd(t.Context(), big); !vpplink.IsSessionLost(err) {
		t.Errorf("error %v, want a lost session", err)
	}
	if d := time.Since(start); d > 3*time.Second {
		t.Errorf("the call took %s", d)
	}
	sim.Resume()
}

// TestLateReply: the answer to a call that was given up is never taken for
// that of another one.
func TestLateReply(t *testing.T) {
	sim := startSim(t)
	s := dial(t, config(t, sim.Socket()))
	sim.Stall()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.CnatTranslateAdd(ctx, entry(1, "10.244.1.5:8080")); !vpplink.IsSessionLost(err) {
		t.Fatalf("error %v, want a lost session", err)
	}
	sim.Resume()
	if _, err := s.CnatTranslateAdd(t.Context(), entry(2, "10.244.1.5:8080")); !vpplink.IsSessionLost(err) {
		t.Errorf("error %v, want a lost session", err)
	}
}

// TestCancelledBeforeSending costs nothing: the session lives on.
func TestCancelledBeforeSending(t *testing.T) {
	sim := startSim(t)
	s := dial(t, config(t, sim.Socket()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.CnatTranslateAdd(ctx, entry(1, "10.244.1.5:8080")); !errors.Is(err, context.Canceled) || vpplink.IsSessionLost(err) {
		t.Errorf("error %v", err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestConnectErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	mute := filepath.Join(t.TempDir(), "mute.sock")
	l, err := net.Listen("unix", mute)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	old := startSim(t, func(c *vppsim.Config) {
		c.Version, c.HideMessages = "25.10-release", []string{"feature_cnat_enable_disable"}
	})
	bare := startSim(t, func(c *vppsim.Config) {
		c.HideMessages = []string{"cnat_translation_update", "cnat_translation_del", "cnat_translation_dump", "feature_cnat_enable_disable"}
	})
	for _, tc := range []struct {
		name, socket string
		is           error
		says         []string
	}{
		{"no socket", "/nonexistent/api.sock", vpplink.ErrSocketMissing, []string{"/nonexistent/api.sock", "start VPP"}},
		{"a file", file, vpplink.ErrSocketMissing, []string{"not a socket"}},
		{"nobody answers", mute, nil, []string{"is VPP running"}},
		{"older than 26.06", old.Socket(), vpplink.ErrIncompatible, []string{"25.10-release", "26.06", "feature_cnat_enable_disable_5501adee"}},
		{"no cnat plugin", bare.Socket(), vpplink.ErrIncompatible, []string{"cnat_plugin.so", "cnat_translation_update_f8d40bc5"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := config(t, tc.socket)
			cfg.ConnectTimeout = 200 * time.Millisecond
			s, err := vpplink.Connect(t.Context(), cfg)
			if err == nil {
				s.Close()
				t.Fatal("no error")
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("error %v is not %v", err, tc.is)
			}
			for _, w := range tc.says {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not say %q", err, w)
				}
			}
		})
	}
}

func TestInstance(t *testing.T) {
	sim := startSim(t)
	cfg := config(t, sim.Socket())
	s := dial(t, cfg)
	first, fresh, err := s.Instance(t.Context())
	if err != nil || !fresh || first == "" {
		t.Fatalf("%q, %v, %v", first, fresh, err)
	}
	if again, fresh, err := s.Instance(t.Context()); again != first || fresh || err != nil {
		t.Errorf("%q, %v, %v; want %q", again, fresh, err, first)
	}
	sim.DropLink()
	<-s.Done()
	if same, fresh, err := dial(t, cfg).Instance(t.Context()); same != first || fresh || err != nil {
		t.Errorf("after a reconnect %q, %v, %v; want %q", same, fresh, err, first)
	}
	if err := sim.Restart(); err != nil {
		t.Fatal(err)
	}
	if other, fresh, err := dial(t, cfg).Instance(t.Context()); other == first || !fresh || err != nil {
		t.Errorf("another VPP is %q, %v, %v", other, fresh, err)
	}
}

func TestSnat(t *testing.T) {
	sim := startSim(t)
	s := dial(t, config(t, sim.Socket()))
	ctx := t.Context()
	v4, v6 := netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("2001:db8::11")
	pfx := netip.MustParsePrefix("10.96.0.0/16")
	for _, err := range []error{s.SetSnatPolicy(ctx, types.SnatK8s), s.AddSnatPrefix(ctx, pfx), s.DelSnatPrefix(ctx, pfx)} {
		if !errors.Is(err, vpplink.ErrInvalidEntry) || sim.Crashed() != "" {
			t.Fatalf("scenario 28: before any address: error %v, VPP crashed %q", err, sim.Crashed())
		}
	}
	for _, err := range []error{
		s.SetSnatAddresses(ctx, v4, v6),
		s.SetSnatPolicy(ctx, types.SnatK8s),
		s.AddSnatPrefix(ctx, pfx), s.AddSnatPrefix(ctx, netip.MustParsePrefix("fd00:10:96::/112")),
		s.AddSnatInterface(ctx, 1, types.SnatHost), s.EnableCnatFeature(ctx, 1), s.EnableCnatFeature(ctx, 1),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got := sim.SNAT()
	if got.IP4 != v4 || got.IP6 != v6 || len(got.Excluded) != 2 || !slices.Equal(got.Host, []uint32{1}) || !slices.Equal(got.Features, []uint32{1}) {
		t.Errorf("VPP holds %+v", got)
	}
	if a, b, err := s.SnatAddresses(ctx); a != v4 || b != v6 || err != nil {
		t.Errorf("%s, %s, %v", a, b, err)
	}
	for range 2 { // the second time there is nothing to remove
		if err := s.DelSnatPrefix(ctx, pfx); err != nil {
			t.Error(err)
		}
	}
	for _, err := range []error{s.DelSnatInterface(ctx, 1, types.SnatHost), s.DisableCnatFeature(ctx, 1), s.DisableCnatFeature(ctx, 1)} {
		if err != nil {
			t.Error(err)
		}
	}
	if got := sim.SNAT(); len(got.Excluded) != 1 || len(got.Host) != 0 || len(got.Features) != 0 {
		t.Errorf("VPP holds %+v", got)
	}
	for _, err := range []error{
		s.SetSnatAddresses(ctx, v6, v4), s.SetSnatPolicy(ctx, 9), s.AddSnatInterface(ctx, 1, 9),
		s.AddSnatPrefix(ctx, netip.MustParsePrefix("10.96.0.1/16")),
	} {
		if !errors.Is(err, vpplink.ErrInvalidEntry) {
			t.Errorf("error %v, want ErrInvalidEntry", err)
		}
	}
}

func TestInterfaces(t *testing.T) {
	sim := startSim(t)
	got, err := dial(t, config(t, sim.Socket())).Interfaces(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Name != "local0" || fmt.Sprint(got[1].Addresses) != "[192.0.2.11/24 2001:db8::11/64]" {
		t.Errorf("interfaces %+v", got)
	}
}

// TestCloseTakesLeave: VPP keeps no dead client, however often one comes and
// goes (scenario 49).
func TestCloseTakesLeave(t *testing.T) {
	sim := startSim(t)
	cfg := config(t, sim.Socket())
	for range 50 {
		dial(t, cfg).Close()
	}
	waitFor(t, "50 have taken leave", func() bool { return sim.Calls()["sockclnt_delete"] == 50 })
	waitFor(t, "no clients", func() bool { return sim.Clients() == 0 })
}

// TestLink follows a link over cuts, a new VPP, and a VPP that is away for a while.
func TestLink(t *testing.T) {
	sim := startSim(t)
	link := vpplink.NewLink(config(t, sim.Socket()), nil)
	var tb tomb.Tomb
	tb.Go(func() error { return link.Serve(&tb) })
	defer func() {
		tb.Kill(nil)
		if err := tb.Wait(); err != nil {
			t.Error(err)
		}
	}()
	next := func(up bool) *vpplink.Session {
		t.Helper()
		select {
		case e := <-link.Events():
			if (e.Session != nil) != up || (e.Err != nil) == up {
				t.Fatalf("event %+v, want up %v", e, up)
			}
			return e.Session
		case <-time.After(5 * time.Second):
			t.Fatal("no event")
		}
		return nil
	}
	first := next(true)
	sim.DropLink()
	next(false)
	second := next(true)
	if err := first.Ping(t.Context()); !vpplink.IsSessionLost(err) {
		t.Errorf("the session of before answers: %v", err)
	}
	sim.SetFaults(vppsim.Faults{DieBefore: 1})
	if _, err := second.CnatTranslateAdd(t.Context(), entry(1, "10.244.1.5:8080")); !vpplink.IsSessionLost(err) {
		t.Errorf("error %v", err)
	}
	next(false) // lost
	next(false) // and not to be had again
	if err := sim.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := next(true).Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func BenchmarkUpdatePipelined(b *testing.B) {
	sim, err := vppsim.New(vppsim.Config{Socket: filepath.Join(b.TempDir(), "api.sock")})
	if err != nil {
		b.Fatal(err)
	}
	defer sim.Close()
	s, err := vpplink.Connect(b.Context(), vpplink.DefaultConfig(sim.Socket()))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	writes := make([]types.CnatWrite, 1000)
	for i := range writes {
		writes[i].Entry = entry(i, "10.244.1.5:8080", "10.244.1.6:8080")
	}
	for b.Loop() {
		for _, r := range s.CnatTranslateBatch(b.Context(), writes) {
			if r.Err != nil {
				b.Fatal(r.Err)
			}
		}
	}
	b.ReportMetric(float64(len(writes)*b.N)/b.Elapsed().Seconds(), "updates/s")
}

// TestConnectToDyingVPP: a VPP that goes during the handshake gives no session.
func TestConnectToDyingVPP(t *testing.T) {
	sim := startSim(t)
	sim.SetFaults(vppsim.Faults{Messages: []string{"show_version"}, CutBefore: 1})
	cfg := config(t, sim.Socket())
	cfg.CallTimeout = 200 * time.Millisecond
	if s, err := vpplink.Connect(t.Context(), cfg); !vpplink.IsSessionLost(err) {
		t.Errorf("%v, %v; want a lost session", s, err)
	}
}

// TestLeaveAlone: of several clients one takes leave, and VPP and the others
// live on. What is sent must be the client's own index, which VPP does not check.
func TestLeaveAlone(t *testing.T) {
	sim := startSim(t)
	var sessions []*vpplink.Session
	for range 4 {
		sessions = append(sessions, dial(t, config(t, sim.Socket())))
	}
	for i, s := range sessions {
		s.Close()
		for _, other := range sessions[i+1:] {
			if err := other.Ping(t.Context()); err != nil {
				t.Fatalf("when client %d had left: %v (%s)", i, err, sim.Crashed())
			}
		}
	}
}
