// Package csharp_test tests Roomd.cs, which Mono compiles and runs.
package csharp_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/transport"
	"roomd/transport/node"
	"roomd/transport/scenarios"
)

// build compiles Roomd.cs with other sources. Without Mono it skips the test, or fails it where CI is set.
func build(t *testing.T, args ...string) {
	t.Helper()
	for _, name := range []string{"mcs", "mono"} {
		if _, err := exec.LookPath(name); err != nil && os.Getenv("CI") != "" {
			t.Fatal(err)
		} else if err != nil {
			t.Skip(err)
		}
	}
	args = append([]string{"-langversion:7", "-warnaserror", "-r:System.Net.Http.dll", "Roomd.cs"}, args...)
	for _, source := range args[3:] { // so that go test sees when a cached result is out of date
		if strings.HasSuffix(source, ".cs") {
			redistest.OK(t, redistest.Err(os.ReadFile(source)))
		}
	}
	out, err := exec.CommandContext(t.Context(), "mcs", args...).CombinedOutput()
	redistest.FatalIf(t, err != nil, "mcs: %v\n%s", err, out)
}

// program compiles a program, and returns what makes commands that run it. They are killed with the test, if need be.
func program(t *testing.T, source string) func(args ...string) *exec.Cmd {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "program.exe")
	build(t, source, "-out:"+exe)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "mono", append([]string{exe}, args...)...)
		cmd.WaitDelay = 5 * time.Second
		cmd.Stderr = os.Stderr
		return cmd
	}
}

// Roomd.cs does what every client has to do.
func TestClient_Scenarios(t *testing.T) {
	t.Parallel()
	cmd := program(t, "testdata/Conform.cs")()
	redistest.OK(t, scenarios.Check(t.Context(), cmd, scenarios.All(), func(s scenarios.Scenario, err error) {
		t.Run(s.Name, func(t *testing.T) { redistest.OK(t, err) })
	}))
}

// startNode returns the URL of a node, which ends with the test.
func startNode(t *testing.T) string {
	t.Helper()
	db, err := redisurl.Open(redisurl.Embedded)
	redistest.OK(t, err)
	t.Cleanup(db.Close)
	n, err := node.Start(context.Background(), node.Config{Listen: "127.0.0.1:0", Redis: db, Serve: transport.Options{}})
	redistest.OK(t, err)
	t.Cleanup(func() { _ = n.Shutdown(context.Background()) })
	return n.URL()
}

// Neither other players nor the program nor its country break the client.
func TestAttack(t *testing.T) {
	t.Parallel()
	out, err := program(t, "testdata/Attack.cs")(startNode(t)).Output()
	redistest.ErrorIf(t, err != nil || string(out) != "ok\n", "%v\n%s", err, out)
}

// Two run the example at a node: both see the pot that they have filled, and leave.
func TestExample(t *testing.T) {
	t.Parallel()
	run := program(t, "Example.cs")
	url := startNode(t)
	var players sync.WaitGroup
	for _, user := range []string{"李四", "张三 & co"} {
		players.Go(func() {
			out, err := run(url, user).Output()
			if !strings.Contains(string(out), user+" sees a pot of 10\n") || err != nil {
				t.Errorf("%s: %v\n%s", user, err, out)
			}
		})
	}
	players.Wait()
}

// The snippets of the README compile.
func TestREADME_Compiles(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	redistest.OK(t, err)
	for _, snippet := range regexp.MustCompile("(?s)```csharp\n(.*?)```").FindAllSubmatch(text, -1) {
		dir := t.TempDir()
		source := filepath.Join(dir, "Snippet.cs")
		redistest.OK(t, os.WriteFile(source, snippet[1], 0o644))
		build(t, "testdata/Engines.cs", source, "-target:library", "-out:"+filepath.Join(dir, "snippet.dll"))
	}
}
