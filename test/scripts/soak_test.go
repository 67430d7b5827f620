// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"

	"calico-vpp-services/services/model"
	"calico-vpp-services/services/resolve"
	"calico-vpp-services/vpplink/types"
	"calico-vpp-services/vppsim"
)

const soakWeb = `apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web}
spec: {type: ClusterIP, clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], ipFamilies: [IPv4], ports: [{port: 80, protocol: TCP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: "", port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.244.%d.%d], nodeName: node-a}]
`

// soak starts an agent that knows the Service, with its endpoint at n.
func soak(t *testing.T) (r *rig, told func(op model.Op, n int)) {
	t.Helper()
	r, err := newRig(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.manners(); err != nil {
			t.Error(err)
		}
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
	cfg, flags, err := parseAgent([]string{"-cnat-interface", "uplink0"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.start(cfg, flags, nil, false); err != nil {
		t.Fatal(err)
	}
	return r, func(op model.Op, n int) {
		events, err := readObjects("soak", fmt.Appendf(nil, soakWeb, n>>8&255, n&255), resolve.Selection{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range events {
			events[i].Op = op
		}
		if err := r.send(events...); err != nil {
			t.Fatal(err)
		}
		if err := r.settle(); err != nil {
			t.Fatal(err)
		}
	}
}

// Scenario 47: timers, channels and sockets of the client library leaked with
// each call. Thousands of updates and dumps leave the heap and the number of
// goroutines as they are after a few.
func TestScenario47ManyCallsLeakNothing(t *testing.T) {
	r, told := soak(t)
	calls := func(from, to int) {
		for n := from; n < to; n++ {
			told(model.Upsert, n)
			if err := r.resync(); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.settle(); err != nil {
			t.Fatal(err)
		}
		r.log.Reset()
	}
	reading := func() (goroutines int, heap uint64) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapAlloc
	}
	calls(0, 200)
	goroutines, heap := reading()
	calls(200, 2000)
	after, grown := reading()
	if after > goroutines+2 {
		t.Errorf("%d goroutines, %d after 1,800 updates and dumps more", goroutines, after)
	}
	if grown > heap+1<<20 {
		t.Errorf("%d KiB of heap, %d after 1,800 updates and dumps more", heap>>10, grown>>10)
	}
	if n := r.sim.Clients(); n != 1 {
		t.Errorf("VPP has %d clients", n)
	}
}

// Scenario 55: a translation with live sessions was deleted, again and again,
// until VPP crashed. The agent deletes it once each time, and leaves nothing.
func TestScenario55ServiceComesAndGoesUnderTraffic(t *testing.T) {
	r, told := soak(t)
	for n := range 500 {
		told(model.Upsert, n)
		v := r.sim.Send(vppsim.Packet{
			Proto: types.TCP, Src: netip.AddrPortFrom(netip.MustParseAddr("10.244.9.9"), uint16(10000+n)),
			Dst: netip.MustParseAddrPort("10.96.0.1:80"), InterfaceIndex: 1,
		})
		if v.Outcome != vppsim.Translated {
			t.Fatalf("round %d: the packet is %s", n, v)
		}
		told(model.Delete, n)
	}
	if held := r.held(); held != "" {
		t.Errorf("VPP holds\n%s", held)
	}
	if a := r.sim.Applied(); a["cnat_translation_update"] != 500 || a["cnat_translation_del"] != 500 {
		t.Errorf("VPP carried out %d updates and %d deletes, want 500 each", a["cnat_translation_update"], a["cnat_translation_del"])
	}
}
