package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
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

// withMutants adds the bodies of its mutants to each function of a Go file, so that one build has many mutants. The
// environment chooses one. withMutants returns the new text, the package and the numbers of the mutants that it placed.
func withMutants(path, whole string, mutants map[int]mutant) (text, pkg string, placed []int, err error) {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, whole, parser.SkipObjectResolution)
	if err != nil {
		return "", "", nil, err
	}
	offset := func(p token.Pos) int { return files.Position(p).Offset }
	text = whole
	for _, decl := range slices.Backward(parsed.Decls) { // backward, so that offsets stay true
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		open, end := offset(fn.Body.Lbrace), offset(fn.End())
		var choices strings.Builder
		for _, n := range slices.Sorted(maps.Keys(mutants)) {
			m := mutants[n]
			if at := strings.Index(whole, m.old); at <= open || at+len(m.old) > end {
				continue
			}
			placed = append(placed, n)
			body := strings.Replace(whole[open:end], m.old, m.new, 1)
			call := "func() " + body + "(); return"
			if results := fn.Type.Results; results.NumFields() > 0 {
				call = "return func() " + whole[offset(results.Pos()):offset(results.End())] + body + "()"
			}
			// The compiler's messages then name the mutant.
			fmt.Fprintf(&choices, " if chosenMutant == \"%d\" { /*line mutant-%d.go:1:1*/%s };", n, n, call)
		}
		if choices.Len() > 0 {
			at := files.Position(fn.Body.Lbrace + 1)
			text = fmt.Sprintf("%s%s/*line %s:%d:%d*/%s", text[:open+1], choices.String(), filepath.Base(path), at.Line,
				at.Column, text[open+1:])
		}
	}
	return text, parsed.Name.Name, placed, nil
}

// chosenFile returns the path of the extra file in file's package.
func chosenFile(file string) string { return filepath.Join(filepath.Dir(file), "chosen_mutant.go") }
