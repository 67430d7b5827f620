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

var (
	semanticsRow = regexp.MustCompile(`^\| ([A-M][0-9]{1,2}) \| (\w+) \| (.+) \|$`)
	// ruleName begins the name of a subtest: one rule or several.
	ruleName = regexp.MustCompile(`^[A-M][0-9]{1,2}\b`)
	ruleIn   = regexp.MustCompile(`\b[A-M][0-9]{1,2}\b`)
	// ruleFunc begins the name of a test function: one rule or several.
	ruleFunc = regexp.MustCompile(`^Test((?:[A-M][0-9]{1,2})+)(?:[A-Z]|$)`)
	eachRule = regexp.MustCompile(`[A-M][0-9]{1,2}`)
)

// testedRules returns the rules that names of tests carry, with one place of
// each.
func testedRules(t *testing.T) map[string]string {
	t.Helper()
	rules := map[string]string{}
	sources(t, func(path string) {
		if !strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "test/repo/") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if m := ruleFunc.FindStringSubmatch(n.Name.Name); m != nil {
					for _, r := range eachRule.FindAllString(m[1], -1) {
						rules[r] = path
					}
				}
			case *ast.BasicLit:
				text, err := strconv.Unquote(n.Value)
				if n.Kind == token.STRING && err == nil && ruleName.MatchString(text) && strings.Contains(text, " ") {
					for _, r := range ruleIn.FindAllString(text, -1) {
						rules[r] = path
					}
				}
			}
			return true
		})
	})
	return rules
}

// TestSemantics: docs/semantics.md and the tests agree on what is done.
func TestSemantics(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/semantics.md"))
	if err != nil {
		t.Fatal(err)
	}
	tested := testedRules(t)
	status := map[string]string{}
	for line := range strings.Lines(string(text)) {
		m := semanticsRow.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		if status[m[1]] != "" {
			t.Errorf("%s stands twice", m[1])
		}
		status[m[1]] = m[2]
		switch m[2] {
		case "done", "differs":
			if tested[m[1]] == "" && !untestable[m[1]] {
				t.Errorf("%s is %s, and no test carries its number", m[1], m[2])
			}
		case "no", "later", "other":
		default:
			t.Errorf("%s: %q is none of done, differs, no, later, other", m[1], m[2])
		}
	}
	for group, n := range map[string]int{"A": 13, "B": 21, "C": 9, "D": 14, "E": 8, "F": 12, "G": 16, "H": 7, "I": 10, "J": 12, "K": 17, "L": 11, "M": 6} {
		for i := 1; i <= n; i++ {
			if rule := group + strconv.Itoa(i); status[rule] == "" {
				t.Errorf("%s is missing", rule)
			}
		}
	}
	for rule, path := range tested {
		if s := status[rule]; s == "" || s == "later" {
			t.Errorf("%s carries %s, which is %q in docs/semantics.md", path, rule, s)
		}
	}
}

// untestable are rules whose other half is VPP's: what the packet tests show.
var untestable = map[string]bool{"E8": true}
