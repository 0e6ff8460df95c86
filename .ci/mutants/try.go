package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// workshop is where broken files are.
type workshop struct {
	root, dir string
	copied    string // a copy of the module, for what Node or a test reads; "" until it is needed
}

func newWorkshop() (*workshop, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "mutants")
	return &workshop{root: root, dir: dir}, err
}

func (w *workshop) close() { _ = os.RemoveAll(w.dir) }

// finding is what became of a mutant.
type finding struct {
	what, by string
	after    time.Duration
}

const (
	caught   = "caught"
	survived = "SURVIVED"
	hung     = "HUNG"
	broken   = "NO MUTANT" // it does not compile, or the tests do not run
)

func (f finding) bad() bool { return f.what != caught }

// try runs the tests that have to notice a mutant.
func (w *workshop) try(ctx context.Context, m mutant, limit time.Duration) finding {
	text, err := os.ReadFile(m.file)
	if err != nil {
		return finding{what: broken, by: err.Error()}
	}
	text = []byte(strings.Replace(string(text), m.old, m.new, 1))
	args := []string{"test", "-count=1", "-failfast", "-vet=off", "-timeout", limit.String()}
	if m.run != "" {
		args = append(args, "-run", m.run)
	}
	in := w.root
	if ext := filepath.Ext(m.file); ext == ".js" || ext == ".yaml" {
		undo, err := w.inCopy(m.file, text)
		if err != nil {
			return finding{what: broken, by: err.Error()}
		}
		defer undo()
		in = w.copied
	} else {
		overlay, err := w.overlay(m.file, text)
		if err != nil {
			return finding{what: broken, by: err.Error()}
		}
		args = append(args, "-overlay", overlay)
	}
	return w.test(ctx, in, append(append(args, m.tests), keepNothing(m.tests)...), limit)
}

// overlay writes the broken file, and what says to the go command that it replaces the other one.
func (w *workshop) overlay(file string, text []byte) (string, error) {
	replacement, overlay := filepath.Join(w.dir, "broken"+filepath.Ext(file)), filepath.Join(w.dir, "overlay.json")
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(w.root, file): replacement}})
	if err == nil {
		err = os.WriteFile(replacement, text, 0o600)
	}
	if err == nil {
		err = os.WriteFile(overlay, list, 0o600)
	}
	return overlay, err
}

// modules is what npm has installed for the tests of what Node reads. They are skipped without.
const modules = "transport/page/testdata/node_modules"

// inCopy writes the broken file into a copy of the module.
func (w *workshop) inCopy(file string, text []byte) (undo func(), err error) {
	if w.copied == "" {
		installed := filepath.Join(w.root, modules)
		if _, err := os.Stat(installed); err != nil {
			return nil, fmt.Errorf("%w; npm ci --prefix transport/page/testdata", err)
		}
		w.copied = filepath.Join(w.dir, "module")
		script := `mkdir "$1" && git ls-files -z | xargs -0 cp --parents -t "$1"`
		if out, err := exec.Command("bash", "-c", script, "copy", w.copied).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("copy the module: %w: %s", err, out)
		}
		if err := os.Symlink(installed, filepath.Join(w.copied, modules)); err != nil {
			return nil, err
		}
	}
	path := filepath.Join(w.copied, file)
	whole, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	return func() { _ = os.WriteFile(path, whole, 0o600) }, err
}

// firstFailure is a test, or a part of one, that has failed.
var firstFailure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// panicked is the test that ran when the process ended.
var panicked = regexp.MustCompile(`(?m)^(?:panic: |fatal error: |WARNING: DATA RACE|testing: )(.*)`)

// stillRunning is which tests had not ended in time.
var stillRunning = regexp.MustCompile(`running tests:(\n\t+Test.*)+`)

// test runs the go command, with an end for all of its processes.
func (w *workshop) test(ctx context.Context, dir string, args []string, limit time.Duration) finding {
	ctx, cancel := context.WithTimeout(ctx, limit+3*time.Minute) // the build takes time, too
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "ROOMD_TESTS=thorough") // all that are named run
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	err := cmd.Run()
	f := finding{after: time.Since(start)}
	text := out.String()
	failed := firstFailure.FindAllStringSubmatch(text, -1)
	switch {
	case ctx.Err() != nil, strings.Contains(text, "panic: test timed out"):
		f.what, f.by = hung, "within "+limit.String()+" "+strings.Join(strings.Fields(stillRunning.FindString(text)), " ")
	case err == nil && strings.Contains(text, "no tests to run"):
		f.what, f.by = broken, "there are no such tests"
	case err == nil:
		f.what, f.by = survived, strings.Join(args[5:], " ")
	case strings.Contains(text, "[build failed]"), strings.Contains(text, "[setup failed]"):
		f.what, f.by = broken, firstLines(text, 3)
	case len(failed) > 0:
		f.what, f.by = caught, deepest(failed)
	case panicked.MatchString(text):
		f.what, f.by = caught, firstLines(panicked.FindString(text), 1)
	default: // goleak, for example
		f.what, f.by = caught, firstLines(text, 1)
	}
	return f
}

// deepest returns the first part that failed: the name with most parents of the first test.
func deepest(failed [][]string) string {
	name := failed[0][1]
	for _, f := range failed {
		if strings.HasPrefix(f[1], name+"/") {
			name = f[1]
		}
	}
	return name
}

func firstLines(text string, n int) string {
	lines := strings.SplitN(strings.TrimSpace(text), "\n", n+1)
	return strings.Join(lines[:min(n, len(lines))], " | ")
}

// keepNothing returns the flag by which rapid writes no file for a failure, if tests of the package use it.
func keepNothing(tests string) []string {
	files, _ := filepath.Glob(filepath.Join(tests, "*_test.go"))
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && strings.Contains(string(text), "pgregory.net/rapid") {
			return []string{"-rapid.nofailfile"}
		}
	}
	return nil
}
