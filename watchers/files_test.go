// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// manifests is a directory that a test writes and a Files reads.
type manifests struct {
	t    *testing.T
	dir  string
	sink *sink
	log  *logBuffer
	// nodeName is that of FilesConfig.
	nodeName string
	*Files
}

// newManifests returns a directory with the given files, not yet read.
func newManifests(t *testing.T, files map[string]string) *manifests {
	t.Helper()
	m := &manifests{t: t, dir: t.TempDir(), sink: newSink()}
	for name, text := range files {
		m.write(name, text)
	}
	return m
}

// read starts a Files on path inside the directory and waits for its first list.
func (m *manifests) read(path string) *manifests {
	m.t.Helper()
	log, buffer := newLog()
	cfg := DefaultFilesConfig(filepath.Join(m.dir, path))
	cfg.NodeName = m.nodeName
	f, err := NewFiles(cfg, m.sink, log)
	if err != nil {
		m.t.Fatal(err)
	}
	m.Files, m.log = f, buffer
	serve(m.t, f.Serve)
	eventually(m.t, 10*time.Second, "synced", func() bool { return slices.Contains(m.sink.events(), "synced files") })
	return m
}

func (m *manifests) write(name, text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

func (m *manifests) do(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// clusterIP returns that of a Service in namespace default.
func (m *manifests) clusterIP(name string) string {
	s, _ := m.sink.get("Service", "default", name).(*corev1.Service)
	if s == nil {
		return ""
	}
	return s.Spec.ClusterIP
}

// withinASecond waits until Service web has the address.
func (m *manifests) withinASecond(want string) {
	m.t.Helper()
	eventually(m.t, time.Second, "web has "+want, func() bool { return m.clusterIP("web") == want })
}

// That there is no Node of our name is said once, and taken back.
func TestOwnNodeIsMissingInFiles(t *testing.T) {
	const nodes = "apiVersion: v1\nkind: Node\nmetadata: {name: node-b}\n"
	m := newManifests(t, map[string]string{"web.yaml": service("web", "10.96.0.1"), "nodes.yaml": nodes})
	m.nodeName = "node-a"
	m.read("")
	missing := func() bool {
		p := m.Status().Problems
		return len(p) == 1 && strings.HasPrefix(p[0], `there is no Node "node-a"`)
	}
	eventually(t, long, "a problem", missing)
	m.write("web.yaml", service("web", "10.96.0.2"))
	m.withinASecond("10.96.0.2")
	if !missing() || m.log.count("there is no Node") != 1 {
		t.Errorf("%q; told:\n%s", m.Status().Problems, m.log)
	}
	m.write("nodes.yaml", nodes+"---\n"+strings.Replace(nodes, "node-b", "node-a", 1))
	eventually(t, long, "no problem", func() bool { return len(m.Status().Problems) == 0 })
}

func TestFilesThatAreRead(t *testing.T) {
	m := newManifests(t, map[string]string{
		"a.yaml": "# nothing yet\n---\n" + service("web", "10.96.0.1") + "---\n" + service("api", "10.96.0.2"),
		"b.yml":  service("blue", "10.96.0.3"),
		"c.json": `{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-a"}}` + "\n" +
			`{"apiVersion":"v1","kind":"ServiceList","items":[{"metadata":{"name":"typed","namespace":"shop"}}]}`,
		"d.yaml":       "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n",
		"e.yaml":       strings.Replace(service("other-proxy", "10.96.0.9"), "{name:", "{labels: {service.kubernetes.io/service-proxy-name: x}, name:", 1),
		"notes.txt":    service("no1", "10.96.0.9"),
		".hidden.yaml": service("no2", "10.96.0.9"),
		"a.yaml~":      service("no3", "10.96.0.9"),
		"#a.yaml#":     service("no4", "10.96.0.9"),
		".a.yaml.swp":  service("no5", "10.96.0.9"),
		"empty.yaml":   "",
	})
	m.do(os.Mkdir(filepath.Join(m.dir, "sub.yaml"), 0o700))
	m.read("")
	eventuallyHas(t, m.sink, "Node node-a", "Service default/api", "Service default/blue", "Service default/web", "Service shop/typed")
	events := m.sink.events()
	if events[len(events)-1] != "synced files" {
		t.Errorf("Synced does not come last: %q", events)
	}
	if s := m.Status(); !s.Synced || len(s.Waiting) > 0 || len(s.Problems) > 0 {
		t.Errorf("status: %+v", s)
	}
	if m.log.count("level=warning") > 0 {
		t.Errorf("nothing here is worth a warning:\n%s", m.log)
	}
}

func TestEditsTakeEffectWithinASecond(t *testing.T) {
	m := newManifests(t, map[string]string{"web.yaml": service("web", "10.96.0.1")}).read("")
	m.withinASecond("10.96.0.1")
	before := m.sink.sends

	m.write("web.yaml", service("web", "10.96.0.2")) // in place
	m.withinASecond("10.96.0.2")

	m.write(".web.yaml.tmp", service("web", "10.96.0.3")) // by rename
	m.do(os.Rename(filepath.Join(m.dir, ".web.yaml.tmp"), filepath.Join(m.dir, "web.yaml")))
	m.withinASecond("10.96.0.3")

	m.do(os.Rename(filepath.Join(m.dir, "web.yaml"), filepath.Join(m.dir, "web.yaml~"))) // as vim does
	m.write("web.yaml", service("web", "10.96.0.4"))
	m.withinASecond("10.96.0.4")

	m.write("web.yaml", service("web", "10.96.0.4")+"# a comment more\n") // nothing that counts
	m.write("api.yaml", service("api", "10.96.1.1"))                      // a new file
	eventuallyHas(t, m.sink, "Service default/api", "Service default/web")
	m.do(os.Remove(filepath.Join(m.dir, "api.yaml")))
	eventuallyHas(t, m.sink, "Service default/web")

	want := []string{
		"+Service default/web", "synced files", "+Service default/web", "+Service default/web", "+Service default/web",
		"+Service default/api", "-Service default/api",
	}
	if got := m.sink.events(); !slices.Equal(got, want) {
		t.Errorf("events: %q\nwanted  %q", got, want)
	}
	if got := m.sink.sends - before; got != 5 {
		t.Errorf("%d messages for 5 changes", got)
	}
}

func TestOneFile(t *testing.T) {
	m := newManifests(t, map[string]string{"web.manifest": service("web", "10.96.0.1"), "api.yaml": service("api", "10.96.0.2")}).read("web.manifest")
	m.withinASecond("10.96.0.1")
	m.write("new", service("web", "10.96.0.2"))
	m.do(os.Rename(filepath.Join(m.dir, "new"), filepath.Join(m.dir, "web.manifest")))
	m.withinASecond("10.96.0.2")
	m.do(os.Remove(filepath.Join(m.dir, "web.manifest")))
	eventually(t, time.Second, "a problem", func() bool { return len(m.Status().Problems) == 1 })
	m.write("web.manifest", service("web", "10.96.0.3"))
	m.withinASecond("10.96.0.3")
	eventuallyHas(t, m.sink, "Service default/web")
	if slices.Contains(m.sink.events(), "-Service default/web") {
		t.Error("a file that was gone for a moment took its Service away")
	}
}

// A ConfigMap volume has files that link to ..data/NAME, ..data links to a
// directory with a date, and an update renames a new link over ..data.
func TestConfigMapVolume(t *testing.T) {
	m := newManifests(t, nil)
	version := func(name, ip string) {
		m.do(os.Mkdir(filepath.Join(m.dir, name), 0o700))
		m.write(name+"/web.yaml", service("web", ip))
		m.do(os.Symlink(name, filepath.Join(m.dir, "..data_tmp")))
		m.do(os.Rename(filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data")))
	}
	version("..2026_01", "10.96.0.1")
	m.do(os.Symlink("..data/web.yaml", filepath.Join(m.dir, "web.yaml")))
	m.read("")
	m.withinASecond("10.96.0.1")
	version("..2026_02", "10.96.0.2")
	m.withinASecond("10.96.0.2")
	version("..2026_03", "10.96.0.3")
	m.do(os.RemoveAll(filepath.Join(m.dir, "..2026_01")))
	m.do(os.RemoveAll(filepath.Join(m.dir, "..2026_02")))
	m.withinASecond("10.96.0.3")
}

// What git-sync and deployment scripts do: the directory itself is a link.
func TestDirectoryIsALinkThatMoves(t *testing.T) {
	m := newManifests(t, nil)
	for i := range 3 {
		v := fmt.Sprintf("v%d", i)
		m.do(os.Mkdir(filepath.Join(m.dir, v), 0o700))
		m.write(v+"/web.yaml", service("web", "10.96.0."+v[1:]))
	}
	m.do(os.Symlink("v0", filepath.Join(m.dir, "current")))
	m.read("current")
	m.withinASecond("10.96.0.0")
	for i := 1; i < 3; i++ {
		m.do(os.Symlink(fmt.Sprintf("v%d", i), filepath.Join(m.dir, "tmp")))
		m.do(os.Rename(filepath.Join(m.dir, "tmp"), filepath.Join(m.dir, "current")))
		m.withinASecond(fmt.Sprintf("10.96.0.%d", i))
	}
	m.write("v2/web.yaml", service("web", "10.96.0.9"))
	m.withinASecond("10.96.0.9")
}

func TestLinkedFileIsWritten(t *testing.T) {
	m := newManifests(t, nil)
	m.do(os.Mkdir(filepath.Join(m.dir, "real"), 0o700))
	m.do(os.Mkdir(filepath.Join(m.dir, "links"), 0o700))
	m.write("real/web.yaml", service("web", "10.96.0.1"))
	m.do(os.Symlink("../real/web.yaml", filepath.Join(m.dir, "links/web.yaml")))
	m.read("links")
	m.withinASecond("10.96.0.1")
	m.write("real/web.yaml", service("web", "10.96.0.2"))
	m.withinASecond("10.96.0.2")
}

func TestHalfWrittenFileTakesNothingAway(t *testing.T) {
	whole := service("web", "10.96.0.1") + "---\n" + service("api", "10.96.0.2")
	m := newManifests(t, map[string]string{"all.yaml": whole}).read("")
	both := []string{"Service default/api", "Service default/web"}
	eventuallyHas(t, m.sink, both...)
	for _, cut := range []string{
		"", // truncated before it is written
		"  \n",
		whole[:len(whole)-len("  ports: [{port: 80}]\n")/2], // in the middle of a line
		whole[:strings.LastIndex(whole, "kind")],            // without its kind
	} {
		m.write("all.yaml", cut)
		eventually(t, 2*time.Second, fmt.Sprintf("a problem with %q", cut), func() bool { return len(m.Status().Problems) == 1 })
		if p := m.Status().Problems[0]; !strings.HasSuffix(p, "what the file said before stays") {
			t.Errorf("problem: %s", p)
		}
		if got := m.sink.holding(); !slices.Equal(got, both) {
			t.Fatalf("after %q there is %q", cut, got)
		}
		m.write("all.yaml", whole)
		eventually(t, 2*time.Second, "good again", func() bool { return len(m.Status().Problems) == 0 })
	}
	// Others go on meanwhile.
	m.write("all.yaml", whole+"---\nx: [")
	m.write("blue.yaml", service("blue", "10.96.0.3"))
	eventuallyHas(t, m.sink, append(both, "Service default/blue")...)
	// A comment is a whole file without objects.
	m.write("all.yaml", "# none\n")
	eventuallyHas(t, m.sink, "Service default/blue")
}

func TestBadDocumentAtTheFirstReading(t *testing.T) {
	bad := strings.Replace(service("api", "10.96.0.2"), "80", "http", 1)
	m := newManifests(t, map[string]string{
		"all.yaml": service("web", "10.96.0.1") + "---\n" + bad + "---\n" + service("blue", "10.96.0.3"),
	}).read("")
	eventuallyHas(t, m.sink, "Service default/blue", "Service default/web")
	want := filepath.Join(m.dir, "all.yaml") + `:8: document 2: Service default/api: spec.ports[0].port: "http": wanted a whole number, without quotes; the rest of the file counts`
	if s := m.Status(); !slices.Equal(s.Problems, []string{want}) || !s.Synced {
		t.Errorf("status: %+v\nwanted %s", s, want)
	}
	if m.log.count("Service default/api") != 1 {
		t.Errorf("told more or less than once:\n%s", m.log)
	}
	// Never good so far: what can be read counts, and nothing goes.
	m.write("all.yaml", service("web", "10.96.0.9")+"---\n"+bad)
	m.withinASecond("10.96.0.9")
	eventuallyHas(t, m.sink, "Service default/blue", "Service default/web")
	m.write("all.yaml", service("web", "10.96.0.9"))
	eventuallyHas(t, m.sink, "Service default/web")
}

func TestSameObjectInTwoFiles(t *testing.T) {
	m := newManifests(t, map[string]string{
		"a.yaml": service("web", "10.96.0.1") + "---\n" + service("twice", "10.96.1.1") + "---\n" + service("twice", "10.96.1.2"),
		"b.yaml": service("web", "10.96.0.2"),
	}).read("")
	m.withinASecond("10.96.0.2")
	if got := m.clusterIP("twice"); got != "10.96.1.2" {
		t.Errorf("twice has %s", got)
	}
	m.write("b.yaml", service("web", "10.96.0.3"))
	m.withinASecond("10.96.0.3")
	m.do(os.Remove(filepath.Join(m.dir, "b.yaml")))
	m.withinASecond("10.96.0.1")
	if m.log.count("the latter counts") != 1 || m.log.count("there twice") != 1 {
		t.Errorf("told more or less than once:\n%s", m.log)
	}
}

func TestDirectoryGoneForAMoment(t *testing.T) {
	m := newManifests(t, nil)
	m.do(os.Mkdir(filepath.Join(m.dir, "d"), 0o700))
	m.write("d/web.yaml", service("web", "10.96.0.1"))
	m.read("d")
	m.withinASecond("10.96.0.1")
	m.do(os.Rename(filepath.Join(m.dir, "d"), filepath.Join(m.dir, "e")))
	// The watch goes with the directory; only a look at the path tells.
	m.write("e/web.yaml", service("web", "10.96.0.2"))
	eventually(t, 3*time.Second, "a problem", func() bool { return len(m.Status().Problems) == 1 })
	if m.clusterIP("web") != "10.96.0.1" {
		t.Error("the Service was changed or taken away")
	}
	m.do(os.Rename(filepath.Join(m.dir, "e"), filepath.Join(m.dir, "d")))
	eventually(t, 3*time.Second, "read again", func() bool { return m.clusterIP("web") == "10.96.0.2" && len(m.Status().Problems) == 0 })
}

func TestUnreadableManifests(t *testing.T) {
	log, _ := newLog()
	for path, want := range map[string]string{
		"":                  "manifests: no path: give a directory",
		"/nonexistent/none": "manifests: stat /nonexistent/none: no such file or directory: give a directory that has *.yaml",
		"/dev/null":         "manifests /dev/null: neither a directory nor a file",
	} {
		if _, err := NewFiles(DefaultFilesConfig(path), newSink(), log); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, wanted %s", path, err, want)
		}
	}
	if _, err := NewFiles(FilesConfig{Path: t.TempDir()}, newSink(), log); err == nil {
		t.Error("a poll of zero is accepted")
	}

	m := newManifests(t, map[string]string{"web.yaml": service("web", "10.96.0.1")})
	m.do(os.Symlink("nowhere", filepath.Join(m.dir, "dangling.yaml")))
	m.do(os.WriteFile(filepath.Join(m.dir, "huge.yaml"), nil, 0o600))
	m.do(os.Truncate(filepath.Join(m.dir, "huge.yaml"), maxFileSize+1))
	m.read("")
	eventuallyHas(t, m.sink, "Service default/web")
	p := m.Status().Problems
	if len(p) != 2 || !strings.Contains(p[0], "huge.yaml: larger than 64 MiB") || !strings.Contains(p[1], "dangling.yaml: no such file") {
		t.Errorf("problems: %q", p)
	}
}

func TestNothingIsSaidBeforeTheFirstReading(t *testing.T) {
	m := newManifests(t, map[string]string{"a.yaml": service("web", "10.96.0.1")})
	m.sink.hold = make(chan struct{})
	log, _ := newLog()
	f, err := NewFiles(DefaultFilesConfig(m.dir), m.sink, log)
	m.do(err)
	if s := f.Status(); s.Synced || len(s.Waiting) != 1 {
		t.Errorf("status before: %+v", s)
	}
	stop := serve(t, f.Serve)
	stop() // ends although the receiver does not take anything
	if got := m.sink.events(); len(got) > 0 {
		t.Errorf("events: %q", got)
	}
}
