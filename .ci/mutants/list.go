package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// mutant is one way to break the code.
type mutant struct {
	name     string // what is wrong
	file     string
	old, new string // old occurs once in file
	tests    string // package whose tests have to notice
	run      string // its tests, as in go test -run; "" for all
}

// lists are the files with all mutants.
const lists = ".ci/mutants/list/*.txt"

// readLists returns the mutants of all lists, in order.
func readLists() (all []mutant, err error) {
	names, err := filepath.Glob(lists)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		found, err := parseList(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = slices.Concat(all, found)
	}
	return all, err
}

// parseList parses mutants, each written as
//
//	# what is wrong
//	file: package [tests, as in go test -run]
//	-lines of the file, from any column to any column
//	+lines that replace them, or none
func parseList(text string) (all []mutant, err error) {
	var old, with []string
	end := func() {
		if n := len(all); n > 0 {
			all[n-1].old, all[n-1].new = strings.Join(old, "\n"), strings.Join(with, "\n")
		}
		old, with = nil, nil
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		switch {
		case line == "":
		case line[0] == '#':
			end()
			all = append(all, mutant{name: strings.TrimSpace(line[1:])})
		case line[0] == '-':
			old = append(old, line[1:])
		case line[0] == '+':
			with = append(with, line[1:])
		default:
			file, tests, ok := strings.Cut(line, ": ")
			if !ok || len(all) == 0 || all[len(all)-1].file != "" {
				return nil, fmt.Errorf("line %d is no part of a mutant: %s", n, line)
			}
			m := &all[len(all)-1]
			m.file = file
			m.tests, m.run, _ = strings.Cut(tests, " ")
		}
	}
	end()
	return all, lines.Err()
}

// number is the environment variable that chooses the mutant.
const number = "MUTANT"

// chosen is an extra file for each package that has mutants.
const chosen = `package %s

import "os"

var chosenMutant = os.Getenv("` + number + `")
`

// edit replaces the text from one offset to another.
type edit struct {
	from, to int
	text     string
}

// withCopies adds a second function to a Go file for each mutant in the body of a function, so that one build
// has many mutants. The first function calls the second if the environment says so. withCopies returns the new
// text, the package and the numbers of the mutants that it placed.
func withCopies(path, text string, mutants map[int]mutant) (with, pkg string, placed []int, err error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		return "", "", nil, err
	}
	var edits []edit
	var copies strings.Builder
	for _, decl := range parsed.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		f := function{fn, func(p token.Pos) int { return files.Position(p).Offset }, text}
		var here []int
		for n, m := range mutants {
			if at := strings.Index(text, m.old); at > f.offset(fn.Body.Lbrace) && at+len(m.old) <= f.offset(fn.End()) {
				here = append(here, n)
			}
		}
		if len(here) == 0 {
			continue
		}
		slices.Sort(here)
		edits = append(edits, f.dispatch(here)...)
		for _, n := range here {
			// The compiler's messages then name the mutant.
			fmt.Fprintf(&copies, "\n//line %s:1\n%s\n", complaint(n), f.mutated(n, mutants[n]))
		}
		placed = append(placed, here...)
	}
	slices.SortFunc(edits, func(a, b edit) int { return b.from - a.from })
	for _, e := range edits {
		text = text[:e.from] + e.text + text[e.to:]
	}
	return text + copies.String(), parsed.Name.Name, placed, nil
}

// complaint is the file name by which the compiler and a panic name a mutant.
func complaint(n int) string { return fmt.Sprintf("mutant-%d.go", n) }

// function is a function with mutants.
type function struct {
	*ast.FuncDecl
	offset func(token.Pos) int
	text   string // text of its file
}

func (f function) name(n int) string { return fmt.Sprintf("mutant%d%s", n, f.Name.Name) }

// mutated returns the text of a mutant's function.
func (f function) mutated(n int, m mutant) string {
	from, name, to := f.offset(f.Pos()), f.offset(f.Name.Pos()), f.offset(f.End())
	return f.text[from:name] + f.name(n) + strings.Replace(f.text[name+len(f.Name.Name):to], m.old, m.new, 1)
}

// dispatch returns edits that make the function call its mutants. Each parameter needs a name for that.
func (f function) dispatch(mutants []int) (edits []edit) {
	var args []string
	name := func(list *ast.FieldList, prefix string) (names []string) {
		for i, field := range list.List {
			if len(field.Names) == 0 {
				given := fmt.Sprintf("%s%d", prefix, i)
				edits = append(edits, edit{f.offset(field.Pos()), f.offset(field.Pos()), given + " "})
				names = append(names, given)
			}
			for j, ident := range field.Names {
				given := ident.Name
				if given == "_" {
					given = fmt.Sprintf("%s%d%d", prefix, i, j)
					edits = append(edits, edit{f.offset(ident.Pos()), f.offset(ident.End()), given})
				}
				names = append(names, given)
			}
		}
		return names
	}
	args = name(f.Type.Params, "mutantParam")
	if n := f.Type.Params.NumFields(); n > 0 {
		if _, variadic := f.Type.Params.List[len(f.Type.Params.List)-1].Type.(*ast.Ellipsis); variadic {
			args[len(args)-1] += "..."
		}
	}
	var before, types string
	if f.Recv != nil {
		before = name(f.Recv, "mutantReceiver")[0] + "."
	}
	if f.Type.TypeParams != nil {
		types = "[" + strings.Join(name(f.Type.TypeParams, "MutantType"), ", ") + "]"
	}
	var text strings.Builder
	for _, n := range mutants {
		call := fmt.Sprintf("%s%s%s(%s)", before, f.name(n), types, strings.Join(args, ", "))
		if f.Type.Results.NumFields() > 0 {
			call = "return " + call
		} else {
			call += "; return"
		}
		fmt.Fprintf(&text, " if chosenMutant == \"%d\" { %s };", n, call)
	}
	at := f.offset(f.Body.Lbrace) + 1
	return append(edits, edit{at, at, text.String()})
}

// chosenFile returns the path of the extra file in file's package.
func chosenFile(file string) string { return filepath.Join(filepath.Dir(file), "chosen_mutant.go") }
