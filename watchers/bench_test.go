// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Reading the manifests of a large cluster, 1000 Services and their slices, must
// be done well within the second in which an edit is to take effect.
func BenchmarkManifest(b *testing.B) {
	documents := make([]string, 0, 1000)
	for i := range 1000 {
		documents = append(documents, service(fmt.Sprintf("s%d", i), "10.96.0.1")+"---\n"+largeSlice(fmt.Sprintf("s%d-1", i)))
	}
	text := []byte(strings.Join(documents, "---\n"))
	for name, known := range map[string]map[checksum][]object{"first": nil, "again": parseManifest("a.yaml", text, nil).documents} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if m := parseManifest("a.yaml", text, known); len(m.objects) != 2000 {
					b.Fatal(m.errs)
				}
			}
		})
	}
}

func BenchmarkReplay(b *testing.B) {
	data, err := yaml.YAMLToJSON([]byte(largeSlice("web-1")))
	if err != nil {
		b.Fatal(err)
	}
	line, err := json.Marshal(map[string]any{"type": "ADDED", "object": json.RawMessage(data)})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(line)))
	text := strings.Repeat(string(line)+"\n", b.N)
	n := 0
	p := Replay{Name: "bench"}
	for _, err := range p.Events(strings.NewReader(text)) {
		if err != nil {
			b.Fatal(err)
		}
		n++
	}
	if n != b.N {
		b.Fatalf("%d events of %d", n, b.N)
	}
}

// largeSlice is a manifest of an EndpointSlice with ten endpoints.
func largeSlice(name string) string {
	var s strings.Builder
	fmt.Fprintf(&s, `addressType: IPv4
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  labels:
    kubernetes.io/service-name: web
  name: %s
  namespace: default
ports:
- name: http
  port: 8080
  protocol: TCP
endpoints:
`, name)
	for i := range 10 {
		fmt.Fprintf(&s, `- addresses:
  - 10.244.1.%d
  conditions:
    ready: true
    serving: true
    terminating: false
  nodeName: node-a
  targetRef:
    kind: Pod
    name: web-6f5d9c7b8-abcde
    namespace: default
    uid: 0d3c1f2e-0000-0000-0000-000000000000
  zone: zone-1
`, i)
	}
	return s.String()
}
