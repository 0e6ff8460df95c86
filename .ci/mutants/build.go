package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// workshop builds mutants.
type workshop struct {
	root, dir string
	mutants   map[int]mutant    // by number
	placed    map[int]bool      // mutants in each test binary, to be chosen by number
	broken    map[int]string    // mutants that do not compile, with the compiler's message
	binaries  map[string]string // test binaries by package
	sound     map[string]string // by package and test: its failure without a mutant, "" if it passes
	copied    string            // path of a copy of the module for Node and tests that read files; "" until needed
}

func newWorkshop(all []mutant) (*workshop, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	w := &workshop{
		root: root, mutants: make(map[int]mutant), broken: make(map[int]string),
		binaries: make(map[string]string), sound: make(map[string]string),
	}
	for n, m := range all {
		w.mutants[n] = m
	}
	if w.dir, err = os.MkdirTemp("", "mutants"); err != nil {
		return nil, err
	}
	return w, w.place()
}

func (w *workshop) close() { _ = os.RemoveAll(w.dir) }

// place makes an overlay with all mutants that compile and are in the body of a Go function.
func (w *workshop) place() error {
	files := make(map[string]map[int]mutant)
	for n, m := range w.mutants {
		if filepath.Ext(m.file) == ".go" && w.broken[n] == "" {
			if files[m.file] == nil {
				files[m.file] = make(map[int]mutant)
			}
			files[m.file][n] = m
		}
	}
	w.placed = make(map[int]bool)
	replaced := make(map[string]string)
	for file, mutants := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		with, pkg, placed, err := withMutants(file, string(text), mutants)
		if err != nil {
			return err
		}
		replaced[file], replaced[chosenFile(file)] = with, fmt.Sprintf(chosen, pkg)
		for _, n := range placed {
			w.placed[n] = true
		}
	}
	return w.overlay("many", replaced)
}

// overlay writes files, and the list of that name, which makes the go command use them instead of the module's.
func (w *workshop) overlay(name string, files map[string]string) error {
	replace := make(map[string]string)
	for i, file := range slices.Sorted(maps.Keys(files)) {
		with := filepath.Join(w.dir, fmt.Sprintf("%s%d.go", name, i))
		replace[filepath.Join(w.root, file)] = with
		if err := os.WriteFile(with, []byte(files[file]), 0o600); err != nil {
			return err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	return os.WriteFile(w.list(name), list, 0o600)
}

// list is the path of an overlay's list.
func (w *workshop) list(name string) string { return filepath.Join(w.dir, name+".json") }

// complained matches a compiler's message about a mutant.
var complained = regexp.MustCompile(`mutant-(\d+)\.go:\d+.*`)

// binary returns the test binary of a package with all mutants that compile.
func (w *workshop) binary(ctx context.Context, pkg string) (string, error) {
	if name, ok := w.binaries[pkg]; ok {
		return name, nil
	}
	name := filepath.Join(w.dir, fmt.Sprintf("%d.test", len(w.binaries)))
	for {
		out, err := w.build(ctx, "many", pkg, name)
		if err == nil {
			w.binaries[pkg] = name
			return name, nil
		}
		bad := complained.FindAllStringSubmatch(out, -1)
		if len(bad) == 0 {
			return "", err
		}
		for _, found := range bad {
			n, _ := strconv.Atoi(found[1])
			w.broken[n] = found[0]
		}
		if err := w.place(); err != nil {
			return "", err
		}
	}
}

// alone returns the test binary of a package with only one mutant, which is not in a function.
func (w *workshop) alone(ctx context.Context, m mutant, text string) (name string, err error) {
	name = filepath.Join(w.dir, "alone.test")
	if err = w.overlay("alone", map[string]string{m.file: text}); err == nil {
		_, err = w.build(ctx, "alone", m.tests, name)
	}
	return name, err
}

// build builds the test binary of a package with an overlay. It also returns the compiler's messages.
func (w *workshop) build(ctx context.Context, overlay, pkg, name string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", w.list(overlay), "-o", name,
		pkg).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, firstLines(string(out), 3))
	}
	return string(out), err
}

// modules is where npm installs what Node's tests need. Without it those tests are skipped.
const modules = "transport/page/testdata/node_modules"

// inCopy writes the broken file into a copy of the module.
func (w *workshop) inCopy(file, text string) (undo func(), err error) {
	installed := filepath.Join(w.root, modules)
	if _, err := os.Stat(installed); err != nil && filepath.Ext(file) == ".js" {
		return nil, fmt.Errorf("%w; npm ci --prefix transport/page/testdata", err)
	}
	if w.copied == "" {
		copied := filepath.Join(w.dir, "module")
		script := `mkdir "$1" && git ls-files -z | xargs -0 cp --parents -t "$1"`
		if out, err := exec.Command("bash", "-c", script, "copy", copied).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("copy the module: %w: %s", err, out)
		}
		if err := os.Symlink(installed, filepath.Join(copied, modules)); err != nil {
			return nil, err
		}
		w.copied = copied
	}
	path := filepath.Join(w.copied, file)
	whole, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	return func() { _ = os.WriteFile(path, whole, 0o600) }, err
}

func firstLines(text string, n int) string {
	lines := strings.SplitN(strings.TrimSpace(text), "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], " | ")
}
