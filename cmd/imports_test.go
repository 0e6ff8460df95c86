// Package cmd_test holds the structure of the repository.
package cmd_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
)

// Imports run one way: a folder may import those behind it.
var order = []string{"cmd", "loadtest", "transport", "room", "lockmgr"}

func TestImportsRunOneWay(t *testing.T) {
	seen := map[string]int{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		path = strings.TrimPrefix(filepath.ToSlash(path), "../")
		folder, _, _ := strings.Cut(path, "/")
		if strings.HasPrefix(folder, ".") { // the go command does not see it, but by its name
			return nil
		}
		seen[folder]++
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			inner, ours := strings.CutPrefix(imported, "roomd/")
			if !ours {
				continue
			}
			target, _, _ := strings.Cut(inner, "/")
			if slices.Index(order, folder) > slices.Index(order, target) {
				t.Errorf("%s imports %s, against %s", path, imported, strings.Join(order, " → "))
			}
			const model = "loadtest/internal/model" // which the checkers share
			const auditor = "loadtest/audit"
			reads := inner == "lockmgr/redisconn" || strings.HasSuffix(path, "_test.go") // of the auditor, which reads Redis, and whose tests play
			for _, checkers := range []string{"loadtest/lab/anomaly", "loadtest/check", auditor, model} {
				if strings.HasPrefix(path, checkers+"/") && inner != checkers && inner != model && !(checkers == auditor && reads) {
					t.Errorf("%s imports %s: the checkers import nothing of the server", path, imported)
				}
			}
			if target == "cmd" && folder != "cmd" {
				t.Errorf("%s imports %s: commands are not for importing", path, imported)
			}
		}
		return nil
	})
	redistest.OK(t, err)
	for folder := range seen {
		if !slices.Contains(order, folder) {
			t.Errorf("folder %s has no place in %v", folder, order)
		}
	}
	for _, folder := range order {
		if seen[folder] == 0 {
			t.Errorf("no Go files in %s: does the test look in the right place?", folder)
		}
	}
}

// What is at the top level belongs there, or is not for Git.
func TestTopLevel(t *testing.T) {
	ignored, err := os.ReadFile("../.gitignore")
	redistest.OK(t, err)
	belongs := append([]string{"go.mod", "go.sum", "README.md", ".*"}, order...)
	for line := range strings.Lines(string(ignored)) {
		belongs = append(belongs, strings.Trim(line, "/\n"))
	}
	found, err := os.ReadDir("..")
	redistest.OK(t, err)
	for _, entry := range found {
		redistest.ErrorIf(t, !slices.ContainsFunc(belongs, func(pattern string) bool {
			is, _ := filepath.Match(pattern, entry.Name())
			return is
		}), "%s does not belong at the top level", entry.Name())
	}
}
