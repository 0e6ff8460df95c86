package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// number is the environment variable that says which mutant is at work.
const number = "MUTANT"

// chosen is a file that each package gets which has mutants.
const chosen = `package %s

import "os"

var chosenMutant = os.Getenv("` + number + `")
`

// edit is a text that is put in place of what is from one offset to another.
type edit struct {
	from, to int
	text     string
}

// withCopies returns the text of a Go file in which each mutant that is in the body of a function is a second
// function, to which the first one gives its call if the environment says so; and which mutants these are. So one
// build has many mutants.
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
			// A complaint of the compiler names the mutant.
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

// complaint is the name of the file in which the compiler and a panic say that a mutant is.
func complaint(n int) string { return fmt.Sprintf("mutant-%d.go", n) }

// function is one that has mutants.
type function struct {
	*ast.FuncDecl
	offset func(token.Pos) int
	text   string // of its file
}

func (f function) name(n int) string { return fmt.Sprintf("mutant%d%s", n, f.Name.Name) }

// mutated returns the text of a mutant's own function.
func (f function) mutated(n int, m mutant) string {
	from, name, to := f.offset(f.Pos()), f.offset(f.Name.Pos()), f.offset(f.End())
	return f.text[from:name] + f.name(n) + strings.Replace(f.text[name+len(f.Name.Name):to], m.old, m.new, 1)
}

// dispatch returns what has the function give its call to those of its mutants. All parameters need a name for that.
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

// chosenFile is the path of that file in the package of another one.
func chosenFile(file string) string { return filepath.Join(filepath.Dir(file), "chosen_mutant.go") }
