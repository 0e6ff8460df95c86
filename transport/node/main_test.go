package node

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/node/roomdtest"
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
			if got := command(room.Rules{}, strings.Fields(args), io.Discard, &stderr); got != code || !strings.Contains(stderr.String(), "roomd: ") {
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
