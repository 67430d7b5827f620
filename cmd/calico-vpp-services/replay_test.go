// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"calico-vpp-services/services/model"
)

const recording = "../../test/data/recorded-watch.jsonl"

// replayJSON replays and decodes what that prints.
func replayJSON(t *testing.T, stdin string, args ...string) replayResult {
	t.Helper()
	out, stderr, err := cli(t.Context(), stdin, append([]string{"replay", "-o", "json"}, args...)...)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	var res replayResult
	if err := json.Unmarshal([]byte(out), &res); err != nil {
		t.Fatal(err)
	}
	return res
}

// expected is the hand-made end of the recording.
type expected struct {
	Programmed []struct {
		Proto, IP, Service, LBType string
		Port                       uint16
		Backends                   []string
	}
	Unserved []struct {
		Proto, IP, Service string
		Port               uint16
	}
}

// TestRecordedWatch plays a recording of a real API server, one event at a time
// and all at once, and compares with the end that was derived by hand.
func TestRecordedWatch(t *testing.T) {
	raw, err := os.ReadFile("../../test/data/recorded-watch.expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var exp expected
	if err := json.Unmarshal(raw, &exp); err != nil {
		t.Fatal(err)
	}
	var wantRows, wantFinal []string
	for _, p := range exp.Programmed {
		backends := slices.Sorted(slices.Values(p.Backends))
		final := fmt.Sprintf("%s %s %d %s %v", p.Proto, p.IP, p.Port, p.LBType, backends)
		wantFinal = append(wantFinal, final)
		wantRows = append(wantRows, fmt.Sprintf("%s %s programmed", final, p.Service))
	}
	for _, u := range exp.Unserved {
		wantRows = append(wantRows, fmt.Sprintf("%s %s %d [] %s unserved", u.Proto, u.IP, u.Port, u.Service))
	}
	slices.Sort(wantRows)
	slices.Sort(wantFinal)
	for name, args := range map[string][]string{"one at a time": nil, "batch": {"--batch"}} {
		t.Run(name, func(t *testing.T) {
			res := replayJSON(t, "", append(args, recording, "--node-name", "node-a")...)
			if res.Events != 49 {
				t.Errorf("%d events, want 49", res.Events)
			}
			var rows, final []string
			for _, r := range res.Translations {
				lb := r.LBType + " "
				if r.State == model.StateUnserved {
					lb = ""
				}
				rows = append(rows, fmt.Sprintf("%s %s %d %s%v %s %s", r.Proto, r.IP, r.Port, lb, names(r.Backends), r.Service, r.State))
			}
			for _, f := range res.Final {
				final = append(final, fmt.Sprintf("%s %s %d %s %v", f.Proto, f.IP, f.Port, f.LBType, names(f.Backends)))
			}
			slices.Sort(rows)
			slices.Sort(final)
			if !slices.Equal(rows, wantRows) {
				t.Errorf("translations\n%s\nwant\n%s", strings.Join(rows, "\n"), strings.Join(wantRows, "\n"))
			}
			if !slices.Equal(final, wantFinal) {
				t.Errorf("VPP holds\n%s\nwant\n%s", strings.Join(final, "\n"), strings.Join(wantFinal, "\n"))
			}
			if c := res.VPPCalls; name == "batch" && (c.Update != 10 || c.Del != 0 || c.Dump != 1) {
				t.Errorf("calls %+v; a batch costs one update a translation", c)
			}
		})
	}
}

func names(list []model.BackendState) []string {
	out := []string{}
	for _, b := range list {
		out = append(out, net.JoinHostPort(b.IP, fmt.Sprint(b.Port)))
	}
	slices.Sort(out)
	return out
}

// sharedIP makes recordings of two Services that claim 198.51.100.10 port 80;
// b was created after a. An event is its sign and name: "+a" adds Service and
// slice, "-a" deletes the Service and then the slice.
func sharedIP(events ...string) string {
	ip := map[string]string{"a": "10.96.0.1", "b": "10.96.0.2"}
	created := map[string]string{"a": "2026-01-01T00:00:00Z", "b": "2026-01-02T00:00:00Z"}
	backend := map[string]string{"a": "10.244.1.5", "b": "10.244.1.6"}
	var out strings.Builder
	for _, e := range events {
		op, n := "ADDED", e[1:]
		if e[0] == '-' {
			op = "DELETED"
		}
		fmt.Fprintf(&out, `{"type":%q,"object":{"apiVersion":"v1","kind":"Service","metadata":{"name":%q,"namespace":"shop","creationTimestamp":%q,"uid":"u-%[2]s"},`+
			`"spec":{"clusterIP":%[4]q,"clusterIPs":[%[4]q],"ipFamilies":["IPv4"],"externalIPs":["198.51.100.10"],"ports":[{"port":80,"protocol":"TCP"}]}}}`+"\n", op, n, created[n], ip[n])
		fmt.Fprintf(&out, `{"type":%q,"object":{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"%s-1","namespace":"shop","labels":{"kubernetes.io/service-name":%[2]q}},`+
			`"addressType":"IPv4","ports":[{"name":"","port":8080,"protocol":"TCP"}],"endpoints":[{"addresses":[%q],"conditions":{"ready":true}}]}}`+"\n", op, n, backend[n])
	}
	return out.String()
}

// TestNoSuchNode: a slip in the node's name is told, once, by what reads objects
// that may have no Node at all.
func TestNoSuchNode(t *testing.T) {
	for name, args := range map[string][]string{
		"replay":    {"replay", recording},
		"batch":     {"replay", recording, "--batch"},
		"manifests": {"run", "--manifests", "../../yaml/demo", "--vpp", "embedded", "--once"},
	} {
		t.Run(name, func(t *testing.T) {
			for node, want := range map[string]int{"node-a": 0, "node-x": 1} {
				_, stderr, err := cli(t.Context(), "", append(args, "--node-name", node)...)
				if got := strings.Count(stderr, "there is no Node"); err != nil || got != want {
					t.Errorf("%s: %v, told %d times, want %d:\n%s", node, err, got, want, stderr)
				}
			}
		})
	}
}

// TestReplayWithClaimFlags: replay takes the choices that run takes, so that what
// run did can be played again.
func TestReplayWithClaimFlags(t *testing.T) {
	const cidr = `{"type":"ADDED","object":{"apiVersion":"networking.k8s.io/v1","kind":"ServiceCIDR","metadata":{"name":"x"},"spec":{"cidrs":["198.51.100.0/24"]}}}` + "\n"
	events := sharedIP("+a", "+b")
	for name, tc := range map[string]struct {
		events string
		args   []string
		owner  string
	}{
		"none":                            {events, nil, "shop/b"},
		"the oldest owns":                 {events, []string{"--ownership", "oldest"}, "shop/a"},
		"no external IPs":                 {events, []string{"--external-ips=false"}, ""},
		"a service CIDR":                  {events, []string{"--service-cidr", "198.51.100.0/24"}, ""},
		"a recorded service CIDR":         {cidr + events, nil, ""},
		"a recorded service CIDR, exempt": {cidr + events, []string{"--guard-exempt", "198.51.100.10/32"}, "shop/b"},
		"external IPs of elsewhere only":  {events, []string{"--external-ips-allowed", "203.0.113.0/24"}, ""},
		"and nothing unserved is refused": {events, []string{"--reject-unserved", "off"}, "shop/b"},
		"a pool of virtual addresses":     {events, []string{"--virtual-cidr", "198.51.100.0/24"}, "shop/b"},
	} {
		t.Run(name, func(t *testing.T) {
			owner := ""
			for _, r := range replayJSON(t, tc.events, append([]string{"-", "--node-name", "node-a"}, tc.args...)...).Translations {
				if r.IP == "198.51.100.10" {
					owner = string(r.Service)
				}
			}
			if owner != tc.owner {
				t.Errorf("owner %q, want %q", owner, tc.owner)
			}
		})
	}
	if _, _, err := cli(t.Context(), events, "replay", "-", "--ownership", "nobody"); err == nil || !strings.Contains(err.Error(), "--ownership") {
		t.Errorf("a wrong flag: %v", err)
	}
}

// TestSharedExternalIP: one translation at any time, the same end whatever the
// order, and a takeover in the step of the delete.
func TestSharedExternalIP(t *testing.T) {
	const a, b = "[10.244.1.5:8080]", "[10.244.1.6:8080]"
	for _, tc := range []struct {
		name           string
		events         []string
		owner, waiting string
		vpp            string
		update, del    uint64
	}{
		// b's Service comes before its slice: for a moment b owns the key
		// without backends, and a's translation is deleted (design.md 4, rule 3).
		{"a then b", []string{"+a", "+b"}, "shop/b", "[shop/a]", b, 4, 1},
		{"b then a", []string{"+b", "+a"}, "shop/b", "[shop/a]", b, 3, 0},
		{"the owner goes", []string{"+b", "+a", "-b"}, "shop/a", "[]", a, 4, 1},
		{"the waiting one goes", []string{"+b", "+a", "-a"}, "shop/b", "[]", b, 3, 1},
		{"both go", []string{"+b", "+a", "-a", "-b"}, "", "", "", 3, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			res := replayJSON(t, sharedIP(tc.events...), "-", "--node-name", "node-a")
			owner, waiting, vpp := "", "", ""
			for _, r := range res.Translations {
				if r.IP == "198.51.100.10" {
					owner, waiting = string(r.Service), fmt.Sprint(r.Waiting)
				}
			}
			for _, f := range res.Final {
				if f.IP == "198.51.100.10" {
					vpp += fmt.Sprint(names(f.Backends))
				}
			}
			if owner != tc.owner || waiting != tc.waiting || vpp != tc.vpp {
				t.Errorf("owner %q, waiting %s, VPP %s; want %q, %s, %s", owner, waiting, vpp, tc.owner, tc.waiting, tc.vpp)
			}
			if c := res.VPPCalls; c.Update != tc.update || c.Del != tc.del {
				t.Errorf("calls %+v, want %d updates, %d deletes", c, tc.update, tc.del)
			}
			batch := replayJSON(t, sharedIP(tc.events...), "-", "--batch", "--node-name", "node-a")
			if got, want := fmt.Sprint(len(batch.Final), batch.VPPCalls.Del), fmt.Sprint(len(res.Final), 0); got != want {
				t.Errorf("all at once VPP holds and deletes %s, want %s", got, want)
			}
		})
	}
}
