package node

import (
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/transport/node/roomdtest"
)

// loud reports whether an argument is a level that a log has by default.
func loud(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && (s.Sel.Name == "LevelInfo" || s.Sel.Name == "LevelWarn" || s.Sel.Name == "LevelError")
}

// text returns a string literal, possibly of parts with + between them, up to what differs from line to
// line.
func text(e ast.Expr) (string, bool) {
	words, _ := prefix(e)
	words, _, _ = strings.Cut(words, "%")
	return strings.TrimSpace(words), words != ""
}

func prefix(e ast.Expr) (words string, whole bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == gotoken.STRING
	case *ast.BinaryExpr:
		left, whole := prefix(e.X)
		if !whole {
			return left, false
		}
		right, whole := prefix(e.Y)
		return left + right, whole
	case *ast.CallExpr: // Sprintf
		if s, ok := e.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Sprintf" {
			return prefix(e.Args[0])
		}
	}
	return "", false
}

// assigned returns the messages that a statement puts into a variable of that name.
func assigned(a *ast.AssignStmt) (messages []string) {
	for i, left := range a.Lhs {
		if name, ok := left.(*ast.Ident); ok && name.Name == "message" && len(a.Rhs) == len(a.Lhs) {
			if message, found := text(a.Rhs[i]); found {
				messages = append(messages, message)
			}
		}
	}
	return messages
}

// loggedBy returns the message that a call logs at info, warn or error, now or later.
func loggedBy(call *ast.CallExpr) (message string, found bool) {
	switch fn := call.Fun.(type) {
	case *ast.SelectorExpr:
		if name := fn.Sel.Name; (name == "Info" || name == "Warn" || name == "Error") && len(call.Args) > 0 {
			return text(call.Args[0])
		}
		if fn.Sel.Name == "WarnOver" && len(call.Args) == 2 {
			return text(call.Args[1])
		}
	case *ast.Ident:
		if fn.Name == "warn" && len(call.Args) == 1 {
			return text(call.Args[0])
		}
	}
	for i, arg := range call.Args {
		if loud(arg) && i+1 < len(call.Args) { // ratelog.New, or a function around it
			return text(call.Args[i+1])
		}
	}
	return "", false
}

// logLines returns the messages that a node can log at info, warn or error, each with its place.
func logLines(t *testing.T) map[string]string {
	t.Helper()
	lines := make(map[string]string)
	for _, root := range []string{".", "../../transport", "../../room", "../../lockmgr"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && path == "../../transport/client" {
				return filepath.SkipDir // no part of a node
			}
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			files := gotoken.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					if message, found := loggedBy(n); found {
						lines[message] = files.Position(n.Pos()).String()
					}
				case *ast.KeyValueExpr: // reload.Messages
					if key, ok := n.Key.(*ast.Ident); ok && (key.Name == "Changed" || key.Name == "Unusable") {
						if message, found := text(n.Value); found {
							lines[message] = files.Position(n.Pos()).String()
						}
					}
				case *ast.AssignStmt:
					for _, message := range assigned(n) {
						lines[message] = files.Position(n.Pos()).String()
					}
				}
				return true
			})
			return nil
		})
		redistest.OK(t, err)
	}
	return lines
}

// The manual says of each line at info, warn or error what it means and what to do, and of no other.
func TestManual_LogLines(t *testing.T) {
	t.Parallel()
	rows := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| `(.+?)` \\| (info|warn|error) \\| .+ \\| .+ \\|$").FindAllStringSubmatch(roomdtest.Manual(t, "log.md"), -1) {
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
			t.Errorf("the table has %q, which nothing logs", message)
		}
	}
}

// The manual names each flag of a node in "Flags by task", and no flag that there is not.
func TestManual_Flags(t *testing.T) {
	t.Parallel()
	_, section, _ := strings.Cut(roomdtest.Manual(t, "configuration.md"), "\n## Flags by task\n")
	section, _, _ = strings.Cut(section, "\n## ")
	all := map[string]bool{"help": true, "version": true, "ca": true} // of wscat
	known := model(t)
	for _, c := range known.Children {
		for _, flag := range c.Flags {
			all[flag.Name] = true
			if c == known.DefaultCmd && flag.Name != "help" && flag.Name != "version" && !strings.Contains(section, "--"+flag.Name) {
				t.Errorf("Flags by task lacks --%s", flag.Name)
			}
		}
	}
	others := regexp.MustCompile("(?:docker|kubectl|roomload|redis-server|redis-cli|curl|jq) [^`\n]*") // what they take is theirs
	for _, name := range regexp.MustCompile("--([a-z][a-z-]+)").FindAllStringSubmatch(others.ReplaceAllString(roomdtest.Manual(t, "*.md"), ""), -1) {
		if !all[name[1]] {
			t.Errorf("there is no flag --%s", name[1])
		}
	}
}
