// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.fd.io/govpp/adapter/socketclient"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/memclnt"
	"go.fd.io/govpp/binapi/vpe"
	"go.fd.io/govpp/core"
	"go.uber.org/goleak"

	"calico-vpp-services/vpplink/binapi2606"
	"calico-vpp-services/vpplink/types"
)

func TestMain(m *testing.M) {
	binapi2606.Register()
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	core.SetLogger(quiet)
	socketclient.SetLogger(quiet)
	goleak.VerifyTestMain(m)
}

// newSim starts a simulator that the test closes.
func newSim(t testing.TB, cfg Config) *Sim {
	t.Helper()
	// Not t.TempDir: a test's name can be longer than a socket path may be.
	dir, err := os.MkdirTemp("", "vppsim")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cfg.Socket = filepath.Join(dir, "api.sock")
	sim, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sim.Close()
		if t.Failed() {
			t.Logf("seed %d", sim.Seed())
		}
	})
	return sim
}

// connect opens a govpp connection, the production one, that the test closes.
func connect(t testing.TB, sim *Sim) *core.Connection {
	t.Helper()
	conn, err := core.Connect(socketclient.NewVppClient(sim.Socket()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Disconnect)
	return conn
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// invoke makes a call that must be answered, and returns the error VPP gave.
func invoke[R any](t testing.TB, conn *core.Connection, req, reply api.Message, retval *R) R {
	t.Helper()
	if err := conn.Invoke(testContext(t), req, reply); err != nil {
		t.Fatalf("%s: %v", req.GetMessageName(), err)
	}
	return *retval
}

func update(t testing.TB, conn *core.Connection, e types.CnatTranslateEntry) (id uint32, retval int32) {
	t.Helper()
	var r cnat.CnatTranslationUpdateReply
	invoke(t, conn, &cnat.CnatTranslationUpdate{Translation: *apiTranslation(&e)}, &r, &r.Retval)
	return r.ID, r.Retval
}

func del(t testing.TB, conn *core.Connection, id uint32) int32 {
	t.Helper()
	var r cnat.CnatTranslationDelReply
	return invoke(t, conn, &cnat.CnatTranslationDel{ID: id}, &r, &r.Retval)
}

func dump(t testing.TB, conn *core.Connection) []cnat.CnatTranslation {
	t.Helper()
	c, err := cnat.NewServiceClient(conn).CnatTranslationDump(testContext(t), &cnat.CnatTranslationDump{})
	if err != nil {
		t.Fatal(err)
	}
	out := []cnat.CnatTranslation{}
	for {
		d, err := c.Recv()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, d.Translation)
	}
}

// entry reads "10.96.0.1:80" and backends of that form, TCP.
func entry(vip string, backends ...string) types.CnatTranslateEntry {
	v := netip.MustParseAddrPort(vip)
	e := types.CnatTranslateEntry{Proto: types.TCP, IP: v.Addr(), Port: v.Port()}
	for _, b := range backends {
		ap := netip.MustParseAddrPort(b)
		e.Backends = append(e.Backends, types.Backend{IP: ap.Addr(), Port: ap.Port()})
	}
	return e
}

func TestConnect(t *testing.T) {
	sim := newSim(t, Config{})
	if fi, err := os.Stat(sim.Socket()); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", fi.Mode(), err)
	}
	conn := connect(t, sim)
	var pong memclnt.ControlPingReply
	invoke(t, conn, &memclnt.ControlPing{}, &pong, &pong.Retval)
	var version vpe.ShowVersionReply
	invoke(t, conn, &vpe.ShowVersion{}, &version, &version.Retval)
	if version.Version != DefaultVersion || pong.VpePID == 0 {
		t.Errorf("version %q, pid %d", version.Version, pong.VpePID)
	}

	id, rv := update(t, conn, entry("10.96.0.1:80", "10.244.0.5:8080", "10.244.0.6:8080"))
	if rv != 0 {
		t.Fatal(rv)
	}
	got := dump(t, conn)
	if len(got) != 1 || got[0].ID != id || len(got[0].Paths) != 2 {
		t.Errorf("dump: %+v", got)
	}
	if rv := del(t, conn, id); rv != 0 {
		t.Errorf("del: %d", rv)
	}
	if got := sim.Translations(); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
	if got := sim.Calls(); got["cnat_translation_update"] != 1 || got["cnat_translation_del"] != 1 || sim.Writes() != 2 {
		t.Errorf("calls: %v, %d writes", got, sim.Writes())
	}
}
