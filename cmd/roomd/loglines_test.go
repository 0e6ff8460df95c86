package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// loud reports whether an argument is a level that an operator has to read.
func loud(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && (s.Sel.Name == "LevelWarn" || s.Sel.Name == "LevelError")
}

// text returns a string literal, possibly of parts with + between them.
func text(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, ok := text(e.X)
		right, also := text(e.Y)
		return left + right, ok && also
	}
	return "", false
}

// loggedBy returns the message that a call logs at warn or error, now or later.
func loggedBy(call *ast.CallExpr) (message string, found bool) {
	switch fn := call.Fun.(type) {
	case *ast.SelectorExpr:
		if name := fn.Sel.Name; (name == "Warn" || name == "Error") && len(call.Args) > 0 {
			return text(call.Args[0])
		}
	case *ast.Ident:
		if fn.Name == "warn" && len(call.Args) == 1 {
			return text(call.Args[0])
		}
	}
	for i, arg := range call.Args {
		if loud(arg) && i+1 < len(call.Args) { // episode.New, or a function around it
			return text(call.Args[i+1])
		}
	}
	return "", false
}

// logLines returns the messages that a node can log at warn or error, each with its place.
func logLines(t *testing.T) map[string]string {
	t.Helper()
	lines := make(map[string]string)
	for _, root := range []string{".", "../../transport", "../../room", "../../lockmgr"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					if message, found := loggedBy(call); found {
						lines[message] = files.Position(call.Pos()).String()
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return lines
}

// OPERATING.md says of each warning and error what it means and what to do, and of no other.
func TestEachLogLineIsInTheManual(t *testing.T) {
	manual, err := os.ReadFile("OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(manual), "\n## Log lines and what to do\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if !found {
		t.Fatal("OPERATING.md has no such section")
	}
	rows := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| `(.+?)` \\| (warn|error) \\| .+ \\| .+ \\|$").FindAllStringSubmatch(section, -1) {
		rows[row[1]] = true
	}
	lines := logLines(t)
	if len(lines) < 20 {
		t.Fatalf("only %d messages were found in the code", len(lines))
	}
	for message, place := range lines {
		if !rows[message] {
			t.Errorf("%s: the table lacks %q", place, message)
		}
	}
	for message := range rows {
		if lines[message] == "" {
			t.Errorf("the table has %q, which nothing logs at warn or error", message)
		}
	}
}

// OPERATING.md names each flag of a node in "Flags by task", and no flag that there is not.
func TestEachFlagIsInTheManual(t *testing.T) {
	manual, err := os.ReadFile("OPERATING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(manual), "\n## Flags by task\n")
	section, _, _ = strings.Cut(section, "\n## ")
	all := map[string]bool{"help": true, "version": true, "daemonize": true, "save": true, "port": true, "cluster": true, "target": true, "cacert": true, "ca": true, "clients": true, "rooms": true}
	for _, c := range completions(model(t)) {
		for _, flag := range c.Flags {
			all[flag.Name] = true
			if c.IsDefault && flag.Name != "help" && flag.Name != "version" && !strings.Contains(section, "--"+flag.Name) {
				t.Errorf("Flags by task lacks --%s", flag.Name)
			}
		}
	}
	for _, name := range regexp.MustCompile("--([a-z][a-z-]+)").FindAllStringSubmatch(string(manual), -1) {
		if !all[name[1]] {
			t.Errorf("there is no flag --%s", name[1])
		}
	}
}
