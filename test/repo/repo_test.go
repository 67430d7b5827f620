// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

// Package repo holds the rules of DEVELOPERS.md about the repository itself.
package repo

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// sources calls f for every Go file of this module.
func sources(t *testing.T, f func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			// Nested modules have rules of their own.
			if strings.HasPrefix(d.Name(), ".") && rel != "." || d.Name() == "testdata" || rel == filepath.Join("test", "cluster") {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(path, ".go") {
			f(filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestImports: client-go stops at watchers, govpp at vpplink. The first
// matching rule of an import decides.
func TestImports(t *testing.T) {
	rules := []struct {
		prefix  string
		allowed []string // folders
		why     string
	}{
		{"k8s.io/client-go", []string{"watchers/", "cmd/"}, "only watchers and cmd speak to the API server"},
		{"go.fd.io/govpp", []string{"vpplink/", "vppsim/"}, "only vpplink and vppsim speak VPP's binary API"},
		{"calico-vpp-services/vppsim", []string{"vppsim/", "cmd/", "test/"}, "the simulator is for tests and --vpp embedded"},
	}
	n := 0
	sources(t, func(path string) {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range file.Imports {
			name, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rules {
				if name != r.prefix && !strings.HasPrefix(name, r.prefix+"/") {
					continue
				}
				n++
				test := strings.HasSuffix(path, "_test.go") && r.prefix == "calico-vpp-services/vppsim"
				if !test && !slices.ContainsFunc(r.allowed, func(dir string) bool { return strings.HasPrefix(path, dir) }) {
					t.Errorf("%s imports %s: %s", path, name, r.why)
				}
			}
		}
	})
	if n == 0 {
		t.Error("no import was checked")
	}
}

// TestPackagesAreDocumented: every package has a comment, in doc.go if it has
// more than one file.
func TestPackagesAreDocumented(t *testing.T) {
	documented, files := map[string]bool{}, map[string]int{}
	sources(t, func(path string) {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Dir(path)
		files[dir]++
		if file.Doc != nil && len(strings.Fields(file.Doc.Text())) > 5 {
			documented[dir] = true
		}
	})
	for dir := range files {
		if !documented[dir] {
			t.Errorf("%s: the package has no comment", dir)
		}
	}
}

// TestFiles: every file begins with the licence header, and none does work at
// import.
func TestFiles(t *testing.T) {
	const header = "// Copyright The calico-vpp-services authors.\n// SPDX-License-Identifier: Apache-2.0\n"
	sources(t, func(path string) {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), header) {
			t.Errorf("%s: does not begin with the licence header", path)
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				t.Errorf("%s: has an init function; do the work where it is asked for", path)
			}
		}
	})
}
