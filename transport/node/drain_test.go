package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

// status returns the HTTP status of a path of the process.
func (p *process) status(path string) int {
	p.t.Helper()
	status, _ := get(p.t, "http://"+p.addr+path)
	return status
}

// During the drain delay /readyz fails, and old and new clients are served. A second signal ends
// the process at once. Under nohup SIGHUP is none.
func TestDrain_Delay(t *testing.T) {
	t.Parallel()
	p := prepare(t, redistest.Start(t).URL(), "--drain-delay", "1h")
	p.run = []string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"}
	p.start()
	old := p.player("old", nil)
	redistest.OK(t, p.cmd.Process.Signal(syscall.SIGHUP))
	if code := p.status("/readyz"); code != http.StatusOK {
		t.Fatalf("readyz before the signal: %d", code)
	}
	redistest.OK(t, p.cmd.Process.Signal(syscall.SIGTERM))
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
		redistest.ErrorIf(t, !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM,
			"after the second signal: %v", err)
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
	how := syscall.SIGHUP
	if signal.Ignored(how) { // by the tests, and so by their children
		how = syscall.SIGTERM
	}
	_ = p.cmd.Process.Signal(how)
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
	for _, step := range []string{"ready: connect to", "keeps nothing", "stopping: /readyz fails", "draining: ",
		"stopped"} {
		_, after, found := strings.Cut(rest, step)
		redistest.ErrorIf(t, !found, "no %q in its place:\n%s", step, log)
		rest = after
	}
	for line := range strings.Lines(log) {
		if _, err := time.Parse(time.DateTime, line[:min(len(line), len(time.DateTime))]); err != nil {
			t.Errorf("a line without date and time: %s", line)
		}
	}
	redistest.ErrorIf(t, strings.Contains(log, "张三"), "it names a client:\n%s", log)
}

// notifications is a socket as systemd listens on.
type notifications struct {
	t    *testing.T
	conn *net.UnixConn
}

func listenNotify(t *testing.T, name string) *notifications {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	redistest.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	return &notifications{t, conn}
}

// expect waits for a message that has all of want, and skips those of the watchdog before it.
func (n *notifications) expect(want ...string) {
	n.t.Helper()
	buffer := make([]byte, 4096)
	_ = n.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	for {
		size, err := n.conn.Read(buffer)
		redistest.FatalIf(n.t, err != nil, "no message with %q: %v", want, err)
		lines := strings.Split(string(buffer[:size]), "\n")
		missing := slices.DeleteFunc(slices.Clone(want), func(w string) bool {
			return slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, w) })
		})
		if len(missing) == 0 {
			return
		}
		redistest.FatalIf(n.t, lines[0] != "WATCHDOG=1", "%q instead of %q", lines, want)
	}
}

// systemd hears that the node is ready, that it lives, also while Redis hangs, and that it stops.
func TestSystemd_IsTold(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "notify")
	for kind, socket := range map[string]string{"a file": name, "abstract": fmt.Sprint("@roomd-test-", os.Getpid())} {
		t.Run(kind, func(t *testing.T) {
			server, systemd := redistest.Start(t), listenNotify(t, socket)
			p := prepare(t, server.URL(), "--drain-delay", "10ms")
			p.run = []string{"env", "NOTIFY_SOCKET=" + socket, "WATCHDOG_USEC=20000"}
			p.start()
			systemd.expect("READY=1", "STATUS=serving at ws://"+p.addr)
			systemd.expect("WATCHDOG=1")
			server.Pause()
			for range 100 {
				systemd.expect("WATCHDOG=1")
			}
			server.Resume()
			p.stop(syscall.SIGTERM)
			systemd.expect("STOPPING=1", "STATUS=draining", "EXTEND_TIMEOUT_USEC=30010000")
		})
	}
}

// Without systemd, and with a socket where nobody listens, the node works.
func TestSystemd_None(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"NOTIFY_SOCKET=", "NOTIFY_SOCKET=/nowhere/notify", "WATCHDOG_USEC=garbage"} {
		p := prepare(t, redistest.Start(t).URL())
		p.run = []string{"env", env}
		p.start()
		join(t, p.player("a", nil), "42")
		p.stop(syscall.SIGTERM)
	}
}

