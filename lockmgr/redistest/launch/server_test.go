//go:build unix

package launch_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/lockmgr/redistest/launch"
)

// timeout bounds each wait of a test.
const timeout = 20 * time.Second

func start(t *testing.T) *launch.Server {
	t.Helper()
	redistest.Need(t, "redis-server")
	s, err := launch.Start(t.Context(), launch.Plain())
	redistest.OK(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// connect opens a connection whose reads fail when the server ends.
func connect(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, timeout)
	redistest.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	redistest.OK(t, conn.SetDeadline(time.Now().Add(timeout)))
	return conn
}

// answers fails the test unless the server answers.
func answers(t *testing.T, addr string) {
	t.Helper()
	conn := connect(t, addr)
	redistest.OK(t, redistest.Err(fmt.Fprint(conn, "PING\r\n")))
	said, err := bufio.NewReader(conn).ReadString('\n')
	redistest.FatalIf(t, said != "+PONG\r\n", "it answers %q, %v", said, err)
}

// listens reports whether anybody listens on addr.
func listens(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, timeout)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

func TestLife(t *testing.T) {
	s := start(t)
	answers(t, s.Addr())
	s.Kill()
	redistest.ErrorIf(t, listens(s.Addr()), "it listens after Kill")
	redistest.OK(t, s.Restart(t.Context()))
	answers(t, s.Addr())
	dir := s.Dir()
	err := s.Close()
	redistest.ErrorIf(t, err != nil, "%v", err)
	_, err = os.Stat(dir)
	redistest.ErrorIf(t, !os.IsNotExist(err), "its folder is left: %v", err)
}

// A server that was told to end is waited for, and another one takes its place.
func TestBecome(t *testing.T) {
	s := start(t)
	waiting, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Wait(waiting)
	redistest.ErrorIf(t, err == nil || !strings.Contains(err.Error(), "has not ended"), "a server that runs: %v", err)
	redistest.OK(t, s.Signal(syscall.SIGTERM))
	waiting, cancel = context.WithTimeout(t.Context(), timeout)
	defer cancel()
	redistest.OK(t, s.Wait(waiting))
	redistest.OK(t, s.Become(launch.Plain("--requirepass", "secret")))
	redistest.OK(t, s.Restart(t.Context()))
	conn := connect(t, s.Addr())
	redistest.OK(t, redistest.Err(fmt.Fprint(conn, "PING\r\n")))
	said, err := bufio.NewReader(conn).ReadString('\n')
	redistest.ErrorIf(t, !strings.HasPrefix(said, "-NOAUTH"), "it answers %q, %v", said, err)
}

// fake puts a script in the place of redis-server.
func fake(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	redistest.OK(t, os.WriteFile(filepath.Join(dir, "redis-server"), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestAServerThatEndsAtOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	fake(t, "echo first; echo last >&2; exit 1")
	_, err := launch.Start(t.Context(), launch.Plain())
	redistest.ErrorIf(t, err == nil || !strings.Contains(err.Error(), "first\nlast"), "%v", err)
	noFolders(t)
}

// Start waits for a server that never says that it is ready only until ctx ends.
func TestAServerThatIsNeverReady(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("this file system has no pipes, by which the fake server is held up: %v", err)
	}
	fake(t, "echo loading; exec cat "+pipe)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	opened := make(chan *os.File, 1)
	go func() {
		end, _ := os.OpenFile(pipe, os.O_WRONLY, 0) // blocks until the server has logged so much and reads
		cancel()
		opened <- end
	}()
	_, err := launch.Start(ctx, launch.Plain())
	redistest.ErrorIf(t, err == nil || !strings.Contains(err.Error(), "not ready: context canceled") ||
		!strings.Contains(err.Error(), "loading"), "%v", err)
	select {
	case end := <-opened:
		_ = end.Close()
	case <-time.After(timeout):
		t.Errorf("waited %v for the script to open its pipe", timeout)
	}
	noFolders(t)
}

func noFolders(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(os.TempDir())
	redistest.ErrorIf(t, err != nil || len(left) > 0, "left behind: %v, %v", left, err)
}
