// Package python_test holds the Python client to what every client has to do.
package python_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/transport"
	"roomd/transport/client"
	"roomd/transport/node"
	"roomd/transport/scenarios"
)

// interpreter is Debian's, which finds Debian's python3-websockets.
const interpreter = "/usr/bin/python3"

// python returns a command that runs a script of this folder. It ends with the test, or within two minutes if that is
// killed. Without Python the test is skipped; it fails where CI is set.
func python(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if err := exec.Command(interpreter, "-c", "import websockets, asyncio; asyncio.TaskGroup").Run(); err != nil {
		missing := "Python 3.11 or its websockets is missing (apt install python3-websockets): " + err.Error()
		redistest.FatalIf(t, os.Getenv("CI") != "", "%s", missing)
		t.Skip(missing)
	}
	for _, pattern := range []string{"*.py", "testdata/*.py"} { // go test sees so when a cached result is out of date
		scripts, err := filepath.Glob(pattern)
		redistest.OK(t, err)
		for _, script := range scripts {
			redistest.OK(t, redistest.Err(os.ReadFile(script)))
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	line := append([]string{"--kill-after", "5", "120", interpreter, "-W", "error", "-B"}, args...)
	cmd := exec.CommandContext(ctx, "timeout", line...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // which timeout passes on
	cmd.WaitDelay = 5 * time.Second
	t.Cleanup(func() {
		cancel()
		if cmd.Process != nil {
			_ = cmd.Wait()
		}
	})
	return cmd
}

// startNode starts a node with an embedded Redis, and returns its address. It ends with the test.
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

// roomd.py does what every client has to do.
func TestClient_Scenarios(t *testing.T) {
	t.Parallel()
	cmd := python(t, "testdata/conform.py")
	cmd.Stderr = os.Stderr
	redistest.OK(t, scenarios.Check(t.Context(), cmd, scenarios.All(), func(s scenarios.Scenario, err error) {
		t.Run(s.Name, func(t *testing.T) { redistest.OK(t, err) })
	}))
}

// Two players of the example count together, and lose no number.
func TestExample(t *testing.T) {
	t.Parallel()
	example, err := os.ReadFile("example.py")
	redistest.OK(t, err)
	readme, err := os.ReadFile("README.md")
	redistest.OK(t, err)
	redistest.ErrorIf(t, !strings.Contains(string(readme), "```python\n"+string(example)+"```\n"), "the README has another example")
	players := []*exec.Cmd{python(t, "example.py"), python(t, "example.py")}
	address := startNode(t)
	said := make([]string, len(players))
	var playing sync.WaitGroup
	for i, cmd := range players {
		cmd.Args = append(cmd.Args, address, []string{"李四", "eve"}[i])
		playing.Go(func() {
			out, err := cmd.CombinedOutput()
			if said[i] = string(out); err != nil {
				t.Errorf("%v: %v\n%s", cmd.Args, err, out)
			}
		})
	}
	playing.Wait()
	var numbers []string
	for line := range strings.Lines(strings.Join(said, "")) {
		if _, number, ok := strings.Cut(strings.TrimSpace(line), " says "); ok {
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	if got := strings.Join(numbers, " "); got != "1 2 3 4 5 6 7 8 9" {
		t.Errorf("the players have said %s:\n%s", got, said)
	}
}

// What is cancelled or closed at any moment leaves the client and the server of one mind.
func TestClient_Cancelled(t *testing.T) {
	t.Parallel()
	cmd := python(t, "testdata/cancel.py", startNode(t))
	out, err := cmd.CombinedOutput()
	redistest.ErrorIf(t, err != nil || len(out) > 0, "%v\n%s", err, out)
}

// A bot sits down where a human waits, leaves when another human comes, and when no human is left.
func TestBot(t *testing.T) {
	t.Parallel()
	cmd := python(t, "bot.py")
	address := startNode(t)
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	join := func(user string) (*client.Client, *client.Room) {
		c, err := client.Connect(ctx, client.Config{Addresses: []string{address}, User: user})
		redistest.OK(t, err)
		t.Cleanup(c.Close)
		room, err := c.Join(ctx, "42")
		redistest.OK(t, err)
		return c, room
	}
	ada, table := join("ada")
	await := func(want ...string) {
		t.Helper()
		for range table.Changes(ctx) {
			var users []string
			for _, u := range table.View().Users {
				users = append(users, u.User+map[bool]string{true: " ready"}[u.Ready])
			}
			if slices.Equal(users, want) {
				return
			}
		}
		t.Fatalf("%v are not at the table: %v", want, table.View().Users)
	}
	cmd.Args = append(cmd.Args, address, "42", "--players", "2", "--patience", "0.05")
	cmd.Stderr = os.Stderr
	redistest.OK(t, cmd.Start())
	await("ada", "bot-1 ready")
	bob, _ := join("bob")
	await("ada", "bob")
	bob.Close()
	await("ada", "bot-1 ready")
	eve, err := client.Connect(ctx, client.Config{Addresses: []string{address}, User: "eve"})
	redistest.OK(t, err)
	defer eve.Close()
	watched, err := eve.Watch(ctx, "42")
	redistest.OK(t, err)
	ada.Close()
	for range watched.Changes(ctx) {
		if len(watched.View().Users) == 0 {
			break
		}
	}
	redistest.FatalIf(t, ctx.Err() != nil, "the bot stays at a table without humans")
	redistest.OK(t, cmd.Process.Signal(os.Interrupt))
	redistest.OK(t, cmd.Wait())
}
