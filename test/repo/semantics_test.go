// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// rule is a row of docs/semantics.md.
type rule struct{ status, note string }

// readSemantics returns the rows by their numbers.
func readSemantics(t *testing.T) map[string]rule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/semantics.md"))
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]rule{}
	for line := range strings.Lines(string(text)) {
		m := semanticsRow.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		if _, twice := rules[m[1]]; twice {
			t.Errorf("%s stands twice", m[1])
		}
		rules[m[1]] = rule{m[2], m[3]}
	}
	return rules
}

// TestSemantics: docs/semantics.md and the tests agree on what is done.
func TestSemantics(t *testing.T) {
	tested, rules := testedRules(t), readSemantics(t)
	for number, r := range rules {
		switch r.status {
		case "done", "differs":
			if (tested[number] == "") != untestable[number] {
				t.Errorf("%s is %s, and a test carries its number: %v", number, r.status, tested[number] != "")
			}
		case "no", "later", "other":
			if untestable[number] {
				t.Errorf("%s is %s, so that nobody expects a test", number, r.status)
			}
		default:
			t.Errorf("%s: %q is none of done, differs, no, later, other", number, r.status)
		}
	}
	for group, n := range map[string]int{"A": 13, "B": 21, "C": 9, "D": 14, "E": 8, "F": 12, "G": 16, "H": 7, "I": 10, "J": 12, "K": 17, "L": 11, "M": 6} {
		for i := 1; i <= n; i++ {
			if number := group + strconv.Itoa(i); rules[number].status == "" {
				t.Errorf("%s is missing", number)
			}
		}
	}
	for number, path := range tested {
		if s := rules[number].status; s == "" || s == "later" {
			t.Errorf("%s carries %s, which is %q in docs/semantics.md", path, number, s)
		}
	}
}

var (
	saysDone    = regexp.MustCompile(`(?i)\b(done|as kube-proxy does)\b`)
	saysNotDone = regexp.MustCompile(`(?i)\b(not (yet|built|read yet)|to be (done|built))\b`)
	saysLater   = regexp.MustCompile(`(?i)\b(later|not yet|until then)\b`)
)

// contradictions returns what is wrong with the notes of rules: a note may not
// say the opposite of its status, and what leans on a rule that is not
// built must say that it is not.
func contradictions(rules map[string]rule) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, number := range slices.Sorted(maps.Keys(rules)) {
		r := rules[number]
		done := r.status == "done" || r.status == "differs"
		if !done && saysDone.MatchString(r.note) {
			add("%s is %s and says that it is done: %s", number, r.status, r.note)
		}
		if done && saysNotDone.MatchString(r.note) {
			add("%s is %s and says that it is not built: %s", number, r.status, r.note)
		}
		for _, other := range ruleIn.FindAllString(r.note, -1) {
			switch rules[other].status {
			case "":
				add("%s leans on %s, which there is not", number, other)
			case "later":
				if done && !saysLater.MatchString(r.note) {
					add("%s is %s by %s, which is later, and does not say so: %s", number, r.status, other, r.note)
				}
			}
		}
	}
	return out
}

// TestSemanticsDoesNotContradictItself has the check find what it is for, then
// nothing in docs/semantics.md.
func TestSemanticsDoesNotContradictItself(t *testing.T) {
	for _, bad := range []map[string]rule{
		{"D5": {"differs", "the route of G16 keeps outsiders away"}, "G16": {"later", "Announcing."}},
		{"M6": {"later", "Counting is done."}},
		{"K9": {"no", "As kube-proxy does."}},
		{"F1": {"done", "Not built for IPv6."}},
		{"L8": {"other", "As J55."}},
	} {
		if got := contradictions(bad); len(got) != 1 {
			t.Errorf("%v: found %q", bad, got)
		}
	}
	for _, problem := range contradictions(readSemantics(t)) {
		t.Error(problem)
	}
}

var (
	flagInText = regexp.MustCompile("`[^`]*`")
	flagName   = regexp.MustCompile(`(?:^|[ \x60])--([a-z][a-z-]+)`)
)

// TestDocumentedFlags: each flag that the documents name is one of ours.
func TestDocumentedFlags(t *testing.T) {
	literals := map[string]bool{}
	for _, dir := range []string{"cmd/calico-vpp-services", "services/resolve"} {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if text, err := strconv.Unquote(lit.Value); err == nil {
						literals[text] = true
					}
				}
				return true
			})
		}
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range flagInText.FindAllString(string(text), -1) {
			for _, m := range flagName.FindAllStringSubmatch(code, -1) {
				if n++; !literals[m[1]] && m[1] != "help" { // cobra has that one
					t.Errorf("%s names --%s, which is no flag of ours", filepath.Base(page), m[1])
				}
			}
		}
	}
	if n == 0 {
		t.Error("no flag was found")
	}
}

// untestable are rules whose other half is VPP's: what the packet tests show.
var untestable = map[string]bool{"E8": true}
