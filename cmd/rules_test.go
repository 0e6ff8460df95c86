package cmd_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/client"
	"roomd/transport/node"
	"roomd/transport/node/roomdtest"
	"roomd/transport/protocol"
)

func TestMain(m *testing.M) {
	roomdtest.Main(func() { node.Main(room.Rules{}) })
	m.Run()
}

// buildTeams builds the example of node.Main as a module of its own, and returns the program.
func buildTeams(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("..")
	redistest.OK(t, err)
	dir := t.TempDir()
	for name, from := range map[string]string{"go.sum": "../go.sum", "main.go": "../transport/node/testdata/teams/main.go"} {
		text, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		redistest.OK(t, err)
	}
	for _, args := range [][]string{
		{"mod", "init", "teams"}, {"mod", "edit", "-require", "roomd@v0.0.0", "-replace", "roomd=" + root}, {"mod", "tidy"}, {"build", "-o", "teams", "."},
	} {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	return filepath.Join(dir, "teams")
}

// startProgram returns the URL of a node, and what waits until it has logged a text.
func startProgram(t *testing.T, program string, args ...string) (url string, await func(text string)) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append(args, "--listen", "127.0.0.1:0", "--log-format", "json")...)
	cmd.Env = append(os.Environ(), roomdtest.AsRoomd+"=1")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	out, err := cmd.StderrPipe()
	redistest.OK(t, err)
	redistest.OK(t, cmd.Start())
	logged, read := make(chan string, 1000), make(chan struct{})
	go func() {
		defer close(read)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			logged <- scanner.Text()
		}
	}()
	t.Cleanup(func() { // after the context of the test has ended
		<-read
		if err := cmd.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%s ended with %v", program, err)
		}
	})
	var seen strings.Builder
	await = func(text string) {
		t.Helper()
		for !strings.Contains(seen.String(), text) {
			seen.WriteString(redistest.Receive(t, logged, text))
		}
	}
	await("ready: connect to ws://")
	return regexp.MustCompile(`ready: connect to (ws://[^?]+)\?`).FindStringSubmatch(seen.String())[1], await
}

// A program of another module is roomd with rules of its own, which a player hears of by WebSocket, and a
// node with other rules in the log.
func TestAnotherModule_HasRulesOfItsOwn(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel()
	program, server := buildTeams(t), redistest.Start(t)
	url, _ := startProgram(t, program, "--redis", server.URL())
	join := func(user string) (seat int, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		c, err := client.Dial(ctx, url, client.Options{User: user})
		redistest.OK(t, err)
		t.Cleanup(func() { c.Close() })
		reply, err := c.Do(ctx, protocol.Request{Action: protocol.ActionJoin, Room: "42"})
		if err != nil {
			return -1, err
		}
		return *reply.Seat, nil
	}
	for i, tt := range []struct {
		user string
		seat int
		err  error
	}{
		{"red-a", 0, nil}, {"red-b", 2, nil}, {"red-c", -1, protocol.ErrRoomFull}, {"green-a", -1, protocol.ErrForbidden}, {"blue-a", 1, nil},
	} {
		if seat, err := join(tt.user); seat != tt.seat || !errors.Is(err, tt.err) {
			t.Errorf("%d: %s sits on %d, %v", i, tt.user, seat, err)
		}
	}
	out, err := exec.CommandContext(t.Context(), program, "--capacity", "8").CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), "rules of its own") {
		t.Errorf("with --capacity: %v: %s", err, out)
	}
	out, err = exec.CommandContext(t.Context(), program, "check", "--listen", "127.0.0.1:0", "--redis", server.URL()).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "1 on this Redis, with the same settings") {
		t.Errorf("check: %v: %s", err, out)
	}
	_, await := startProgram(t, os.Args[0], "--redis", server.URL()) // this test's binary as roomd
	await("rules teams-1 instead of standard")
}
