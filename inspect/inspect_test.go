// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	"go.uber.org/goleak"
	tomb "gopkg.in/tomb.v2"

	"calico-vpp-services/services"
	"calico-vpp-services/services/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type fakeSource struct {
	rows      []*model.TranslationState
	resyncErr error
}

func (f *fakeSource) Translations() []*model.TranslationState { return f.rows }
func (f *fakeSource) Status() services.Status                 { return services.Status{Keys: len(f.rows), Drift: 3} }
func (f *fakeSource) Resync(context.Context) error            { return f.resyncErr }

func rows() []*model.TranslationState {
	id := uint32(3)
	return []*model.TranslationState{
		{
			Proto: "TCP", IP: "198.51.100.10", Port: 80, Service: "shop/b", Kind: "ExternalIP", State: model.StateProgrammed, VPPID: &id,
			LBType: "maglev", Hash: []string{"srcaddr"}, Waiting: []model.ServiceID{"shop/a"},
			Backends: []model.BackendState{{IP: "10.244.1.5", Port: 8080}, {IP: "10.244.1.6", Port: 8080, NoNAT: true}, {IP: "10.244.1.7", Port: 8080}, {IP: "10.244.1.8", Port: 8080}},
		},
		{
			Proto: "UDP", IP: "fd00::1", Port: 53, Service: "shop/dns", Kind: "ClusterIP", State: model.StateFailed, LBType: "default",
			Hash: []string{}, Backends: []model.BackendState{}, Waiting: []model.ServiceID{}, Error: "VPP says no",
		},
		{
			Proto: "TCP", IP: "192.0.2.11", Port: 30080, Service: "shop/b", Kind: "NodePort", State: model.StateUnserved, Unserved: "drop",
			LBType: "default", Hash: []string{}, Real: true, Backends: []model.BackendState{}, Waiting: []model.ServiceID{},
		},
	}
}

func serve(t *testing.T, path string, src Source) {
	t.Helper()
	log, _ := logtest.NewNullLogger()
	s, err := NewServer(path, logrus.NewEntry(log))
	if err != nil {
		t.Fatal(err)
	}
	var tb tomb.Tomb
	tb.Go(func() error { return s.ServeAdmin(&tb, src) })
	t.Cleanup(func() {
		tb.Kill(nil)
		if err := errors.Join(tb.Wait(), s.Close()); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Error("the socket is still there")
		}
	})
}

func TestAskAnAgent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "admin.sock")
	src := &fakeSource{rows: rows()}
	serve(t, path, src)
	c := NewClient(path)
	defer c.Close()
	got, err := c.Translations(t.Context())
	if err != nil || len(got) != 3 || *got[0].VPPID != 3 || got[1].Error != "VPP says no" || got[1].VPPID != nil {
		t.Errorf("%v, %v", got, err)
	}
	if st, err := c.Status(t.Context()); err != nil || st.Keys != 3 {
		t.Errorf("%+v, %v", st, err)
	}
	if st, err := c.Resync(t.Context()); err != nil || st.Drift != 3 {
		t.Errorf("%+v, %v", st, err)
	}
	src.resyncErr = errors.New("VPP is away")
	if _, err := c.Resync(t.Context()); err == nil || !strings.Contains(err.Error(), "VPP is away") {
		t.Errorf("%v", err)
	}
}

func TestSocket(t *testing.T) {
	log, _ := logtest.NewNullLogger()
	dir := t.TempDir()
	try := func(path string) error {
		s, err := NewServer(path, logrus.NewEntry(log))
		if err == nil {
			err = s.Close()
		}
		return err
	}
	stale := filepath.Join(dir, "stale.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := try(stale); err != nil {
		t.Errorf("a dead agent's socket: %v", err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := try(file); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("a file: %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "precious" {
		t.Errorf("the file was touched: %q, %v", text, err)
	}
	if err := try(filepath.Join(dir, strings.Repeat("x", 120))); err == nil || !strings.Contains(err.Error(), "shorter") {
		t.Errorf("a long path: %v", err)
	}
	if err := try(filepath.Join(file, "admin.sock")); err == nil || !strings.Contains(err.Error(), "--admin-socket") {
		t.Errorf("below a file: %v", err)
	}
	living := filepath.Join(dir, "living.sock")
	serve(t, living, &fakeSource{})
	if err := try(living); err == nil || !strings.Contains(err.Error(), "another agent") {
		t.Errorf("a living agent's socket: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".s*"))
	if err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestClientSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, "dead.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{filepath.Join(dir, "none"): "is it running", dead: "start it again"} {
		if _, err := NewClient(path).Translations(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestPrint(t *testing.T) {
	for _, tc := range []struct {
		format Format
		want   string
	}{
		{Table, `PROTO  ADDRESS           SERVICE   KIND        STATE       BACKENDS                                                             WAITING
TCP    198.51.100.10:80  shop/b    ExternalIP  programmed  10.244.1.5:8080, 10.244.1.6:8080 (no NAT), 10.244.1.7:8080, +1 more  shop/a
UDP    [fd00::1]:53      shop/dns  ClusterIP   failed      -                                                                    -
TCP    192.0.2.11:30080  shop/b    NodePort    unserved    -                                                                    -
UDP [fd00::1]:53: VPP says no
`},
		{Wide, `PROTO  ADDRESS           SERVICE   KIND        STATE       BACKENDS                                                                     WAITING  VPP-ID  LB       HASH     REAL   UNSERVED  ERROR
TCP    198.51.100.10:80  shop/b    ExternalIP  programmed  10.244.1.5:8080, 10.244.1.6:8080 (no NAT), 10.244.1.7:8080, 10.244.1.8:8080  shop/a   3       maglev   srcaddr  false  -         -
UDP    [fd00::1]:53      shop/dns  ClusterIP   failed      -                                                                            -        -       default  -        false  -         VPP says no
TCP    192.0.2.11:30080  shop/b    NodePort    unserved    -                                                                            -        -       default  -        true   drop      -
`},
		{YAML, `- backends: []
  error: VPP says no
  hash: []
  ip: fd00::1
  kind: ClusterIP
  lbType: default
  port: 53
  proto: UDP
  real: false
  service: shop/dns
  state: failed
  vppID: null
  waiting: []
`},
	} {
		t.Run(string(tc.format), func(t *testing.T) {
			list := rows()
			if tc.format == YAML {
				list = list[1:2]
			}
			var out bytes.Buffer
			if err := Print(&out, tc.format, list); err != nil || out.String() != tc.want {
				t.Errorf("%v\n%s\nwant\n%s", err, out.String(), tc.want)
			}
		})
	}
	if _, err := ParseFormat("xml", Table, JSON); err == nil || !strings.Contains(err.Error(), "table, json") {
		t.Errorf("%v", err)
	}
}

// TestCloseLeavesTheNextOne: an agent that ends slowly does not take away the
// socket of the one that was started meanwhile.
func TestCloseLeavesTheNextOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	log, _ := logtest.NewNullLogger()
	old, err := NewServer(path, logrus.NewEntry(log))
	if err != nil {
		t.Fatal(err)
	}
	if err := old.listener.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := NewServer(path, logrus.NewEntry(log))
	if err != nil {
		t.Fatal(err)
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the next agent's socket is gone: %v", err)
	}
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the socket outlives its agent")
	}
}
