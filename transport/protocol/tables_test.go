package protocol

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each table has every constant of its kind, once.
func TestTablesAreWhole(t *testing.T) {
	var closes []string
	for _, code := range CloseCodes() {
		closes = append(closes, fmt.Sprint(code))
	}
	tables := map[string][]string{"Code": Codes(), "Action": actionNames(), "Event": Events(), "Change": Changes(), "Reason": Reasons(), "Close": closes}
	found := map[string][]string{}
	name := regexp.MustCompile("^(Code|Action|Event|Change|Reason|Close)[A-Z]")
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			value, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			kind := name.FindStringSubmatch(value.Names[0].Name)
			if kind == nil {
				return true
			}
			text := strings.Trim(value.Values[0].(*ast.BasicLit).Value, `"`)
			if !slices.Contains(tables[kind[1]], text) {
				t.Errorf("the table lacks %s", value.Names[0].Name)
			}
			found[kind[1]] = append(found[kind[1]], text)
			return false
		})
	}
	for kind, table := range tables {
		for _, entry := range table {
			if !slices.Contains(found[kind], entry) {
				t.Errorf("no constant %s… is %q", kind, entry)
			}
		}
		if len(table) != len(found[kind]) {
			t.Errorf("%d entries for %d constants %s…: %v", len(table), len(found[kind]), kind, table)
		}
	}
}

func actionNames() (names []string) {
	for _, a := range Actions {
		names = append(names, a.Name)
	}
	return names
}
