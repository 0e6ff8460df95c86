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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// connect opens a connection whose reads fail when the server ends.
func connect(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// answers fails the test unless the server answers.
func answers(t *testing.T, addr string) {
	t.Helper()
	conn := connect(t, addr)
	if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(conn).ReadString('\n'); said != "+PONG\r\n" {
		t.Fatalf("it answers %q, %v", said, err)
	}
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
	if listens(s.Addr()) {
		t.Error("it listens after Kill")
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	answers(t, s.Addr())
	dir := s.Dir()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("its folder is left: %v", err)
	}
}

// A server that was told to end is waited for, and another one takes its place.
func TestBecome(t *testing.T) {
	s := start(t)
	waiting, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Wait(waiting); err == nil || !strings.Contains(err.Error(), "has not ended") {
		t.Errorf("a server that runs: %v", err)
	}
	if err := s.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	waiting, cancel = context.WithTimeout(t.Context(), timeout)
	defer cancel()
	if err := s.Wait(waiting); err != nil {
		t.Fatal(err)
	}
	if err := s.Become(launch.Plain("--requirepass", "secret")); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, s.Addr())
	if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	if said, err := bufio.NewReader(conn).ReadString('\n'); !strings.HasPrefix(said, "-NOAUTH") {
		t.Errorf("it answers %q, %v", said, err)
	}
}

// fake puts a script in the place of redis-server.
func fake(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "redis-server"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func TestAServerThatEndsAtOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	fake(t, "echo first; echo last >&2; exit 1")
	_, err := launch.Start(t.Context(), launch.Plain())
	if err == nil || !strings.Contains(err.Error(), "first\nlast") {
		t.Errorf("%v", err)
	}
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
	if err == nil || !strings.Contains(err.Error(), "not ready: context canceled") ||
		!strings.Contains(err.Error(), "loading") {
		t.Errorf("%v", err)
	}
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
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