// The unit starts roomd with flags that it has, and gives it the time and the files that it needs.
func TestSystemd_Unit(t *testing.T) {
	t.Parallel()
	unit, err := os.ReadFile("../../cmd/roomd/deploy/roomd.service")
	redistest.OK(t, err)
	directive := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindSubmatch(unit)
		redistest.FatalIf(t, found == nil, "%s is missing", name)
		return string(found[1])
	}
	for name, want := range map[string]string{"Type": "notify", "Restart": "on-failure", "DynamicUser": "yes",
		"StartLimitIntervalSec": "0"} {
		if got := directive(name); got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
	credential, _, _ := strings.Cut(directive("LoadCredential"), ":")
	dir := t.TempDir()
	redistest.OK(t, os.WriteFile(filepath.Join(dir, credential), []byte(strings.Repeat("x", 32)), 0o600))
	line := strings.Fields(strings.NewReplacer("${CREDENTIALS_DIRECTORY}", dir, "/etc/roomd/",
		deploy).Replace(directive("ExecStart")))
	cfg, err := parse(t, line[1:]...)
	redistest.FatalIf(t, err != nil, "%s: %v", line, err)
	if err := validate(cfg); err != nil {
		t.Errorf("%s: %v", line, err)
	}
	stop, _ := time.ParseDuration(directive("TimeoutStopSec"))
	redistest.ErrorIf(t, stop < cfg.DrainDelay+drainTimeout || stop < 2*time.Second,
		"TimeoutStopSec=%v is shorter than a drain", stop)
	if watchdog, _ := time.ParseDuration(directive("WatchdogSec")); watchdog < 10*time.Second {
		t.Errorf("WatchdogSec=%v", watchdog)
	}
	var files int
	if _, _ = fmt.Sscan(directive("LimitNOFILE"), &files); files < cfg.MaxConnections+2000 {
		t.Errorf("LimitNOFILE=%d for %d clients", files, cfg.MaxConnections)
	}
	if strings.Contains(string(unit), "\nRestartPreventExitStatus=2") {
		t.Error("a panic ends with 2 as well, and has to be followed by a restart")
	}
}

// systemd accepts the unit.
func TestSystemd_AcceptsUnit(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	unit, err := os.ReadFile("../../cmd/roomd/deploy/roomd.service")
	redistest.OK(t, err)
	file := filepath.Join(t.TempDir(), "roomd.service")
	text := strings.Replace(string(unit), "/usr/local/bin/roomd", os.Args[0], 1)
	redistest.OK(t, os.WriteFile(file, []byte(text), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "systemd-analyze", "verify", file).CombinedOutput(); err != nil ||
		len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// Replicas are asked for, and none is there. SIGTERM ends the node in order, also with requests under way, and its
// lease is given back. What requests are answered then is TestReplicas_None of the coordinator.
func TestDrain_WithoutReplica(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := launch(t, 1, server.URL(), "--replicas", "1", "--lock-ttl", "500ms", "--lock-wait", "1s", "--capacity", "1")[0]
	status, text := get(t, "http://"+p.addr+"/readyz")
	redistest.ErrorIf(t, status != http.StatusServiceUnavailable || !strings.Contains(text, "fewer replicas"),
		"readyz: %d %s", status, text)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	a := p.player("a", nil)
	_, err := a.Do(ctx, protocol.Request{Action: protocol.ActionJoin, Room: "42"})
	redistest.FatalIf(t, !errors.Is(err, protocol.ErrUnknown), "a join that no replica has: %v", err)
	asked := make(chan error, 1)
	go func() {
		_, err := a.Do(ctx, protocol.Request{Action: protocol.ActionLeave, Room: "42"})
		asked <- err
	}()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.stop(syscall.SIGTERM) // fails the test unless it ends with 0
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("it has not ended within 10 s")
	}
	if err := <-asked; err == nil {
		t.Error("a leave that no replica has is acknowledged")
	}
	rdb := server.Client()
	nodes := rdb.ZRange(t.Context(), "Nodes", 0, -1).Val()
	for _, node := range nodes {
		redistest.ErrorIf(t, rdb.Exists(t.Context(), "Node:"+node).Val() > 0, "the lease of %s is left", node)
	}
}
