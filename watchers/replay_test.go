// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"calico-vpp-services/services/model"
	"calico-vpp-services/services/resolve"
)

// replay applies a recording to a sink and returns what was complained about.
func replay(t *testing.T, p Replay, text string) (s *sink, errs, warnings []string) {
	t.Helper()
	s = newSink()
	p.Name = "r.jsonl"
	p.Warn = func(w string) { warnings = append(warnings, w) }
	for rec, err := range p.Events(strings.NewReader(text)) {
		if err != nil {
			errs = append(errs, err.Error())
			continue
		}
		if err := s.Send(context.Background(), rec.Event); err != nil {
			t.Fatal(err)
		}
	}
	return s, errs, warnings
}

func TestReplayOfARealRecording(t *testing.T) {
	s := newSink()
	lines := 0
	p := Replay{Name: "recorded-watch.jsonl", Warn: func(w string) { t.Error(w) }}
	for r, err := range p.Events(strings.NewReader(readTestdata(t))) {
		if err != nil {
			t.Fatal(err)
		}
		lines++
		if r.Line != lines || r.Event.Source != SourceReplay {
			t.Errorf("event %d is %+v", lines, r)
		}
		if err := s.Send(t.Context(), r.Event); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{
		// db-ndspv, of a headless Service, is not ours.
		"EndpointSlice platform/dns-ffh84", "EndpointSlice platform/metrics-bk59m",
		"EndpointSlice store/api-92vwq", "EndpointSlice store/api-x2ml9", "EndpointSlice store/web-jskgt",
		"Node node-a", "Node node-b",
		"Service default/kubernetes", "Service platform/dns", "Service platform/metrics",
		"Service store/api", "Service store/db", "Service store/web",
	}
	if got := s.holding(); lines != 49 || !slices.Equal(got, want) {
		t.Errorf("after %d events there is %q,\nwanted %q", lines, got, want)
	}
}

func readTestdata(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("testdata/recorded-watch.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

const (
	addWeb    = `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Service","metadata":{"name":"web"},"spec":{"clusterIP":"10.96.0.1"}}}`
	addSlice  = `{"type":"ADDED","object":{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"web-1","namespace":"shop"},"addressType":"IPv4"}}`
	addPod    = `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}}`
	foreign   = `{"type":"MODIFIED","object":{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","labels":{"service.kubernetes.io/service-proxy-name":""}}}}`
	headless  = `{"type":"MODIFIED","object":{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"web-1","namespace":"shop","labels":{"service.kubernetes.io/headless":""}}}}`
	deleteWeb = `{"type":"DELETED","object":{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":"default"}}}`
)

func TestReplayLines(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		replay     Replay
		want       []string
		errs       []string // each is part of one error
		warnings   []string
	}{
		{name: "nothing"},
		{name: "blank lines, byte order mark, no end of line", text: "\uFEFF\n" + addWeb + "\r\n\n   \n" + addSlice,
			want: []string{"EndpointSlice shop/web-1", "Service default/web"}},
		{name: "deleted", text: addWeb + "\n" + deleteWeb},
		{name: "label that gives it to another proxy", text: addWeb + "\n" + foreign},
		{name: "label that gives it to us", text: addWeb + "\n" + strings.Replace(foreign, `name":""`, `name":"vpp"`, 1),
			replay: Replay{Selection: resolve.Selection{ProxyName: "vpp"}}, want: []string{"Service default/web"}},
		{name: "slice becomes headless", text: addSlice + "\n" + headless},
		{name: "bookmarks are silent", text: `{"type":"BOOKMARK","object":{"kind":"Service","apiVersion":"v1","metadata":{"resourceVersion":"7"}}}` + "\n" + addWeb,
			want: []string{"Service default/web"}},
		{name: "other kinds, told once and counted", text: addPod + "\n" + addPod + "\n" + addWeb,
			want: []string{"Service default/web"},
			warnings: []string{
				"r.jsonl:1: objects of kind Pod are passed over: Pod (v1) is not read: wanted a Service",
				"r.jsonl: 2 objects of kind Pod were passed over",
			}},
		{name: "end of a watch", text: `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410,"message":"too old resource version"}}`,
			warnings: []string{"r.jsonl:1: events of type ERROR are passed over: the recorded watch was broken off: too old resource version"}},
		{name: "unknown type", text: `{"type":"PATCHED","object":{}}`,
			warnings: []string{"r.jsonl:1: events of type PATCHED are passed over: wanted ADDED"}},
		{name: "unknown field", text: strings.Replace(addWeb, `"clusterIP"`, `"clusterIPee"`, 1),
			want:     []string{"Service default/web"},
			warnings: []string{`r.jsonl:1: fields that are not known are passed over: Service default/web: unknown field "spec.clusterIPee", ignored`}},
		{name: "broken line, the next one counts", text: addWeb[:40] + "\n" + addSlice,
			want: []string{"EndpointSlice shop/web-1"},
			errs: []string{`r.jsonl:1: no valid JSON (unexpected end of JSON input)`}},
		{name: "not an object", text: `[1]`, errs: []string{`r.jsonl:1: [1]: wanted an object with named fields: wanted one watch event a line`}},
		{name: "an object without its event", text: `{"apiVersion":"v1","kind":"Service"}`, errs: []string{`r.jsonl:1: type: missing: wanted one watch event a line`}},
		{name: "no object", text: `{"type":"ADDED"}`, errs: []string{`r.jsonl:1: object: missing`}},
		{name: "object null", text: `{"type":"ADDED","object":null}`, errs: []string{`r.jsonl:1: null: wanted an object`}},
		{name: "no kind", text: `{"type":"ADDED","object":{"metadata":{"name":"x"}}}`, errs: []string{`r.jsonl:1: kind: missing: wanted a Service (apiVersion v1)`}},
		{name: "no apiVersion", text: `{"type":"ADDED","object":{"kind":"Service","metadata":{"name":"x"}}}`, errs: []string{`r.jsonl:1: Service default/x: apiVersion: missing`}},
		{name: "no name", text: strings.Replace(addWeb, `"name":"web"`, ``, 1), errs: []string{`r.jsonl:1: Service: metadata.name: missing: wanted the name of the object`}},
		{name: "bad name", text: strings.Replace(addWeb, `"web"`, `"a/b"`, 1), errs: []string{`r.jsonl:1: Service default/a/b: metadata.name: "a/b": wanted lower case letters`}},
		{name: "wrong type of a header field", text: strings.Replace(addWeb, `"web"`, `{}`, 1), errs: []string{`r.jsonl:1: metadata.name: {}: wanted text; put it in quotes`}},
		{name: "wrong types of fields", text: strings.Replace(addWeb, `"spec":{`, `"spec":{"ports":[{"port":80},{"port":"http"}],`, 1) + "\n" +
			strings.Replace(addWeb, `"10.96.0.1"`, `10.96`, 1) + "\n" +
			strings.Replace(addWeb, `"spec":{`, `"spec":{"ports":[{"port":80,"targetPort":true}],`, 1) + "\n" +
			strings.Replace(addWeb, `"name":"web"`, `"name":"web","creationTimestamp":"yesterday"`, 1) + "\n" +
			strings.Replace(addWeb, `"spec":{`, `"spec":{"externalIPs":"198.51.100.1",`, 1) + "\n" +
			strings.Replace(addWeb, `"spec":{`, `"spec":{"ports":[{"port":4294967296}],`, 1) + "\n" +
			strings.Replace(addWeb, `"name":"web"`, `"name":"web","labels":{"a":true}`, 1),
			errs: []string{
				`r.jsonl:1: Service default/web: spec.ports[1].port: "http": wanted a whole number, without quotes`,
				`r.jsonl:2: Service default/web: spec.clusterIP: 10.96: wanted text; put it in quotes`,
				`r.jsonl:3: Service default/web: spec.ports[0].targetPort: true: wanted a port number, or the name of a port`,
				`r.jsonl:4: Service default/web: metadata.creationTimestamp: "yesterday": wanted a time such as`,
				`r.jsonl:5: Service default/web: spec.externalIPs: "198.51.100.1": wanted a list`,
				`r.jsonl:6: Service default/web: spec.ports[0].port: 4294967296: wanted a whole number of at most 32 bits`,
				`r.jsonl:7: Service default/web: metadata.labels[a]: true: wanted text`,
			}},
		{name: "huge line, the next one counts", text: strings.Replace(addWeb, "10.96.0.1", strings.Repeat("1", maxLine), 1) + "\n" + addSlice,
			want: []string{"EndpointSlice shop/web-1"},
			errs: []string{"r.jsonl:1: line longer than 16 MiB"}},
		{name: "huge last line", text: strings.Repeat("1", maxLine+1), errs: []string{"r.jsonl:1: line longer than 16 MiB"}},
		{name: "large line", text: strings.Replace(addWeb, `"name":"web"`, `"name":"web","annotations":{"a":"`+strings.Repeat("1", maxLine-500)+`"}`, 1),
			want: []string{"Service default/web"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, errs, warnings := replay(t, tc.replay, tc.text)
			if got := s.holding(); !slices.Equal(got, tc.want) {
				t.Errorf("there is %q, wanted %q", got, tc.want)
			}
			compareLines(t, "errors", errs, tc.errs)
			compareLines(t, "warnings", warnings, tc.warnings)
		})
	}
}

// compareLines checks that each line of got begins with that of want.
func compareLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d %s, wanted %d:\n%s", len(got), what, len(want), strings.Join(got, "\n"))
	}
	for i := range got {
		if !strings.HasPrefix(got[i], want[i]) || strings.Contains(got[i], "\n") {
			t.Errorf("%s: got  %s\nwanted %s...", what, got[i], want[i])
		}
	}
}

// TestABrokenReaderIsTheLastError: there is nothing behind it to go on with.
func TestABrokenReaderIsTheLastError(t *testing.T) {
	p := Replay{Name: "a"}
	n := 0
	for _, err := range p.Events(iotest.ErrReader(errors.New("disk on fire"))) {
		if n++; err == nil || err.Error() != "a:1: disk on fire" {
			t.Errorf("got %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d errors", n)
	}
}

func FuzzReplayLine(f *testing.F) {
	for _, seed := range []string{addWeb, addSlice, addPod, foreign, headless, deleteWeb, `{"type":"ADDED","object":{}}`, "", "null", "{", "[]"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p := Replay{Name: "fuzz", Warn: func(string) {}}
		for rec, err := range p.Events(strings.NewReader(text)) {
			switch {
			case err != nil && !strings.HasPrefix(err.Error(), "fuzz:"):
				t.Errorf("an error that does not name the line: %v", err)
			case err == nil && (rec.Event.Object.GetName() == "" || rec.Event.Op == model.Synced):
				t.Errorf("an event about nothing: %+v", rec)
			case err == nil:
				_ = fmt.Sprint(keyOf(rec.Event.Object))
			}
		}
	})
}
