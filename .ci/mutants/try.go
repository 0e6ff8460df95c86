package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// finding is the result for a mutant.
type finding struct {
	what, by string
	test     string        // the test that noticed; "" if no test reports a failure
	after    time.Duration // how long the tests ran
}

const (
	caught   = "caught"
	survived = "SURVIVED"
	hung     = "HUNG"
	broken   = "NO MUTANT" // it does not compile, or the tests do not run
	unsound  = "UNSOUND"   // the test also fails without the mutant
)

// try runs the tests that have to notice a mutant, and repeats the failed test without it.
func (w *workshop) try(ctx context.Context, n int, limit time.Duration) finding {
	m := w.mutants[n]
	whole, err := os.ReadFile(m.file)
	if err != nil {
		return finding{what: broken, by: err.Error()}
	}
	text := strings.Replace(string(whole), m.old, m.new, 1)
	in := w.root
	if ext := filepath.Ext(m.file); ext != ".go" && ext != ".lua" { // Node reads files, too
		undo, err := w.inCopy(m.file, text)
		if err != nil {
			return finding{what: broken, by: err.Error()}
		}
		defer undo()
		in = w.copied
	}
	binary, err := w.binary(ctx, m.tests)
	if err == nil && !w.placed[n] && w.broken[n] == "" {
		binary, err = w.alone(ctx, m, text)
	}
	switch {
	case err != nil:
		return finding{what: broken, by: err.Error()}
	case w.broken[n] != "":
		return finding{what: broken, by: w.broken[n]}
	}
	found := w.test(ctx, testRun{binary, filepath.Join(in, m.tests), m.run, limit, n})
	if found.what == caught {
		tests := m.run // all of them, if none reports a failure: a panic, or leaked goroutines
		if found.test != "" {
			tests = exactly(found.test)
		}
		failed := w.fails(ctx, m.tests, tests, limit)
		// a part may depend on the parts before it
		if whole, _, isPart := strings.Cut(found.test, "/"); failed != "" && isPart {
			failed = w.fails(ctx, m.tests, exactly(whole), limit)
		}
		if failed != "" {
			found.what, found.by = unsound, found.by+", and on the whole code: "+failed
		}
	}
	return found
}

// exactly returns the -run pattern of go test for that test, or part of a test.
func exactly(test string) string {
	names := strings.Split(test, "/")
	for i, name := range names {
		names[i] = "^" + regexp.QuoteMeta(name) + "$"
	}
	return strings.Join(names, "/")
}

// fails runs tests without a mutant, and returns their failure, or "".
func (w *workshop) fails(ctx context.Context, pkg, tests string, limit time.Duration) string {
	key := pkg + " " + tests
	if _, ok := w.sound[key]; !ok {
		binary, err := w.binary(ctx, pkg)
		if err != nil {
			return err.Error()
		}
		if found := w.test(ctx, testRun{binary, filepath.Join(w.root, pkg), tests, limit, -1}); found.what != survived {
			w.sound[key] = found.what + " " + found.by
		} else {
			w.sound[key] = ""
		}
	}
	return w.sound[key]
}

// firstFailure matches a failed test, or a part of one.
var firstFailure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// panicked matches the end of a process that crashed.
var panicked = regexp.MustCompile(`(?m)^(?:panic: |fatal error: |WARNING: DATA RACE|testing: )(.*)`)

// stillRunning matches the tests that had not ended in time.
var stillRunning = regexp.MustCompile(`running tests:(\n\t+Test.*)+`)

// testRun describes a run of a test binary.
type testRun struct {
	binary, dir string
	tests       string // as in go test -run
	limit       time.Duration
	mutant      int // -1 for none
}

// test runs a test binary as the go command does, and kills all its processes at the end.
func (w *workshop) test(ctx context.Context, r testRun) finding {
	ctx, cancel := context.WithTimeout(ctx, r.limit+10*time.Second)
	defer cancel()
	args := []string{"-test.paniconexit0", "-test.failfast", "-test.timeout", r.limit.String(), "-test.run", r.tests}
	cmd := exec.CommandContext(ctx, r.binary, args...)
	cmd.Dir = r.dir
	// so that no test is skipped, and rapid keeps no file
	cmd.Env = append(os.Environ(), "ROOMD_TESTS=thorough", "RAPID_NOFAILFILE=true", number+"="+strconv.Itoa(r.mutant))
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
		f.what, f.by = hung, "within "+r.limit.String()+" "+
			strings.Join(strings.Fields(stillRunning.FindString(text)), " ")
	case err == nil && strings.Contains(text, "no tests to run"):
		f.what, f.by = broken, "there are no such tests"
	case err == nil:
		f.what, f.by = survived, "all pass of "+r.dir+" "+r.tests
	case len(failed) > 0:
		f.what, f.test = caught, deepest(failed)
		f.by = f.test
	case panicked.MatchString(text):
		f.what, f.by = caught, firstLines(panicked.FindString(text), 1)
	case strings.Contains(text, "goleak: "):
		f.what, f.by = caught, firstLines(text, 1)
	default:
		f.what, f.by = broken, err.Error()+": "+firstLines(text, 1)
	}
	return f
}

// deepest returns the innermost part of the first failed test.
func deepest(failed [][]string) string {
	name := failed[0][1]
	for _, f := range failed {
		if strings.HasPrefix(f[1], name+"/") {
			name = f[1]
		}
	}
	return name
}
