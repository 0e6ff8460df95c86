// Command rename gives the module its final path: in go.mod, imports, documents, and what tests know of it.
//
//	go run ./.ci/rename github.com/OWNER/roomd
//
// It changes the files that git knows below the current folder, and says how many. Packages keep their names, and so
// do the programs. Afterwards: go build ./... && go test ./...
package main

import (
	"bytes"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./.ci/rename MODULE/PATH")
		os.Exit(2)
	}
	changed, err := rename(".", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(changed, "files changed")
}

var path = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+(/[A-Za-z0-9._-]+)+$`)

// rename replaces the path of the module in dir, which is on top of a clone, and returns how many files it has changed.
func rename(dir, to string) (changed int, err error) {
	if !path.MatchString(to) {
		return 0, fmt.Errorf("%q is no path of a module, such as github.com/OWNER/roomd", to)
	}
	mod, err := os.ReadFile(dir + "/go.mod")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(mod), "\n")
	from, ok := strings.CutPrefix(first, "module ")
	if !ok {
		return 0, fmt.Errorf("go.mod begins with %q", first)
	}
	list := exec.Command("git", "ls-files", "-z")
	list.Dir = dir
	names, err := list.Output()
	if err != nil {
		return 0, fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		if strings.HasPrefix(name, ".ci/rename/") {
			continue
		}
		before, err := os.ReadFile(dir + "/" + name)
		if err != nil {
			return changed, err
		}
		if bytes.IndexByte(before, 0) >= 0 {
			continue // a picture
		}
		after := replace(before, from, to)
		if bytes.Equal(before, after) {
			continue
		}
		if strings.HasSuffix(name, ".go") { // the order of imports is another one
			if after, err = format.Source(after); err != nil {
				return changed, fmt.Errorf("%s: %w", name, err)
			}
		}
		if err := os.WriteFile(dir+"/"+name, after, 0o666); err != nil { // it keeps its mode
			return changed, err
		}
		changed++
	}
	return changed, nil
}

// replace replaces the path where it is one, and not a folder's name, the program's or a word: before a folder of the
// top level, in go.mod, in arguments of the go command, and where a test compares prefixes.
func replace(text []byte, from, to string) []byte {
	from = regexp.QuoteMeta(from)
	for _, place := range []string{
		`(^|[^\w./@-])` + from + `(/(?:cmd|room|lockmgr|transport|loadtest)\b)`,
		`(?m)(^module )` + from + `($)`, `(-require )` + from + `(@v0\.0\.0)`, `(-replace )` + from + `(=)`,
		`(")` + from + `(@v0\.0\.0")`, `(")` + from + `(=")`, `(")` + from + `(/")`,
	} {
		text = regexp.MustCompile(place).ReplaceAll(text, []byte("${1}"+strings.ReplaceAll(to, "$", "$$")+"${2}"))
	}
	return text
}
