package node

import (
	"errors"
	"net/http"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/client"
)

// status returns the HTTP status of a path of the process.
func (p *process) status(path string) int {
	p.t.Helper()
	reply, err := http.Get("http://" + p.addr + path)
	if err != nil {
		p.t.Fatal(err)
	}
	reply.Body.Close()
	return reply.StatusCode
}

// hangUp returns SIGHUP, or SIGTERM where the tests, and so their children, ignore that (nohup).
func hangUp() syscall.Signal {
	if signal.Ignored(syscall.SIGHUP) {
		return syscall.SIGTERM
	}
	return syscall.SIGHUP
}

// During the drain delay /readyz fails, and old and new clients are served. A second signal ends
// the process at once.
func TestDrain_Delay(t *testing.T) {
	t.Parallel()
	p := prepare(t, redistest.Start(t).URL(), "--drain-delay", "1h")
	p.start()
	old := p.player("old", nil)
	if code := p.status("/readyz"); code != http.StatusOK {
		t.Fatalf("readyz before the signal: %d", code)
	}
	redistest.OK(t, p.cmd.Process.Signal(hangUp()))
	redistest.Until(t, "readyz fails", func() bool { return p.status("/readyz") == http.StatusServiceUnavailable })
	join(t, old, "42")
	if r := join(t, p.player("new", nil), "42"); r.Count != 2 {
		t.Errorf("%d in the room", r.Count)
	}
	if code := p.status("/healthz"); code != http.StatusOK {
		t.Errorf("healthz: %d", code)
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	select {
	case err := <-ended:
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
			t.Errorf("after the second signal: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the second signal does not end the process")
	}
}

// After the drain delay the drain runs. SIGHUP begins one as SIGTERM does.
func TestDrain_AfterTheDelay(t *testing.T) {
	t.Parallel()
	p := prepare(t, redistest.Start(t).URL(), "--drain-delay", "10ms")
	p.start()
	c := p.player("a", nil)
	join(t, c, "42")
	_ = p.cmd.Process.Signal(hangUp())
	select {
	case <-c.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the client is not asked to reconnect")
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
}

// runInside runs a node in this process while it is used, and returns its log.
func runInside(t *testing.T, use func(*Node), args ...string) string {
	t.Helper()
	n, log := startNode(t, append([]string{"--listen", "127.0.0.1:0"}, args...)...)
	use(n)
	return log()
}

// The log of a node's life has its steps in order, with dates; clients are not in it.
func TestLog_OfALife(t *testing.T) {
	t.Parallel()
	log := runInside(t, func(n *Node) {
		c, err := client.Dial(t.Context(), n.URL(), client.Options{User: "张三"})
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		join(t, c, "42")
	}, "--drain-delay", "1ms")
	rest := log
	for _, step := range []string{"ready: connect to", "keeps nothing", "stopping: /readyz fails", "draining: ", "stopped"} {
		_, after, found := strings.Cut(rest, step)
		if !found {
			t.Errorf("no %q in its place:\n%s", step, log)
		}
		rest = after
	}
	for line := range strings.Lines(log) {
		if _, err := time.Parse(time.DateTime, line[:min(len(line), len(time.DateTime))]); err != nil {
			t.Errorf("a line without date and time: %s", line)
		}
	}
	if strings.Contains(log, "张三") {
		t.Errorf("it names a client:\n%s", log)
	}
}
