package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"go.uber.org/goleak"

	"roomd/loadtest"
	"roomd/lockmgr/redistest"
	"roomd/transport/client"
	"roomd/transport/node"
)

// asRoomd makes the test binary behave as roomd itself.
const asRoomd = "ROOMD_TEST_AS_ROOMD"

func TestMain(m *testing.M) {
	if os.Getenv(asRoomd) != "" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func parse(t *testing.T, args ...string) (config, error) {
	t.Helper()
	var c cli
	parser, err := kong.New(&c, options()...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = parser.Parse(args)
	return c.Serve, err
}

func TestRun(t *testing.T) {
	cfg, err := parse(t, "--listen", "127.0.0.1:0", "--log-format", "json", "--capacity", "1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log bytes.Buffer
	ready, done := make(chan *node.Node, 1), make(chan error, 1)
	go func() { done <- run(ctx, cfg, &log, func(n *node.Node) { ready <- n }) }()
	n := <-ready
	c, err := client.Dial(t.Context(), n.URL(), client.Options{User: "张三"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if r, err := c.Join(t.Context(), "42"); err != nil || r.Count != 1 {
		t.Errorf("join: %+v, %v", r, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var line struct{ Message string }
	for text := range strings.Lines(log.String()) {
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("the log has %q: %v", text, err)
		}
		if strings.HasPrefix(line.Message, "ready: ") {
			break
		}
	}
	if m := line.Message; !strings.Contains(m, n.URL()) || !strings.Contains(m, "keeps nothing") {
		t.Errorf("the log does not tell where to connect and what is kept: %s", m)
	}
}

func TestBadFlags(t *testing.T) {
	for flag, args := range map[string][]string{
		"--lock-ttl":   {"--lock-ttl", "0s"},
		"--lock-poll":  {"--lock-poll", "-1ms"},
		"than --lock-": {"--lock-ttl", "1ms"}, // the poll is longer then
		"--lock-wait":  {"--lock-wait", "0s"},
		"--max-batch":  {"--max-batch", "0"},
		"--capacity":   {"--capacity", "-1"},
		"--log-level":  {"--log-level", "loud"},
		"--log-format": {"--log-format", "xml"},
		"--nonsense":   {"--nonsense"},
		"--max-queue":  {"--max-queue", "0"},
		"--max-conn":   {"--max-connections", "-1"},
		"is 70000":     {"--capacity", "70000"},
		"256KiB":       {"--max-queue", "much"},
		"1MiB":         {"--max-queue", "9999999999GiB"},
	} {
		if _, err := parse(t, args...); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%v: %v", args, err)
		}
	}
	for want, args := range map[string][]string{
		"--allow-origin": {"--allow-origin", "https://game.example/table"},
		"listen":         {"--listen", "0.0.0.0:0"},
		"redis":          {"--redis", "http://x"},
	} {
		cfg, err := parse(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		if err := run(t.Context(), cfg, &bytes.Buffer{}, func(*node.Node) {}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// 2 is for who has started roomd wrongly, 1 for what may be otherwise next time.
func TestExitCodes(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for code, all := range map[int][]string{
		exitWrongUse: {
			"--nonsense", "dance", "--lock-ttl 0s", "serve --lock-ttl 0s", "--lock-ttl 1ms", "--max-queue much", "--capacity 70000",
			"--redis http://x", "--listen 127.0.0.1", "--listen 0.0.0.0:0",
		},
		exitFailed: {"--redis redis://127.0.0.1:1", "--listen " + taken.Addr().String()},
	} {
		for _, args := range all {
			var stderr bytes.Buffer
			if got := command(strings.Fields(args), io.Discard, &stderr); got != code || !strings.Contains(stderr.String(), "roomd: ") {
				t.Errorf("%s: exit code %d, want %d:\n%s", args, got, code, &stderr)
			}
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "65536": 65536, "7B": 7, "256KiB": 256 << 10, "3 MiB": 3 << 20, "1GiB": 1 << 30} {
		if cfg, err := parse(t, "--max-queue", text); err != nil || cfg.clients().MaxQueue != want {
			t.Errorf("%s: %d, %v", text, cfg.clients().MaxQueue, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("ROOMD_LOCK_TTL", "7s")
	t.Setenv("ROOMD_ALLOW_ORIGIN", "https://a.example,https://b.example")
	cfg, err := parse(t)
	if err != nil || cfg.LockTTL != 7*time.Second || len(cfg.AllowOrigin) != 2 || cfg.MaxBatch != 256 || cfg.Redis != "embedded" {
		t.Errorf("%+v, %v", cfg, err)
	}
}

// process is a roomd of its own.
type process struct {
	t    *testing.T
	addr string
	args []string
	run  []string // what runs it, if not nil: a command that ends with exec "$@"
	cmd  *exec.Cmd
}

// start returns when the process accepts clients.
func (p *process) start() {
	p.t.Helper()
	line := slices.Concat(p.run, []string{os.Args[0]}, p.args, []string{"--log-format", "json"})
	p.cmd = exec.Command(line[0], line[1:]...)
	p.cmd.Env = append(os.Environ(), asRoomd+"=1")
	out, err := p.cmd.StderrPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "ready: connect to") {
			go func() {
				for lines.Scan() {
				}
			}()
			return
		}
		p.t.Log(lines.Text())
	}
	p.t.Fatal("roomd ended instead of getting ready")
}

func (p *process) stop(how os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(how); err != nil {
		p.t.Error(err)
	}
	if err := p.cmd.Wait(); how == syscall.SIGTERM && err != nil {
		p.t.Errorf("roomd ended with %v", err)
	}
}

// Two nodes serve players; one of them is told to stop in the middle of it, and
// started again. Whatever it had acknowledged is in the lists.
func TestRestartsUnderLoadLoseNothing(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, how := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Run(fmt.Sprint(how), func(t *testing.T) {
			server := redistest.Start(t)
			var nodes []*process
			var targets []string
			for _, p := range launch(t, 2, server.URL()) {
				nodes, targets = append(nodes, p), append(targets, "ws://"+p.addr+"/ws")
			}
			restarts := 0
			r, err := loadtest.Run(t.Context(), loadtest.Config{
				Targets: targets, Redis: server.URL(), Clients: 40, Rooms: 2, Duration: 8 * time.Second,
				Progress: func(p loadtest.Progress) {
					if p.Actions > 60*int64(restarts+1) && restarts < 2 {
						restarts++
						nodes[0].stop(how)
						nodes[0].start()
					}
				},
			})
			for _, p := range nodes {
				p.stop(syscall.SIGTERM)
			}
			if err != nil {
				t.Fatal(err)
			}
			if restarts != 2 {
				t.Errorf("%d restarts in %d actions", restarts, r.Actions)
			}
			if !r.Consistent() {
				t.Errorf("%+v", *r)
			}
			t.Logf("%d actions, %d unknown, %d errors, %d restarts", r.Actions, r.Unknown, r.Errors, restarts)
		})
	}
}
