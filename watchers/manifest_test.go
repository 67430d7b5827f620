// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// parse returns what a manifest says, as text.
func parse(name, text string) (objects, errs, warnings []string) {
	m := parseManifest(name, []byte(text), nil)
	for _, o := range m.objects {
		objects = append(objects, keyOf(o).String())
	}
	for _, err := range m.errs {
		errs = append(errs, err.Error())
	}
	return objects, errs, m.warnings
}

func TestParseManifest(t *testing.T) {
	web := service("web", "10.96.0.1")
	for _, tc := range []struct {
		name, file, text     string
		want, errs, warnings []string
	}{
		{name: "nothing", text: "", file: "a.yaml"},
		{name: "only comments and separators", file: "a.yaml", text: "%YAML 1.1\n---\n# x\n---\n...\n---"},
		{name: "null", file: "a.yaml", text: "---\nnull\n---\n~\n"},
		{name: "separators with comments, carriage returns, end marks", file: "a.yaml",
			text: "\uFEFF--- # first\n" + web + "--- \n" + strings.ReplaceAll(web, "\n", "\r\n") + "---\r\n" + web + "...\n" + web + "--- {apiVersion: v1, kind: Node, metadata: {name: m}}\n",
			want: []string{"Service default/web", "Service default/web", "Service default/web", "Service default/web", "Node m"}},
		{name: "three dashes inside text", file: "a.yaml",
			text: "apiVersion: v1\nkind: Service\nmetadata:\n  name: web\n  annotations:\n    a: |\n      ---\n      ---x\n---x: 1\n",
			want: []string{"Service default/web"}, warnings: []string{`a.yaml:1: document 1: Service default/web: unknown field "---x", ignored`}},
		{name: "JSON with tabs in a YAML file", file: "a.yaml", text: "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Node\",\n\t\"metadata\": {\"name\": \"m\"}\n}\n---\n" + web,
			want: []string{"Node m", "Service default/web"}},
		{name: "Lists", file: "a.yaml", text: `
kind: List
apiVersion: v1
metadata: {resourceVersion: ""}
items:
- {apiVersion: v1, kind: Service, metadata: {name: a, namespace: x}}
- apiVersion: v1
  kind: List
  items:
  - {apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a-1}, addressType: IPv4}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}
- apiVersion: v1
  kind: ServiceList
  items: [{metadata: {name: typed}}, {apiVersion: v1, kind: Node, metadata: {name: m}}]
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSliceList, items: [{metadata: {name: b-1}}]}
---
{apiVersion: v1, kind: NodeList, items: [{metadata: {name: n2, namespace: none}}]}
---
{apiVersion: v1, kind: PodList, items: [{metadata: {name: p}}]}
---
{apiVersion: v1, kind: List, items: null}
`, want: []string{"Service x/a", "EndpointSlice default/a-1", "Service default/typed", "Node m", "EndpointSlice default/b-1", "Node n2"}},
		{name: "kinds that somebody may think count", file: "a.yaml", text: `
{apiVersion: v1, kind: Endpoints, metadata: {name: web}}
---
{apiVersion: discovery.k8s.io/v1beta1, kind: EndpointSlice, metadata: {name: web-1}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}}
`, warnings: []string{
			"a.yaml:2: document 1: Endpoints (v1) are not read: wanted the backends as an EndpointSlice (discovery.k8s.io/v1)",
			"a.yaml:4: document 2: EndpointSlice (discovery.k8s.io/v1beta1) is not read: wanted a Service (apiVersion v1), an EndpointSlice",
		}},
		{name: "errors inside Lists", file: "a.yaml", text: `apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: x}]}}
- 7
- {apiVersion: v1, kind: List, items: [{kind: Service, apiVersion: v1}]}
- {apiVersion: v1, kind: List, items: {}}
- {apiVersion: v1, kind: Service, metadata: {name: ok}}
`, want: []string{"Service default/ok"}, errs: []string{
			`a.yaml:1: document 1: items[0]: Service default/web: spec.ports[0].port: "x": wanted a whole number`,
			`a.yaml:1: document 1: items[1]: 7: wanted an object: a Service (apiVersion v1), an EndpointSlice`,
			`a.yaml:1: document 1: items[2].items[0]: Service: metadata.name: missing`,
			`a.yaml:1: document 1: items[3]: List: items: wanted a list of objects`,
		}},
		{name: "broken YAML, the others count", file: "a.yaml", text: web + "---\n# here\na: b: c\n---\n" + web,
			want: []string{"Service default/web", "Service default/web"},
			errs: []string{"a.yaml:9: document 2: no valid YAML: line 9: mapping values are not allowed in this context"}},
		{name: "a field twice", file: "a.yaml", text: "---\n" + web + "kind: Service\n", want: []string{"Service default/web"},
			warnings: []string{`a.yaml:2: document 1: line 8: key "kind" already set in map; the last one is taken`}},
		{name: "text", file: "a.yaml", text: "hello\n", errs: []string{`a.yaml:1: document 1: "hello": wanted an object: a Service`}},
		{name: "no kind", file: "a.yaml", text: "apiVersion: v1\nmetadata: {name: web}\n", errs: []string{"a.yaml:1: document 1: kind: missing: wanted a Service"}},
		{name: "bad namespace", file: "a.yaml", text: "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: a/b}}", errs: []string{`a.yaml:1: document 1: Service a/b/web: metadata.namespace: "a/b": wanted lower case letters`}},
		{name: "JSON values in a row", file: "a.json", text: "\uFEFF" + `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}` + "\n\n" + `{"apiVersion":"v1","kind":"Node","metadata":{"name":7}} null {"apiVersion":"v1","kind":"Node","metadata":{"name":"b"}}`,
			want: []string{"Node a", "Node b"}, errs: []string{"a.json:3: document 2: metadata.name: 7: wanted text"}},
		{name: "broken JSON", file: "a.json", text: `{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}` + "\n{\n\n" + `"a" 1`,
			want: []string{"Node a"}, errs: []string{"a.json:4: document 2: no valid JSON: invalid character '1' after object key"}},
		{name: "JSON that is cut off", file: "a.json", text: "{\n\n", errs: []string{"a.json:3: document 1: no valid JSON: unexpected EOF"}},
		{name: "YAML in a JSON file", file: "a.json", text: web, errs: []string{"a.json:1: document 1: no valid JSON: invalid character 'a'"}},
		{name: "too many Lists in Lists", file: "a.json", text: strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, 20) + strings.Repeat("]}", 20),
			errs: []string{"a.json:1: document 1: items[0].items[0].items[0].items[0].items[0].items[0].items[0].items[0]: List: Lists are nested deeper than 8"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, errs, warnings := parse(tc.file, tc.text)
			if !slices.Equal(got, tc.want) {
				t.Errorf("got %q, wanted %q", got, tc.want)
			}
			compareLines(t, "errors", errs, tc.errs)
			compareLines(t, "warnings", warnings, tc.warnings)
		})
	}
}

