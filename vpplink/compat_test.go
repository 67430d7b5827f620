// Copyright The calico-vpp-services authors.
// SPDX-License-Identifier: Apache-2.0

package vpplink

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"go.fd.io/govpp/adapter"
	"go.fd.io/govpp/api"
)

// unchecked are the types of the bindings that need no check.
var unchecked = []string{
	"vpe.ShowVersion", "vpe.ShowVersionReply", // only for words
	"cnat.CnatTranslation", "ip.IPRoute", // in messages, none by themselves
}

// TestEveryMessageIsCheckedAtConnect reads this package's code: no message that it
// sends or expects is first missed in the middle of a round.
func TestEveryMessageIsCheckedAtConnect(t *testing.T) {
	checked := map[string]bool{}
	for _, m := range requiredMessages() {
		name := strings.TrimPrefix(reflect.TypeOf(m).String(), "*")
		if checked[name] {
			t.Errorf("%s is checked twice", name)
		}
		checked[name] = true
	}
	used := messagesInCode(t)
	for name, at := range used {
		if !checked[name] && !slices.Contains(unchecked, name) {
			t.Errorf("%s: %s is not checked", at, name)
		}
	}
	for name := range checked {
		if used[name] == "" {
			t.Errorf("%s is checked and not used", name)
		}
	}
	if len(used) < 20 {
		t.Errorf("only %d messages found in the code: %v", len(used), used)
	}
}

// messagesInCode returns where the package makes a message, or names its pointer
// type, by the name of that, such as "interfaces.SwInterfaceDump".
func messagesInCode(t *testing.T) map[string]string {
	t.Helper()
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]string{}
	fset := token.NewFileSet()
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(fset, f.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		// The packages by the names that they are called by here.
		bindings := map[string]bool{}
		for _, i := range parsed.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			if !strings.Contains(path, "/binapi") || strings.HasSuffix(path, "_types") {
				continue
			}
			name := path[strings.LastIndex(path, "/")+1:]
			if i.Name != nil {
				name = i.Name.Name
			}
			bindings[name] = true
		}
		note := func(e ast.Expr) {
			sel, ok := e.(*ast.SelectorExpr)
			if !ok {
				return
			}
			if pkg, ok := sel.X.(*ast.Ident); ok && bindings[pkg.Name] {
				if name := pkg.Name + "." + sel.Sel.Name; used[name] == "" {
					used[name] = fset.Position(e.Pos()).String()
				}
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				return n.Name.Name != "requiredMessages"
			case *ast.StarExpr:
				note(n.X)
			case *ast.UnaryExpr:
				if lit, ok := n.X.(*ast.CompositeLit); ok && n.Op == token.AND {
					note(lit.Type)
				}
			}
			return true
		})
	}
	return used
}

// lacking is a VPP without one message.
type lacking string

func (l lacking) GetMessageID(m api.Message) (uint16, error) {
	if m.GetMessageName() == string(l) {
		return 0, &adapter.UnknownMsgError{MsgName: m.GetMessageName(), MsgCrc: m.GetCrcString()}
	}
	return 1, nil
}

// TestLackOfAnyMessageIsNamed: each by itself is found missing, requests and
// replies.
func TestLackOfAnyMessageIsNamed(t *testing.T) {
	for _, m := range requiredMessages() {
		missing, err := checkCompatible(lacking(m.GetMessageName()))
		if want := []string{m.GetMessageName() + "_" + m.GetCrcString()}; err != nil || !slices.Equal(missing, want) {
			t.Errorf("missing %q, %v; want %q", missing, err, want)
		}
	}
}
