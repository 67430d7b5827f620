// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vppsim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"testing"

	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/codec"
)

// FuzzFrames feeds bytes to the decoder of frames: every one ends in a
// message, an error that says so, or the end.
func FuzzFrames(f *testing.F) {
	f.Add(framed([]byte{0, 15, 0, 0, 0, 1}))
	f.Add(append(framed(make([]byte, 10)), framed(make([]byte, 7))...))
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		buf := make([]byte, 0, 16)
		for {
			msg, err := readFrame(r, buf)
			if err != nil {
				if !errors.Is(err, errFrame) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Fatal(err)
				}
				return
			}
			if len(msg) < replyOffset || len(msg) > maxMessage || cap(msg) != len(msg) {
				t.Fatalf("%d bytes, capacity %d", len(msg), cap(msg))
			}
		}
	})
}

// FuzzRequests sends messages of any content to a simulator. It may die of
// them as VPP does, but not otherwise, and its pools must stay consistent.
func FuzzRequests(f *testing.F) {
	names := []string{}
	byName := map[string]*method{}
	for _, m := range methods() {
		names = append(names, m.name)
		byName[m.name] = m
	}
	slices.Sort(names)
	add := func(name string, m codec.Marshaler) {
		body, err := m.Marshal(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append([]byte{byte(slices.Index(names, name)), byte(len(body) >> 8), byte(len(body))}, body...))
	}
	e := entry("10.96.0.1:80", "10.244.0.5:8080")
	add("cnat_translation_update", &cnat.CnatTranslationUpdate{Translation: *apiTranslation(&e)})
	add("cnat_translation_del", &cnat.CnatTranslationDel{})
	add("ip_route_add_del", &ip.IPRouteAddDel{IsAdd: true, Route: ip.IPRoute{Prefix: apiPrefix(contractConfig.Interfaces[0].Addresses[0])}})
	add("ip_table_add_del", &ip.IPTableAddDel{IsAdd: true, Table: ip.IPTable{TableID: 1, Name: "x"}})
	add("ip_route_dump", &ip.IPRouteDump{})
	add("cnat_set_snat_addresses", &cnat.CnatSetSnatAddresses{})

	f.Fuzz(func(t *testing.T, data []byte) {
		sim := build(Config{Seed: 1})
		sim.renew()
		here, there := net.Pipe()
		defer there.Close()
		c := &client{conn: here, inst: sim.inst, index: 1, wake: make(chan struct{}, 1), gone: make(chan struct{})}
		defer c.drop()
		sim.clients[c.index] = c
		for len(data) >= 3 {
			name, n := names[int(data[0])%len(names)], int(binary.BigEndian.Uint16(data[1:]))
			body := data[3:min(3+n, len(data))]
			data = data[3+len(body):]
			msg := make([]byte, requestOffset, requestOffset+len(body))
			binary.BigEndian.PutUint16(msg, sim.inst.ids[name+"_"+byName[name].crc])
			binary.BigEndian.PutUint32(msg[2:], c.index)
			if !sim.handle(c, slices.Clip(append(msg, body...))) {
				break // dead or left
			}
		}
		checkConsistent(t, sim.inst)
		sim.Trace(packet("10.0.0.1:1", "10.96.0.1:80", 1))
		sim.Translations()
		sim.SNAT()
		sim.Routes()
	})
}

// checkConsistent counts everything that the instance counts once more.
func checkConsistent(t *testing.T, in *instance) {
	t.Helper()
	cs := &in.cnat
	per := map[*vip]int{}
	tracked := 0
	for id, tr := range cs.pool {
		if free := slices.Contains(cs.free, uint32(id)); free != (tr == nil) {
			t.Fatalf("translation %d: free %v, there %v", id, free, tr != nil)
		}
		if tr == nil {
			continue
		}
		if tr.owner != nil {
			per[tr.owner]++
			if cs.find(tr.owner, tr.vip.port, tr.proto) != tr {
				t.Fatalf("translation %d is not found by its key", id)
			}
		}
		for _, p := range tr.paths {
			if p.flags&pathActive != 0 {
				tracked++
			}
		}
	}
	for v := range maps.Values(cs.vips) {
		if v.translations != per[v] || cs.byIndex[v.index] != v {
			t.Fatalf("%s: %d translations counted, %d there", v.addr, v.translations, per[v])
		}
		delete(per, v)
	}
	if len(per) > 0 {
		t.Fatalf("%d addresses forgotten", len(per))
	}
	for _, n := range cs.tracked {
		tracked -= n
	}
	// A duplicate path that an update lost track of stays tracked, as in VPP.
	if tracked > 0 {
		t.Fatalf("%d active paths are not tracked", tracked)
	}
}