// Nothing is made up that the API server would not have said.
func TestDefaultsAreLeftToResolve(t *testing.T) {
	m := parseManifest("a.yaml", []byte(service("web", "10.96.0.1")), nil)
	if len(m.objects) != 1 {
		t.Fatal(m.errs)
	}
	o := m.objects[0]
	if created := o.GetCreationTimestamp(); !created.IsZero() || o.GetUID() != "" || o.GetNamespace() != "default" {
		t.Errorf("metadata: %+v", o)
	}
	if gvk := o.GetObjectKind().GroupVersionKind().String(); gvk != "/v1, Kind=Service" {
		t.Errorf("type: %s", gvk)
	}
}

func TestManagedFieldsAreDropped(t *testing.T) {
	m := parseManifest("a.yaml", []byte("{apiVersion: v1, kind: Node, metadata: {name: m, managedFields: [{manager: x}]}}"), nil)
	if len(m.objects) != 1 || m.objects[0].GetManagedFields() != nil {
		t.Errorf("got %+v %v", m.objects, m.errs)
	}
}

func FuzzManifest(f *testing.F) {
	for _, seed := range []string{service("web", "10.96.0.1"), addWeb, "", "---\n---", "{", "a: *b", "a: &a [*a]", "kind: List\napiVersion: v1\nitems: [1]", "? {}\n: 1", "!!binary x", "- \t", "%YAML 9\n---\n{"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, text string, json bool) {
		name := "fuzz.yaml"
		if json {
			name = "fuzz.json"
		}
		m := parseManifest(name, []byte(text), nil)
		for _, o := range m.objects {
			if o.GetName() == "" || typeOf(o).Kind == "" {
				t.Errorf("an object without a name or kind: %+v", o)
			}
		}
		again := parseManifest(name, []byte(text), m.documents)
		if fmt.Sprint(again.objects, again.errs, again.warnings) != fmt.Sprint(m.objects, m.errs, m.warnings) {
			t.Errorf("first %v %v %v\nagain %v %v %v", m.objects, m.errs, m.warnings, again.objects, again.errs, again.warnings)
		}
		for _, err := range m.errs {
			if !strings.HasPrefix(err.Error(), name+":") {
				t.Errorf("an error that does not name the place: %v", err)
			}
		}
	})
}

// TestSlicePortDefaults: a port in a file has the name and the protocol that the
// API server would give it.
func TestSlicePortDefaults(t *testing.T) {
	m := parseManifest("x.yaml", []byte(`{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a}, addressType: IPv4, ports: [{port: 8080}, {name: dns, protocol: UDP, port: 53}]}`), nil)
	if len(m.objects) != 1 {
		t.Fatalf("%d objects", len(m.objects))
	}
	ports := m.objects[0].(*discoveryv1.EndpointSlice).Ports
	if *ports[0].Name != "" || *ports[0].Protocol != corev1.ProtocolTCP || *ports[1].Name != "dns" || *ports[1].Protocol != corev1.ProtocolUDP {
		t.Errorf("ports %+v", ports)
	}
}
