package node

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/client"
	"roomd/transport/node/roomdtest"
	"roomd/transport/protocol"
)

func TestMain(m *testing.M) {
	roomdtest.Main(func() { Main(room.Rules{}) })
	redistest.MostlyWaiting()
	goleak.VerifyTestMain(tests{m})
}

// tests end the browser before leaks are looked for.
type tests struct{ *testing.M }

func (m tests) Run() int {
	code := m.M.Run()
	if chromium.end != nil {
		chromium.end()
	}
	return code
}

func parse(t *testing.T, args ...string) (config, error) {
	t.Helper()
	p := program{name: "roomd"}
	c, parser, err := p.parser()
	redistest.OK(t, err)
	_, err = c.parse(parser, args)
	c.Serve.reread = p.reread(args)
	return c.Serve, err
}

func TestRun_Serves(t *testing.T) {
	t.Parallel()
	n, log := startNode(t, "--listen", "127.0.0.1:0", "--log-format", "json", "--capacity", "1")
	c, err := client.Dial(t.Context(), n.URL(), client.Options{User: "张三"})
	redistest.OK(t, err)
	defer c.Close()
	if r, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"}); err != nil || r.Count != 1 {
		t.Errorf("join: %+v, %v", r, err)
	}
	var line struct{ Message string }
	for text := range strings.Lines(log()) {
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

func TestFlags_Bad(t *testing.T) {
	t.Parallel()
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
		redistest.OK(t, err)
		if err := run(t.Context(), cfg, &bytes.Buffer{}, func(*Node) {}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// 2 is for who has started roomd wrongly, 1 for what may be otherwise next time.
func TestRun_ExitCodes(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	redistest.OK(t, err)
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
			if got := command(room.Rules{}, strings.Fields(args), io.Discard, &stderr); got != code || !strings.Contains(stderr.String(), "roomd: ") {
				t.Errorf("%s: exit code %d, want %d:\n%s", args, got, code, &stderr)
			}
		}
	}
}

func TestFlags_Sizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"1": 1, "65536": 65536, "7B": 7, "256KiB": 256 << 10, "3 MiB": 3 << 20, "1GiB": 1 << 30} {
		if cfg, err := parse(t, "--max-queue", text); err != nil || cfg.clients().MaxQueue != want {
			t.Errorf("%s: %d, %v", text, cfg.clients().MaxQueue, err)
		}
	}
}

func TestFlags_Environment(t *testing.T) {
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
	p.cmd = roomdtest.Start(p.t, p.run, p.args)
}

func (p *process) stop(how os.Signal) {
	p.t.Helper()
	roomdtest.Stop(p.t, p.cmd, how)
}
