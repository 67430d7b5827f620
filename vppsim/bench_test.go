// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/memclnt"

	"calico-vpp-services/vpplink/types"
)

// many entries with ten backends each.
func manyEntries(n int) []types.CnatTranslateEntry {
	out := make([]types.CnatTranslateEntry, n)
	for i := range out {
		e := types.CnatTranslateEntry{Proto: types.TCP, IP: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), Port: 80}
		for b := range 10 {
			e.Backends = append(e.Backends, types.Backend{IP: netip.AddrFrom4([4]byte{10, 244, byte(i), byte(b)}), Port: 8080})
		}
		out[i] = e
	}
	return out
}

// BenchmarkUpdate writes translations of ten paths over one connection, 64 in flight.
func BenchmarkUpdate(b *testing.B) {
	sim := newSim(b, Config{})
	c := dialRaw(b, sim).open()
	c.conn.SetDeadline(time.Time{})
	frames := make([][]byte, 20000)
	for i, e := range manyEntries(len(frames)) {
		m := &cnat.CnatTranslationUpdate{Translation: *apiTranslation(&e)}
		frames[i] = framed(encode(b, m, c.ids[nameCRC(m)], c.index, uint32(i)))
	}
	slots := make(chan struct{}, 64)
	b.ResetTimer()
	done := make(chan error)
	go func() {
		for range b.N {
			if _, err := readFrame(c.conn, nil); err != nil {
				done <- err
				return
			}
			<-slots
		}
		done <- nil
	}()
	for i := range b.N {
		slots <- struct{}{}
		c.write(frames[i%len(frames)])
	}
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "updates/s")
}

// BenchmarkDump dumps 20,000 translations of ten paths each.
func BenchmarkDump(b *testing.B) {
	sim := newSim(b, Config{})
	if err := sim.Load(manyEntries(20000)); err != nil {
		b.Fatal(err)
	}
	c := dialRaw(b, sim).open()
	c.conn.SetDeadline(time.Time{})
	ping := c.ids["control_ping_reply_f6b0b8ca"]
	for b.Loop() {
		c.send(&cnat.CnatTranslationDump{}, 1)
		c.send(&memclnt.ControlPing{}, 2)
		n := 0
		buf := make([]byte, 1024)
		for {
			msg, err := readFrame(c.conn, buf)
			if err != nil {
				b.Fatal(err)
			}
			if binary.BigEndian.Uint16(msg) == ping {
				break
			}
			n++
		}
		if n != 20000 {
			b.Fatal(fmt.Errorf("%d details", n))
		}
	}
}
