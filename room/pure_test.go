package room

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The rules do no I/O, know no clock and start no goroutine.
func TestThePackageIsPure(t *testing.T) {
	allowed := []string{"bytes", "cmp", "errors", "fmt", "iter", "maps", "math/bits", "math/rand/v2", "path", "reflect", "slices", "strconv", "strings", "sync", "unicode", "unicode/utf8", "github.com/go-json-experiment/json", "github.com/go-json-experiment/json/jsontext", "golang.org/x/text/unicode/norm"}
	paths, err := filepath.Glob("*.go")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d files, %v", len(paths), err)
	}
	fset := token.NewFileSet()
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); !slices.Contains(allowed, path) {
				t.Errorf("%v: imports %s", fset.Position(spec.Pos()), path)
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if _, starts := n.(*ast.GoStmt); starts {
				t.Errorf("%v: starts a goroutine", fset.Position(n.Pos()))
			}
			return true
		})
	}
}
