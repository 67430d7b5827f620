// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package watchers

import (
	"bytes"
	"crypto/sha256"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// maxNesting bounds Lists within Lists.
const maxNesting = 8

// exactErrors is how many errors of a file get the parser's line counted from
// the beginning of the file, which costs a second look; later ones have it
// counted from the document's.
const exactErrors = 50

// manifest is what one file says.
type manifest struct {
	// objects in order of appearance.
	objects []object
	// errs has one error for each document or list item that cannot be used.
	errs []error
	// warnings are about what was passed over and may have been meant.
	warnings []string
	// unread counts documents of kinds that are none of our business.
	unread int
	// documents has the objects of each YAML document without errors or
	// warnings, by its checksum. YAML is slow to read (some MB a second), so
	// that the next version of the file is read where it differs only.
	documents map[checksum][]object
}

type checksum = [sha256.Size]byte

// documentAt is where a document begins.
type documentAt struct {
	number, line int
}

// parseManifest reads a file of YAML documents or, by its name, of JSON values.
// It never fails as a whole: whatever can be understood is there. known are the
// documents of the version before, if any.
func parseManifest(name string, data []byte, known map[checksum][]object) *manifest {
	m := &manifest{documents: map[checksum][]object{}}
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if strings.HasSuffix(name, ".json") {
		m.readJSON(name, data)
	} else {
		m.readYAML(name, data, known)
	}
	return m
}

// readJSON reads JSON values that follow one another.
func (m *manifest) readJSON(name string, data []byte) {
	d := stdjson.NewDecoder(bytes.NewReader(data))
	lines := lineCounter{data: data}
	for number := 1; ; number++ {
		start := d.InputOffset()
		start += int64(len(data[start:]) - len(bytes.TrimLeft(data[start:], " \t\r\n")))
		at := documentAt{number, lines.at(start)}
		var raw stdjson.RawMessage
		err := d.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			var syntax *stdjson.SyntaxError
			if errors.As(err, &syntax) {
				at.line = lines.at(syntax.Offset)
			} else { // it ends too early
				at.line = lines.at(int64(len(data)))
			}
			m.fail(name, at, fmt.Errorf("no valid JSON: %w", err))
			return // what follows broken JSON cannot be told apart from it
		}
		m.readDocument(name, at, raw)
	}
}

// readYAML reads YAML documents. Each is parsed on its own, so that a broken one
// takes no other down.
func (m *manifest) readYAML(name string, data []byte, known map[checksum][]object) {
	number := 0
	for rest, line := data, 1; len(rest) > 0; {
		doc, size := nextDocument(rest)
		start := line
		rest, line = rest[size:], line+bytes.Count(doc, []byte("\n"))
		if isBlank(doc) {
			continue
		}
		number++
		sum := sha256.Sum256(doc)
		if objects, ok := known[sum]; ok {
			m.objects, m.documents[sum] = append(m.objects, objects...), objects
			continue
		}
		at := documentAt{number, start + leadingBlankLines(doc)}
		objects, complaints := len(m.objects), len(m.errs)+len(m.warnings)
		if complaints > exactErrors {
			start = 1
		}
		raw, warning, err := yamlToJSON(doc, start)
		if err != nil {
			m.fail(name, at, err)
			continue
		}
		if warning != "" {
			m.warn(name, at, warning)
		}
		m.readDocument(name, at, raw)
		if len(m.errs)+len(m.warnings) == complaints {
			m.documents[sum] = slices.Clip(m.objects[objects:])
		}
	}
}

func (m *manifest) readDocument(name string, at documentAt, raw []byte) {
	if string(bytes.TrimSpace(raw)) == "null" {
		return
	}
	m.read(name, at, raw, metav1.TypeMeta{}, "", 0)
}

// read takes up an object, or what is in a list of them.
func (m *manifest) read(name string, at documentAt, raw []byte, inherited metav1.TypeMeta, where string, depth int) {
	failed := func(err error) {
		if where != "" {
			err = fmt.Errorf("%s: %w", where, err)
		}
		m.fail(name, at, err)
	}
	h, err := readHeader(raw, inherited)
	if err != nil {
		failed(err)
		return
	}
	if item, ok := itemType(h.TypeMeta); ok {
		if depth == maxNesting {
			failed(fmt.Errorf("%s: Lists are nested deeper than %d", h.Kind, maxNesting))
			return
		}
		var list struct {
			Items []stdjson.RawMessage `json:"items"`
		}
		if err := json.UnmarshalCaseSensitivePreserveInts(raw, &list); err != nil {
			failed(fmt.Errorf("%s: items: wanted a list of objects", h.Kind))
			return
		}
		for i, r := range list.Items {
			m.read(name, at, r, item, fmt.Sprintf("%sitems[%d]", prefix(where, "."), i), depth+1)
		}
		return
	}
	obj, warnings, err := decodeObject(raw, inherited)
	var unread unreadKind
	switch {
	case errors.As(err, &unread):
		m.unread++
		if unread.likely() {
			m.warn(name, at, prefix(where, ": ")+unread.Error())
		}
	case err != nil:
		failed(err)
	default:
		m.objects = append(m.objects, obj)
		for _, w := range warnings {
			m.warn(name, at, prefix(where, ": ")+w)
		}
	}
}

