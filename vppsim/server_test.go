// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
	interfaces "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/memclnt"
	"go.fd.io/govpp/codec"
	"go.uber.org/goleak"
	"gopkg.in/tomb.v2"

	"calico-vpp-services/vpplink/types"
)

// rawClient speaks the transport without govpp, so that it can say anything.
type rawClient struct {
	t     testing.TB
	conn  net.Conn
	index uint32
	ids   map[string]uint16
	names map[uint16]string
}

func dialRaw(t testing.TB, sim *Sim) *rawClient {
	t.Helper()
	conn, err := net.Dial("unix", sim.Socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	return &rawClient{t: t, conn: conn}
}

// open does what every client starts with.
func (c *rawClient) open() *rawClient {
	c.t.Helper()
	c.frame(encode(c.t, &memclnt.SockclntCreate{Name: "raw"}, createID, 0, 0x7b))
	msg := c.recv()
	var r memclnt.SockclntCreateReply
	if err := codec.DecodeMsg(msg, &r); err != nil {
		c.t.Fatal(err)
	}
	if context := binary.BigEndian.Uint32(msg[6:]); context != 0x7b || r.Response != 0 {
		c.t.Fatalf("sockclnt_create_reply: context %#x, %d", context, r.Response)
	}
	c.index = r.Index
	c.ids, c.names = map[string]uint16{}, map[uint16]string{}
	for _, e := range r.MessageTable {
		c.ids[e.Name], c.names[e.Index] = e.Index, e.Name
	}
	return c
}

func encode(t testing.TB, m api.Message, id uint16, index, context uint32) []byte {
	t.Helper()
	b, err := codec.EncodeMsg(m, id)
	if err != nil {
		t.Fatal(err)
	}
	if id == createID {
		binary.BigEndian.PutUint32(b[2:], context)
		return b
	}
	binary.BigEndian.PutUint32(b[2:], index)
	binary.BigEndian.PutUint32(b[6:], context)
	return b
}

func framed(msg []byte) []byte {
	h := make([]byte, headerLen, headerLen+len(msg))
	binary.BigEndian.PutUint32(h[8:], uint32(len(msg)))
	return append(h, msg...)
}

func (c *rawClient) frame(msg []byte) {
	c.t.Helper()
	c.write(framed(msg))
}

// trySend is send to a VPP that may be gone.
func (c *rawClient) trySend(m api.Message, context uint32) error {
	c.t.Helper()
	_, err := c.conn.Write(framed(encode(c.t, m, c.ids[nameCRC(m)], c.index, context)))
	return err
}

func (c *rawClient) write(b []byte) {
	c.t.Helper()
	if _, err := c.conn.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

func (c *rawClient) send(m api.Message, context uint32) {
	c.t.Helper()
	c.frame(encode(c.t, m, c.ids[nameCRC(m)], c.index, context))
}

func (c *rawClient) recv() []byte {
	c.t.Helper()
	msg, err := readFrame(c.conn, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return msg
}

// next returns name and context of the next reply.
func (c *rawClient) next() string {
	c.t.Helper()
	msg := c.recv()
	name := c.names[binary.BigEndian.Uint16(msg)]
	return fmt.Sprintf("%s %d", name[:len(name)-9], binary.BigEndian.Uint32(msg[2:]))
}

// pong makes sure that everything before it was handled and not answered.
func (c *rawClient) pong() {
	c.t.Helper()
	c.send(&memclnt.ControlPing{}, 4711)
	if got := c.next(); got != "control_ping_reply 4711" {
		c.t.Fatalf("got %s instead of the pong", got)
	}
}

// closed expects the connection to be closed by VPP without a word.
func (c *rawClient) closed() {
	c.t.Helper()
	if b, err := io.ReadAll(c.conn); len(b) > 0 || err != nil && !strings.Contains(err.Error(), "reset") {
		c.t.Fatalf("not closed: %d bytes, %v", len(b), err)
	}
}

// await polls a condition that no channel tells about.
func await(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

// Replies come in the order of the requests, and a dump's details before the
// reply to the ping behind it.
func TestOrder(t *testing.T) {
	sim := newSim(t, Config{})
	c := dialRaw(t, sim).open()
	e := entry("10.96.0.1:80", "10.244.0.5:8080")
	update := &cnat.CnatTranslationUpdate{Translation: *apiTranslation(&e)}
	other := *update
	other.Translation.Vip.Port = 81
	c.send(update, 1)
	c.send(&memclnt.ControlPing{}, 2)
	c.send(&other, 3)
	c.send(&cnat.CnatTranslationDump{}, 4)
	c.send(&memclnt.ControlPing{}, 5)
	c.send(&cnat.CnatTranslationDel{ID: 0}, 6)
	got := make([]string, 7)
	for i := range got {
		got[i] = c.next()
	}
	want := "cnat_translation_update_reply 1, control_ping_reply 2, cnat_translation_update_reply 3, " +
		"cnat_translation_details 4, cnat_translation_details 4, control_ping_reply 5, cnat_translation_del_reply 6"
	if strings.Join(got, ", ") != want {
		t.Errorf("got %s\nwant %s", strings.Join(got, ", "), want)
	}
}

// What cannot be a frame ends the client that sent it, and nobody else.
func TestMalformedFrames(t *testing.T) {
	header := func(n uint32) []byte {
		h := make([]byte, headerLen)
		binary.BigEndian.PutUint32(h[8:], n)
		return h
	}
	for name, bytes := range map[string][]byte{
		"no message":            header(0),
		"shorter than a header": header(5),
		"too long":              header(maxMessage + 1),
		"all ones":              []byte(strings.Repeat("\xff", 64)),
	} {
		t.Run(name, func(t *testing.T) {
			sim := newSim(t, Config{})
			good, bad := dialRaw(t, sim).open(), dialRaw(t, sim).open()
			bad.write(bytes)
			bad.closed()
			good.pong()
			if got := sim.Stats().Malformed; got != 1 {
				t.Errorf("%d malformed", got)
			}
			await(t, "one client left", func() bool { return sim.Clients() == 1 })
		})
	}
}

// VPP drops a request that it cannot take without an answer and goes on.
func TestRequestsWithoutAnswer(t *testing.T) {
	e := entry("10.96.0.1:80", "10.244.0.5:8080", "10.244.0.6:8080")
	update := &cnat.CnatTranslationUpdate{Translation: *apiTranslation(&e)}
	full := func(c *rawClient) []byte { return encode(t, update, c.ids[nameCRC(update)], c.index, 1) }
	for _, c := range []struct {
		name         string
		msg          func(*rawClient) []byte
		stats        Stats
		translations int
	}{
		{"an id that nobody has", func(*rawClient) []byte { return []byte{0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0} }, Stats{Unknown: 1}, 0},
		{"the id of a reply", func(c *rawClient) []byte {
			r := &cnat.CnatTranslationUpdateReply{}
			b := make([]byte, 64)
			binary.BigEndian.PutUint16(b, c.ids[nameCRC(r)])
			return b
		}, Stats{Unknown: 1}, 0},
		{"no context", func(c *rawClient) []byte { return full(c)[:9] }, Stats{Malformed: 1}, 0},
		{"half an endpoint", func(c *rawClient) []byte { return full(c)[:20] }, Stats{Malformed: 1}, 0},
		{"a path short", func(c *rawClient) []byte { m := full(c); return m[:len(m)-tupleLen] }, Stats{Malformed: 1}, 0},
		{"a byte short", func(c *rawClient) []byte { m := full(c); return m[:len(m)-1] }, Stats{Malformed: 1}, 0},
		{"4 billion paths", func(c *rawClient) []byte {
			m := full(c)
			binary.BigEndian.PutUint32(m[requestOffset+updateCountOffset:], ^uint32(0))
			return m
		}, Stats{Malformed: 1}, 0},
		{"a filter longer than the message", func(c *rawClient) []byte {
			d := &interfaces.SwInterfaceDump{NameFilterValid: true, NameFilter: "abc"}
			m := encode(t, d, c.ids[nameCRC(d)], c.index, 1)
			binary.BigEndian.PutUint32(m[len(m)-7:], ^uint32(0))
			return m
		}, Stats{Malformed: 1}, 0},
		// VPP does what is asked and finds nobody to tell.
		{"somebody else's client index", func(c *rawClient) []byte {
			return encode(t, update, c.ids[nameCRC(update)], c.index+77, 1)
		}, Stats{}, 1},
		{"trailing bytes are no harm", func(c *rawClient) []byte {
			d := &cnat.CnatTranslationDump{}
			return append(encode(t, d, c.ids[nameCRC(d)], c.index, 1), 1, 2, 3)
		}, Stats{}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			sim := newSim(t, Config{})
			client := dialRaw(t, sim).open()
			client.frame(c.msg(client))
			client.pong()
			got := sim.Stats()
			if got.Malformed != c.stats.Malformed || got.Unknown != c.stats.Unknown || got.Stale != 0 {
				t.Errorf("%+v", got)
			}
			if got := len(sim.Translations()); got != c.translations {
				t.Errorf("%d translations", got)
			}
			if why := sim.Crashed(); why != "" {
				t.Errorf("crashed: %s", why)
			}
		})
	}
}

// sockclnt_delete is answered with 1, as VPP does, and ends the connection.
func TestSockclntDelete(t *testing.T) {
	sim := newSim(t, Config{})
	c := dialRaw(t, sim).open()
	for _, want := range []struct {
		index    uint32
		response int32
	}{{c.index + 1, -1}, {c.index, 1}} {
		c.send(&memclnt.SockclntDelete{Index: want.index}, 1)
		var r memclnt.SockclntDeleteReply
		if err := codec.DecodeMsg(c.recv(), &r); err != nil || r.Response != want.response {
			t.Errorf("response %d, %v; want %d", r.Response, err, want.response)
		}
	}
	c.closed()
	await(t, "no client left", func() bool { return sim.Clients() == 0 })
}

// A VPP that was stopped takes bytes and connections, and answers later.
func TestStall(t *testing.T) {
	sim := newSim(t, Config{})
	c := dialRaw(t, sim).open()
	sim.Stall()
	e := entry("10.96.0.1:80", "10.244.0.5:8080")
	c.send(&cnat.CnatTranslationUpdate{Translation: *apiTranslation(&e)}, 1)
	second := dialRaw(t, sim)
	second.frame(encode(t, &memclnt.SockclntCreate{Name: "late"}, createID, 0, 1))
	await(t, "second connection accepted", func() bool { return sim.Clients() == 2 })
	c.conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := c.conn.Read(make([]byte, 1)); n != 0 || !os.IsTimeout(err) {
		t.Fatalf("answered while stopped: %d, %v", n, err)
	}
	if got := sim.Translations(); len(got) != 0 {
		t.Errorf("worked while stopped: %v", got)
	}
	c.conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	sim.Resume()
	if got := c.next(); got != "cnat_translation_update_reply 1" {
		t.Error(got)
	}
	second.recv()
	// Dropping or closing a stopped one must not wait for Resume.
	sim.Stall()
	c.send(&memclnt.ControlPing{}, 2)
	sim.DropLink()
	c.closed()
}

// Scenario: after a restart the ids of the old VPP mean nothing, or worse.
func TestRestart(t *testing.T) {
	sim := newSim(t, Config{Seed: 7})
	if err := sim.Load([]types.CnatTranslateEntry{entry("10.96.0.1:80", "10.244.0.5:8080")}); err != nil {
		t.Fatal(err)
	}
	old := dialRaw(t, sim).open()
	if err := sim.Restart(); err != nil {
		t.Fatal(err)
	}
	old.closed()
	if got := sim.Translations(); len(got) != 0 {
		t.Errorf("kept over the restart: %v", got)
	}
	c := dialRaw(t, sim).open()
	for name, id := range old.ids {
		if c.ids[name] == id && id != createID {
			t.Errorf("%s kept its id %d", name, id)
		}
	}
	// A client that believes the old table is not answered.
	c.frame(encode(t, &memclnt.ControlPing{}, old.ids["control_ping_51077d14"], c.index, 1))
	c.pong()
	if got := sim.Stats(); got.Unknown != 1 || got.Stale != 1 || got.Instances != 2 {
		t.Errorf("%+v", got)
	}
	// Many restarts do not run out of ids.
	for range 300 {
		if err := sim.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	dialRaw(t, sim).open().pong()
}

func TestDropLink(t *testing.T) {
	sim := newSim(t, Config{})
	if err := sim.Load([]types.CnatTranslateEntry{entry("10.96.0.1:80", "10.244.0.5:8080")}); err != nil {
		t.Fatal(err)
	}
	c := dialRaw(t, sim).open()
	sim.DropLink()
	c.closed()
	again := dialRaw(t, sim).open()
	again.pong()
	if len(sim.Translations()) != 1 || again.ids["control_ping_51077d14"] != c.ids["control_ping_51077d14"] {
		t.Error("state or ids changed with the link")
	}
}

// After a crash there is no socket until the restart.
func TestCrash(t *testing.T) {
	sim := newSim(t, Config{})
	c, other := dialRaw(t, sim).open(), dialRaw(t, sim).open()
	crashed := sim.CrashC()
	e := entry("10.96.0.1:80")
	c.send(&cnat.CnatTranslationUpdate{Translation: *apiTranslation(&e)}, 1)
	c.closed()
	other.closed()
	<-crashed
	if why := sim.Crashed(); !strings.Contains(why, "F6") {
		t.Errorf("reason %q", why)
	}
	if _, err := os.Stat(sim.Socket()); !os.IsNotExist(err) {
		t.Errorf("the socket is there: %v", err)
	}
	if err := sim.Restart(); err != nil {
		t.Fatal(err)
	}
	if why := sim.Crashed(); why != "" {
		t.Errorf("still %q", why)
	}
	dialRaw(t, sim).open().pong()
}

func TestNewErrors(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	taken := newSim(t, Config{})
	for _, c := range []struct{ socket, want string }{
		{"", "empty"},
		{filepath.Join(dir, "no", "api.sock"), "no such file"},
		{filepath.Join(file, "api.sock"), "not a directory"},
		{file, "another kind"},
		{taken.Socket(), "is listening"},
		{filepath.Join(dir, strings.Repeat("x", 120)), "unix socket takes"},
	} {
		if sim, err := New(Config{Socket: c.socket}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.socket, err, c.want)
			if sim != nil {
				sim.Close()
			}
		}
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "precious" {
		t.Errorf("the file was touched: %q, %v", b, err)
	}
	// The socket of a process that was killed is taken over.
	stale := filepath.Join(dir, "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	sim, err := New(Config{Socket: stale})
	if err != nil {
		t.Fatal(err)
	}
	sim.Close()
	sim.Close()
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}
	if err := sim.Restart(); err == nil {
		t.Error("a closed simulator was restarted")
	}
}

// Nothing is left running, whatever was going on when the simulator was closed.
func TestNoLeaks(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	dir, err := os.MkdirTemp("", "vppsim")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	sim, err := New(Config{Socket: filepath.Join(dir, "s")})
	if err != nil {
		t.Fatal(err)
	}
	var tmb tomb.Tomb
	tmb.Go(func() error { return sim.Serve(&tmb) })
	conns := []net.Conn{}
	for i := range 20 {
		c := dialRaw(t, sim)
		conns = append(conns, c.conn)
		if i%2 == 0 {
			c.open()
			c.send(&memclnt.ControlPing{}, 1)
		}
	}
	slow := []*rawClient{}
	for range 4 {
		c := dialRaw(t, sim).open()
		slow, conns = append(slow, c), append(conns, c.conn)
	}
	sim.SetFaults(Faults{Messages: []string{"control_ping"}, Delay: time.Hour})
	for _, c := range slow {
		c.send(&memclnt.ControlPing{}, 1)
	}
	await(t, "a slow call under way", func() bool { return sim.Injected()["delay"] > 0 })
	tmb.Kill(nil)
	if err := tmb.Wait(); err != nil {
		t.Error(err)
	}
	for _, c := range conns {
		c.Close()
	}
}

// Everything may be done at once. The race detector is the judge.
func TestConcurrency(t *testing.T) {
	sim := newSim(t, Config{})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for n := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				conn, err := net.Dial("unix", sim.Socket())
				if err != nil {
					continue // between two lives
				}
				conn.SetDeadline(time.Now().Add(time.Second))
				conn.Write(framed(encode(t, &memclnt.SockclntCreate{Name: fmt.Sprint(n)}, createID, 0, 1)))
				if i%3 > 0 {
					readFrame(conn, nil)
				}
				conn.Close()
			}
		})
	}
	for i := range 200 {
		switch i % 5 {
		case 0:
			sim.Restart()
		case 1:
			sim.Stall()
			sim.Load([]types.CnatTranslateEntry{entry("10.96.0.1:80", "10.244.0.5:8080")})
		case 2:
			sim.Resume()
			sim.SetFaults(Faults{Delay: time.Microsecond, DieAfter: 2, Messages: []string{"sockclnt_create"}})
		case 3:
			sim.DropLink()
			sim.Translations()
			sim.Calls()
		case 4:
			sim.Trace(packet("10.0.0.1:1", "10.96.0.1:80", 1))
		}
	}
	sim.Resume()
	close(stop)
	wg.Wait()
}

// TestForeignLeave: a client that takes leave with another one's index kills
// VPP, as soon as that one is heard of.
func TestForeignLeave(t *testing.T) {
	sim := newSim(t, Config{})
	a, b := dialRaw(t, sim).open(), dialRaw(t, sim).open()
	b.send(&memclnt.SockclntDelete{Index: a.index}, 1)
	if got := b.next(); got != "sockclnt_delete_reply 1" {
		t.Errorf("reply %q", got)
	}
	if why := sim.Crashed(); why != "" {
		t.Fatalf("VPP died too early: %s", why)
	}
	a.send(&memclnt.ControlPing{}, 1)
	select {
	case <-sim.CrashC():
	case <-time.After(10 * time.Second):
		t.Error("VPP lives")
	}
}
