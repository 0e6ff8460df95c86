package node

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
)

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
		if err != nil {
			n.t.Fatalf("no message with %q: %v", want, err)
		}
		lines := strings.Split(string(buffer[:size]), "\n")
		missing := slices.DeleteFunc(slices.Clone(want), func(w string) bool {
			return slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, w) })
		})
		if len(missing) == 0 {
			return
		}
		if lines[0] != "WATCHDOG=1" {
			n.t.Fatalf("%q instead of %q", lines, want)
		}
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
		if found == nil {
			t.Fatalf("%s is missing", name)
		}
		return string(found[1])
	}
	for name, want := range map[string]string{"Type": "notify", "Restart": "on-failure", "DynamicUser": "yes", "StartLimitIntervalSec": "0", "ExecReload": "/bin/kill -HUP $MAINPID"} {
		if got := directive(name); got != want {
			t.Errorf("%s=%s, want %s", name, got, want)
		}
	}
	credential, _, _ := strings.Cut(directive("LoadCredential"), ":")
	dir := t.TempDir()
	redistest.OK(t, os.WriteFile(filepath.Join(dir, credential), []byte(strings.Repeat("x", 32)), 0o600))
	line := strings.Fields(strings.NewReplacer("${CREDENTIALS_DIRECTORY}", dir, "/etc/roomd/", deploy).Replace(directive("ExecStart")))
	cfg, err := parse(t, line[1:]...)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	if err := validate(cfg); err != nil || cfg.Config == nil { // without a file the reload would end the node
		t.Errorf("%s: %v", line, err)
	}
	stop, _ := time.ParseDuration(directive("TimeoutStopSec"))
	if stop < cfg.DrainDelay+drainTimeout || stop < 2*time.Second {
		t.Errorf("TimeoutStopSec=%v is shorter than a drain", stop)
	}
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
	if out, err := exec.CommandContext(ctx, "systemd-analyze", "verify", file).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}
