package launch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/lockmgr/redistest/launch"
)

// If a process is killed its server ends, even if it is stopped. The next launch removes the folder of that
// server, but not the folder of one that runs.
func TestTheServerEndsWithItsLauncher(t *testing.T) {
	redistest.Need(t, "redis-server")
	for _, how := range []string{"running", "paused"} {
		t.Run(how, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			launcher, pid, addr, dir := startLauncher(t, how)
			redistest.OK(t, launcher.Process.Kill())
			_ = launcher.Wait()
			waitFor(t, "the server of a killed process to end", func() bool {
				// Z: it has ended, but its parent has not waited for it. Its threads may end a little later.
				state := stateOf(t, fmt.Sprint(pid))
				return (state == "" || state == "Z") && !listens(addr)
			})

			running := start(t)
			long := time.Now().Add(-time.Hour)
			for _, dir := range []string{dir, running.Dir()} {
				redistest.OK(t, os.Chtimes(dir, long, long))
			}
			start(t)
			_, err := os.Stat(dir)
			redistest.ErrorIf(t, !os.IsNotExist(err), "the folder of a killed process is left: %v", err)
			_, err = os.Stat(running.Dir())
			redistest.ErrorIf(t, err != nil, "the folder of a server that runs: %v", err)
		})
	}
}

// startLauncher runs this binary as a process that launches a server.
func startLauncher(t *testing.T, how string) (launcher *exec.Cmd, pid int, addr, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	launcher = exec.CommandContext(ctx, os.Args[0])
	launcher.Env = append(os.Environ(), asLauncher+"="+how)
	stdin, err := launcher.StdinPipe() // it ends with us
	redistest.OK(t, err)
	t.Cleanup(func() { _ = stdin.Close() })
	stdout, err := launcher.StdoutPipe()
	redistest.OK(t, err)
	redistest.OK(t, launcher.Start())
	_, err = fmt.Fscan(stdout, &pid, &addr, &dir)
	redistest.FatalIf(t, err != nil, "waited for a process to launch a server: %v", err)
	return launcher, pid, addr, dir
}

// stateOf returns the letter by which Linux describes the state of a process, or of a thread of ours
// ("self/task/<id>"); "" if there is none.
func stateOf(t *testing.T, id string) string {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + id + "/stat")
	redistest.FatalIf(t, err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH), "%v", err)
	_, rest, _ := strings.Cut(string(stat), ") ")
	state, _, _ := strings.Cut(rest, " ")
	return state
}

// waitFor polls until is returns true.
func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	late := time.After(timeout)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited %v for %s", timeout, what)
		}
	}
}

// The death signal comes when the thread that started the server ends, so that is not the caller's thread.
func TestTheServerOutlivesTheThreadOfItsCaller(t *testing.T) {
	redistest.Need(t, "redis-server")
	launched := make(chan *launch.Server, 1)
	thread := onThread(func() {
		s, err := launch.Start(t.Context(), launch.Plain())
		redistest.ErrorIf(t, err != nil, "%v", err)
		launched <- s
	})
	s := <-launched
	if s == nil {
		return
	}
	t.Cleanup(func() { _ = s.Close() })
	waitFor(t, "a thread to end", func() bool { return stateOf(t, fmt.Sprint("self/task/", thread)) == "" })
	answers(t, s.Addr())
}

// onThread runs f in a thread of its own that ends with f, and returns the id of that thread.
func onThread(f func()) (thread int) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if thread = syscall.Gettid(); thread == os.Getpid() {
			thread = onThread(f) // the first thread never ends: try another
			return
		}
		f()
	}()
	<-done
	return thread
}
