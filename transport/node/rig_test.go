package node

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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
	c, _, err := program{name: "roomd"}.parse(args)
	return c.Serve, err
}

// 2 is for who has started roomd wrongly, 1 for what may be otherwise next time.
func TestRun_ExitCodes(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	redistest.OK(t, err)
	defer taken.Close()
	for code, all := range map[int][]string{
		exitWrongUse: {
			"--nonsense", "dance", "serve token", "--capacity", "--max-batch 5 --max-batch=x", "--lock-ttl 0s",
			"serve --lock-ttl 0s", "--lock-ttl 1ms", "--max-queue much", "--capacity 70000",
			"--redis http://x", "--listen 127.0.0.1", "--listen 0.0.0.0:0",
		},
		exitFailed: {"--redis redis://127.0.0.1:1", "--listen " + taken.Addr().String()},
	} {
		for _, args := range all {
			var stderr bytes.Buffer
			if got := command(room.Rules{}, strings.Fields(args), io.Discard, &stderr); got != code ||
				!strings.Contains(stderr.String(), "roomd: ") {
				t.Errorf("%s: exit code %d, want %d:\n%s", args, got, code, &stderr)
			}
		}
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

// launch starts n roomd processes on one Redis, with the given flags.
func launch(t *testing.T, n int, redisURL string, flags ...string) []*process {
	t.Helper()
	var nodes []*process
	for range n {
		p := prepare(t, redisURL, flags...)
		p.start()
		nodes = append(nodes, p)
	}
	return nodes
}

// prepare returns a process that ends with the test, at the latest.
func prepare(t *testing.T, redisURL string, flags ...string) *process {
	t.Helper()
	addr := roomdtest.FreeAddr(t)
	p := &process{t: t, addr: addr, args: append([]string{"--listen", addr, "--redis", redisURL}, flags...)}
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		_ = p.cmd.Wait()
	})
	return p
}

// url is where game clients connect.
func (p *process) url() string { return "ws://" + p.addr + "/ws" }

// player is connected to a node.
func (p *process) player(name string, events func(*protocol.Event)) *client.Conn {
	p.t.Helper()
	return connect(p.t, p.url(), client.Options{User: name, OnEvent: events})
}

// dial connects a user until the test ends.
func dial(t *testing.T, url, user string) *client.Conn {
	t.Helper()
	return connect(t, url, client.Options{User: user})
}

func connect(t *testing.T, url string, opts client.Options) *client.Conn {
	t.Helper()
	c, err := client.Dial(t.Context(), url, opts)
	redistest.OK(t, err)
	t.Cleanup(c.Close)
	return c
}

func join(t *testing.T, c *client.Conn, room string) *protocol.Reply {
	t.Helper()
	r, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: room})
	redistest.OK(t, err)
	return r
}

// patience is how long a test waits for what it expects.
const patience = 15 * time.Second

// observed is a node with an admin address.
type observed struct {
	t *testing.T
	*Node
}

// observe starts a node on a Redis, with the flags and an admin address. Hooks, if any, are added
// to its client of Redis.
func observe(t *testing.T, redisURL string, hooks []redis.Hook, flags ...string) observed {
	t.Helper()
	parts := partsOf(t, slog.New(slog.DiscardHandler), append([]string{"--redis", redisURL}, flags...)...)
	parts.OnClient = func(c redis.UniversalClient) {
		for _, h := range hooks {
			c.AddHook(h)
		}
	}
	return observed{t, start(t, parts)}
}

// partsOf returns the configuration of a node with these flags and an admin address.
func partsOf(t *testing.T, log *slog.Logger, flags ...string) Config {
	t.Helper()
	cfg, err := parse(t, append([]string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, flags...)...)
	redistest.OK(t, err)
	parts, err := nodeConfig(cfg, log)
	redistest.OK(t, err)
	t.Cleanup(parts.Redis.Close)
	return parts
}

// series are metrics with their labels, as Prometheus reads them.
type series map[string]float64

// scrape reads the metrics.
func (n observed) scrape() series {
	n.t.Helper()
	status, text := get(n.t, "http://"+n.AdminAddr()+"/metrics")
	found := make(series)
	for line := range strings.SplitSeq(text, "\n") {
		name, value, isSeries := strings.Cut(line, "} ")
		if name += "}"; !isSeries {
			name, value, _ = strings.Cut(line, " ")
		}
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			found[name] = number
		}
	}
	redistest.FatalIf(n.t, status != http.StatusOK || len(found) == 0, "status %d: %d series", status, len(found))
	return found
}

// expect waits until the metrics are these.
func (n observed) expect(want series) {
	n.t.Helper()
	n.until(fmt.Sprint(want), func(got series) bool {
		for name, value := range want {
			if is, ok := got[name]; !ok || is != value {
				return false
			}
		}
		return true
	})
}

// until waits until the metrics are as wanted.
func (n observed) until(want string, good func(series) bool) {
	n.t.Helper()
	for start := time.Now(); ; {
		got := n.scrape()
		if good(got) {
			return
		}
		redistest.FatalIf(n.t, time.Since(start) > patience,
			"after %v there is not: %s, but %v", patience, want, got.interesting())
	}
}

// interesting returns what a person would look at first.
func (s series) interesting() series {
	s = maps.Clone(s)
	maps.DeleteFunc(s, func(name string, value float64) bool {
		return value == 0 || !strings.HasPrefix(name, "roomd_") || strings.Contains(name, "_bucket")
	})
	return s
}

func (n observed) dial(user string) *client.Conn {
	n.t.Helper()
	return dial(n.t, n.URL(), user)
}