func prefix(s, separator string) string {
	if s == "" {
		return ""
	}
	return s + separator
}

func (m *manifest) fail(name string, at documentAt, err error) {
	m.errs = append(m.errs, fmt.Errorf("%s:%d: document %d: %w", name, at.line, at.number, err))
}

func (m *manifest) warn(name string, at documentAt, text string) {
	m.warnings = append(m.warnings, fmt.Sprintf("%s:%d: document %d: %s", name, at.line, at.number, text))
}

// itemType tells whether t is a list that is read, and the type of items that
// do not name theirs, as the API server leaves them in typed lists.
func itemType(t metav1.TypeMeta) (item metav1.TypeMeta, ok bool) {
	if t == (metav1.TypeMeta{APIVersion: "v1", Kind: "List"}) {
		return metav1.TypeMeta{}, true
	}
	kind, isList := strings.CutSuffix(t.Kind, "List")
	item = metav1.TypeMeta{APIVersion: t.APIVersion, Kind: kind}
	return item, isList && newObject(item) != nil
}

// yamlToJSON converts one document that begins at the given line of its file.
func yamlToJSON(doc []byte, line int) (raw []byte, warning string, err error) {
	if trimmed := bytes.TrimSpace(doc); trimmed[0] == '{' && stdjson.Valid(trimmed) {
		return trimmed, "", nil // YAML does not take tabs, JSON does
	}
	raw, err = yaml.YAMLToJSONStrict(doc)
	if err == nil {
		return raw, "", nil
	}
	// Again behind as many empty lines as come before it in the file, so
	// that the line numbers in the parser's text are those of the file.
	doc = append(bytes.Repeat([]byte("\n"), line-1), doc...)
	_, err = yaml.YAMLToJSONStrict(doc)
	if raw, lax := yaml.YAMLToJSON(doc); lax == nil && err != nil {
		return raw, oneLine(err) + "; the last one is taken", nil
	}
	return nil, "", fmt.Errorf("no valid YAML: %s", oneLine(err))
}

// oneLine prints an error of the YAML parser on one line.
func oneLine(err error) string {
	if err == nil {
		return "unreadable"
	}
	s := strings.Join(strings.Fields(err.Error()), " ")
	s = strings.TrimPrefix(s, "yaml: ")
	return strings.TrimPrefix(s, "unmarshal errors: ")
}

// nextDocument returns the document at the beginning of data, and how much of
// data it takes together with the separator after it, up to the separator's
// line end.
func nextDocument(data []byte) (doc []byte, size int) {
	for pos := 0; pos < len(data); {
		end := bytes.IndexByte(data[pos:], '\n')
		l := data[pos:]
		if end >= 0 {
			l = data[pos : pos+end]
		}
		if isSeparator(l) {
			return data[:pos], pos + len("---")
		}
		if end < 0 {
			break
		}
		pos += end + 1
	}
	return data, len(data)
}

// isSeparator tells whether a line ends the document before it: "---", behind
// which the next document may begin, or "...".
func isSeparator(line []byte) bool {
	if !bytes.HasPrefix(line, []byte("---")) && !bytes.HasPrefix(line, []byte("...")) {
		return false
	}
	return len(line) == 3 || line[3] == ' ' || line[3] == '\t' || line[3] == '\r'
}

// isBlank tells whether a document has nothing but comments and directives.
func isBlank(doc []byte) bool {
	for line := range bytes.Lines(doc) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return false
		}
	}
	return true
}

// leadingBlankLines counts the lines of doc before its first word.
func leadingBlankLines(doc []byte) int {
	n := 0
	for line := range bytes.Lines(doc) {
		line = bytes.TrimSpace(line)
		if len(line) > 0 && line[0] != '#' && line[0] != '%' {
			return n
		}
		n++
	}
	return 0
}

// lineCounter finds the line of growing offsets in one pass.
type lineCounter struct {
	data []byte
	pos  int64
	line int
}

func (c *lineCounter) at(offset int64) int {
	offset = min(offset, int64(len(c.data)))
	if offset > c.pos {
		c.line += bytes.Count(c.data[c.pos:offset], []byte("\n"))
		c.pos = offset
	}
	return c.line + 1
}
