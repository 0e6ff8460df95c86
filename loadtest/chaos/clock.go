package chaos

import (
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"roomd/lockmgr/redisconn/pause"
)

// A Go program does not ask the C library for the time, so libfaketime does nothing to it. But the go command builds it with
// another time.Now (-overlay): one that adds what stands in a file, and leaves the monotonic clock alone.

const (
	clockOf = "ROOMLOAD_CHAOS_CLOCK" // the file, in the environment of a node
	nowIs   = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
)

//go:embed clock_overlay.txt
var clockOverlay string

// buildClocked builds this program, with a wall clock that can be set, into a folder, and returns its path. It needs the go
// command, and the source where this program was built from it.
func buildClocked(ctx context.Context, folder string) (string, error) {
	_, file, _, _ := runtime.Caller(0)
	module := filepath.Join(filepath.Dir(file), "..", "..")
	if _, err := os.Stat(filepath.Join(module, "go.mod")); err != nil {
		return "", fmt.Errorf("clock: the source of this program is not at %s: %w", module, err)
	}
	said, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("clock: the go command: %w", err)
	}
	library := filepath.Join(strings.TrimSpace(string(said)), "src", "time")
	text, err := os.ReadFile(filepath.Join(library, "time.go"))
	if err != nil {
		return "", fmt.Errorf("clock: %w", err)
	}
	if strings.Count(string(text), nowIs) != 1 {
		return "", fmt.Errorf("clock: time.Now of %s is not as known", runtime.Version())
	}
	now := filepath.Join(folder, "time.go")
	added := filepath.Join(folder, "wrong.go")
	overlay := filepath.Join(folder, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(library, "time.go"): now, filepath.Join(library, "roomload_chaos_clock.go"): added,
	}})
	if err != nil {
		return "", err
	}
	for path, text := range map[string]string{
		now: strings.Replace(string(text), nowIs, nowIs+"\tsec += wrongBy()\n", 1), added: clockOverlay, overlay: string(replace),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	program := filepath.Join(folder, "node")
	build := exec.CommandContext(ctx, "go", "build", "-C", module, "-overlay", overlay, "-o", program, "./cmd/roomload")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("clock: %s: %w: %s", build, err, strings.TrimSpace(string(out)))
	}
	return program, nil
}

// clock is by how much the wall clock of a node is wrong: a file that the node has mapped into its memory.
type clock struct{ file *os.File }

func newClock() (*clock, error) {
	f, err := os.CreateTemp("", "roomload-clock-*")
	if err != nil {
		return nil, err
	}
	c := &clock{f}
	return c, c.set(0)
}

func (c *clock) env() string { return clockOf + "=" + c.file.Name() }

// set has the clock go wrong by d, in whole seconds.
func (c *clock) set(d time.Duration) error {
	_, err := c.file.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(int64(d/time.Second))), 0)
	return err
}

func (c *clock) close() {
	_ = c.file.Close()
	_ = os.Remove(c.file.Name())
}

// wrongBy asks the node for the time, and returns by how much it is wrong.
func (n *node) wrongBy(ctx context.Context) (time.Duration, error) {
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.admin+"/healthz", nil)
	if err != nil {
		return 0, err
	}
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return 0, err
	}
	_ = answer.Body.Close()
	at, err := http.ParseTime(answer.Header.Get("Date"))
	return time.Until(at), err
}

// The clock of a node goes wrong by so much.
const clockStep = time.Hour

var clockFault = &Fault{
	Name: "node-clock", What: "the wall clock of a node goes an hour wrong, and back (--clock)", Built: true, loses: losesNothing,
	inject: func(ctx context.Context, i *injection) (func(context.Context) error, error) {
		n := i.node()
		wrong := clockStep
		if i.random.IntN(2) == 0 {
			wrong = -wrong
		}
		i.on += fmt.Sprintf(", by %v", wrong)
		if n.version == other {
			i.on += ", whose clock cannot be set"
			return nil, nil
		}
		if err := n.clock.set(wrong); err != nil {
			return nil, err
		}
		return func(context.Context) error { return n.clock.set(0) }, n.showsClock(ctx, wrong)
	},
}

// showsClock waits until the node says that its clock is wrong by so much: else nothing has been tried.
func (n *node) showsClock(ctx context.Context, wrong time.Duration) error {
	for {
		got, err := n.wrongBy(ctx)
		if err == nil && (got-wrong).Abs() < clockStep/2 {
			return nil
		}
		if pause.For(ctx, lookPause) != nil {
			return errors.Join(fmt.Errorf("node %d: its clock is wrong by %v, and not by %v", n.number, got, wrong), err)
		}
	}
}
