// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// eventRow is a row of docs/events.md: reason, when, who, what to do.
var eventRow = regexp.MustCompile("^\\| `(\\w+)` \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\|$")

// TestEvents: docs/events.md has each model.Reason once, and no other.
func TestEvents(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "services/model/problem.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if typ, ok := spec.Type.(*ast.Ident); !ok || typ.Name != "Reason" {
			return true
		}
		for i, name := range spec.Names {
			lit, ok := spec.Values[i].(*ast.BasicLit)
			if !ok {
				t.Fatalf("%s is no literal", name.Name)
			}
			value, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			reasons[value] = name.Name
		}
		return true
	})
	if len(reasons) == 0 {
		t.Fatal("no reason was found")
	}
	text, err := os.ReadFile(filepath.Join(root, "docs/events.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		m := eventRow.FindStringSubmatch(line)
		if m == nil {
			if strings.HasPrefix(line, "| `") {
				t.Errorf("not a row of four columns: %s", line)
			}
			continue
		}
		if rows[m[1]] {
			t.Errorf("%s stands twice", m[1])
		}
		rows[m[1]] = true
		if reasons[m[1]] == "" {
			t.Errorf("%s stands in docs/events.md and is no model.Reason", m[1])
		}
	}
	for value, name := range reasons {
		if !rows[value] {
			t.Errorf("model.%s, %s, is not in docs/events.md", name, value)
		}
	}
}
