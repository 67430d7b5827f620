// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

var (
	scenarioRow  = regexp.MustCompile(`^\| ([0-9]+) \| (.+?) \| (.*?) ?\| (.*?) ?\|$`)
	scenarioTest = regexp.MustCompile(`^Test\w*?Scenario([0-9]+)`)
	testName     = regexp.MustCompile("`(Test\\w+)`")
)

// scenarios are the numbers of the scenarios of kinds A to E: each comes from a
// public report about software of this kind.
var scenarios = []int{
	1, 2, 3, 5, 7, 10, 11, 12, 13, 15,
	16, 17, 18, 19, 21, 22, 23, 27, 28,
	29, 30, 31, 32, 33, 35, 37, 39, 40, 41, 43, 44, 46,
	47, 49, 50, 51, 52, 53, 54, 55, 56,
	58, 60, 61, 62, 63, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 77,
}

// goTests returns the names of all test functions, each with its package.
func goTests(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
				out[f.Name.Name] = filepath.ToSlash(dir)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestScenarios: the table of README.md says where each scenario is tested, and
// for each that is not, why.
func TestScenarios(t *testing.T) {
	tests := goTests(t)
	where := map[int][]string{}
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range scripts {
		number, name, _ := strings.Cut(strings.TrimSuffix(filepath.Base(path), ".txtar"), "-")
		n, err := strconv.Atoi(number)
		if err != nil || len(number) != 3 || name == "" {
			t.Errorf("%s: wanted NNN-what-it-is-about.txtar", path)
			continue
		}
		where[n] = append(where[n], fmt.Sprintf("[%s](%s)", name, path))
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if comment, _, _ := strings.Cut(string(text), "\nagent"); !strings.HasPrefix(comment, "# ") || !strings.Contains(comment, "Right:") {
			t.Errorf("%s: the first comment does not say what went wrong and what is right", path)
		}
	}
	for name, dir := range tests {
		if m := scenarioTest.FindStringSubmatch(name); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				t.Fatal(err)
			}
			where[n] = append(where[n], fmt.Sprintf("%s `%s`", dir, name))
		}
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	update := os.Getenv("UPDATE") != ""
	seen := map[int]bool{}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		m := scenarioRow.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			out.WriteString(line)
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		seen[n] = true
		list := where[n]
		slices.Sort(list)
		cell := strings.Join(list, ", ")
		fmt.Fprintf(&out, "| %d | %s | %s | %s |\n", n, m[2], cell, m[4])
		if cell != m[3] && !update {
			t.Errorf("README.md, scenario %d: has %q, wanted %q (UPDATE=1 rewrites it)", n, m[3], cell)
		}
		named := testName.FindAllStringSubmatch(m[4], -1)
		for _, name := range named {
			if tests[name[1]] == "" {
				t.Errorf("README.md, scenario %d: there is no %s", n, name[1])
			}
		}
		if cell == "" && len(named) == 0 && !strings.HasPrefix(m[4], "not here") {
			t.Errorf("README.md, scenario %d: neither a test nor a reason", n)
		}
		if cell != "" && strings.HasPrefix(m[4], "not here") {
			t.Errorf("README.md, scenario %d: is here, though it says %q", n, m[4])
		}
	}
	for _, n := range scenarios {
		if !seen[n] {
			t.Errorf("README.md has no scenario %d", n)
		}
	}
	for name := range commands() {
		if !strings.Contains(string(text), "`"+name) {
			t.Errorf("README.md does not have the command %s", name)
		}
	}
	for n, list := range where {
		if !seen[n] {
			t.Errorf("README.md has no scenario %d, of %s", n, strings.Join(list, ", "))
		}
	}
	if update {
		if err := os.WriteFile("README.md", []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
