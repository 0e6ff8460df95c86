package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

// The trial game of the client's README is a program that three players can play, on different nodes. While two
// wait for the third the node of one is killed, and starts again.
func TestTrialGame_Plays(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel()
	readme, err := os.ReadFile("../client/README.md")
	redistest.OK(t, err)
	program := regexp.MustCompile("(?s)```go\n(// Dice.*?)```").FindSubmatch(readme)
	if program == nil {
		t.Fatal("the README has no trial game")
	}
	if lines := strings.Count(string(program[1]), "\n"); lines > 100 {
		t.Errorf("the trial game has %d lines", lines)
	}
	dir := t.TempDir()
	source, dice := filepath.Join(dir, "dice.go"), filepath.Join(dir, "dice")
	redistest.OK(t, os.WriteFile(source, program[1], 0o600))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", dice, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	nodes := launch(t, 2, redistest.Start(t).URL())
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	names := []string{"ann", "bob", "cy"}
	said := make([]string, len(names))
	var players sync.WaitGroup
	t.Cleanup(players.Wait)
	play := func(i int) {
		players.Go(func() {
			out, err := exec.CommandContext(ctx, dice, "ws://"+nodes[i%2].addr+"/ws", "table-7", names[i], "3").CombinedOutput()
			if said[i] = string(out); err != nil {
				t.Errorf("%s: %v\n%s", names[i], err, out)
			}
		})
	}
	play(0)
	play(1)
	observer := nodes[1].player("observer", nil)
	redistest.Until(t, "two are ready", func() bool {
		reply, err := observer.Do(ctx, protocol.Request{Action: protocol.ActionUsers, Room: "table-7"})
		return err == nil && len(reply.Users) == 2 && reply.Users[0].Ready && reply.Users[1].Ready
	})
	nodes[0].stop(syscall.SIGKILL)
	nodes[0].start()
	play(2)
	players.Wait()
	if t.Failed() {
		return
	}
	starts, winner := 0, ""
	for i, text := range said {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if lines[0] == names[i]+" starts the game" {
			starts++
			lines = lines[1:]
		}
		if winner == "" {
			winner = lines[0]
		}
		if len(lines) != 1 || lines[0] != winner {
			t.Errorf("%s saw %q, another player %q", names[i], lines, winner)
		}
	}
	if starts != 1 {
		t.Errorf("%d players started the game", starts)
	}
	checkWinner(t, winner, names)
}

// checkWinner checks that each of the players has rolled once, and that the winner has the most.
func checkWinner(t *testing.T, line string, names []string) {
	t.Helper()
	found := regexp.MustCompile(`^(\w+) wins: \[(\w+) (\w+) (\w+)\] rolled \[([1-6]) ([1-6]) ([1-6])\]$`).FindStringSubmatch(line)
	if found == nil {
		t.Fatalf("the game ended with %q", line)
	}
	order, rolls := found[2:5], found[5:]
	if !slices.Equal(slices.Sorted(slices.Values(order)), names) {
		t.Errorf("%v rolled", order)
	}
	if best := slices.Index(rolls, slices.Max(rolls)); order[best] != found[1] {
		t.Error(fmt.Sprint(found[1], " is said to win, not ", order[best]))
	}
}
