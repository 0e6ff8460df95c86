package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

// reloading is a node with a file of settings.
type reloading struct {
	*Node
	t       *testing.T
	file    string
	hangups chan os.Signal
	log     redistest.Log
}

// startReloading starts a node with a file of that text. It ends with the test.
func startReloading(t *testing.T, text string, args ...string) *reloading {
	t.Helper()
	r := &reloading{t: t, file: settingsFile(t, text), hangups: make(chan os.Signal)}
	cfg, err := parse(t, append([]string{"--listen", "127.0.0.1:0", "--config", r.file}, args...)...)
	redistest.OK(t, err)
	cfg.hangups = r.hangups
	r.Node, _ = runNode(t, cfg, &r.log)
	return r
}

// reload has the node read that text, and returns what it logged of it when it has.
func (r *reloading) reload(text string) (log string) {
	r.t.Helper()
	redistest.OK(r.t, os.WriteFile(r.file, []byte(text), 0o600))
	return r.hangUp()
}

// hangUp sends a SIGHUP, and returns what the node logged when it has read the file.
func (r *reloading) hangUp() (log string) {
	r.t.Helper()
	before := len(r.log.String())
	select {
	case r.hangups <- syscall.SIGHUP:
	case <-time.After(20 * time.Second):
		r.t.Fatal("nobody takes the signal")
	}
	redistest.Until(r.t, "the file is read again", func() bool {
		log = r.log.String()[before:]
		return strings.Contains(log, "the configuration was read again") || strings.Contains(log, "the configuration cannot be used")
	})
	return log
}

func (r *reloading) dial(user string) *client.Conn {
	r.t.Helper()
	return dial(r.t, r.URL(), user)
}

// contains fails the test for each text that is not in the log.
func contains(t *testing.T, log string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		redistest.ErrorIf(t, !strings.Contains(log, text), "no %q in\n%s", text, log)
	}
}

// Who is connected meets new limits with the next request, and stays in what is too much now.
func TestReload_Connected(t *testing.T) {
	t.Parallel()
	r := startReloading(t, "rate: off\n", "--log-format", "json")
	c, ctx := r.dial("a"), t.Context()
	join(t, c, "1")
	join(t, c, "2")
	join(t, c, "3")
	contains(t, r.reload("rate: 1/s\nburst: 1\nmax-rooms: 2\nmax-connections: 1\n"), `"setting":"rate"`, `"was":"off"`, `"is":"1/s"`, `"changed":4`, `"need_restart":0`)
	if _, err := c.Do(ctx, protocol.Request{Action: protocol.ActionUsers, Room: "1"}); err != nil {
		t.Errorf("the first request at the new rate: %v", err)
	}
	if _, err := c.Do(ctx, protocol.Request{Action: protocol.ActionUsers, Room: "1"}); !errors.Is(err, protocol.ErrRateLimited) || !strings.Contains(err.Error(), "1 requests a second") {
		t.Errorf("the second: %v", err)
	}
	if _, err := client.Dial(ctx, r.URL(), client.Options{User: "b"}); !errors.Is(err, protocol.ErrUnavailable) {
		t.Errorf("a connection too many: %v", err)
	}
	contains(t, r.reload("rate: off\nmax-rooms: 2\nmax-per-address: 1\n"), `"setting":"max-per-address"`)
	if _, err := c.Do(ctx, protocol.Request{Action: protocol.ActionJoin, Room: "4"}); err == nil || !strings.Contains(err.Error(), "2 rooms") {
		t.Errorf("a room too many: %v", err)
	}
	if _, err := c.Do(ctx, protocol.Request{Action: protocol.ActionUsers, Room: "3"}); err != nil {
		t.Errorf("a room that there was before: %v", err)
	}
	if _, err := client.Dial(ctx, r.URL(), client.Options{User: "b"}); !errors.Is(err, protocol.ErrRateLimited) {
		t.Errorf("a second connection of the address: %v", err)
	}
	r.reload("rate: off\nmax-frame: 1KiB\nmax-new-rooms: 1\n")
	if got := r.Settings(); got["max_frame"] != "1024" || got["rate"] != "off" || r.Stats().Clients.Connections != 1 {
		t.Errorf("settings %v, clients %+v", got, r.Stats().Clients)
	}
	long, b := protocol.Request{Action: protocol.ActionSay, Text: strings.Repeat("y", 1100)}, r.dial("b")
	join(t, b, "new")
	if _, err := b.Do(ctx, protocol.Request{Action: protocol.ActionJoin, Room: "newer"}); !errors.Is(err, protocol.ErrRateLimited) {
		t.Errorf("a new room too many: %v", err)
	}
	long.Room = "1"
	if _, err := c.Do(ctx, long); err != nil {
		t.Errorf("a connection made before has a longer frame: %v", err)
	}
	long.Room = "new"
	if _, err := b.Do(ctx, long); err == nil {
		t.Error("a connection made afterwards sends a longer frame")
	}
}

// The HTTP API is bound by the rate, too, and metrics and the log show what counts.
func TestReload_API(t *testing.T) {
	t.Parallel()
	r := startReloading(t, "rate: off\n", "--admin-listen", "127.0.0.1:0")
	rooms := "http://" + r.Addr() + "/api/rooms"
	for range 3 {
		if status, _ := get(t, rooms); status != 200 {
			t.Error(status)
		}
	}
	r.reload("rate: 1\nburst: 1\n")
	limited := 0
	for range 3 {
		if status, _ := get(t, rooms); status == 429 {
			limited++
		}
	}
	redistest.ErrorIf(t, limited == 0, "the API goes on at the old rate")
	if _, metrics := get(t, "http://"+r.AdminAddr()+"/metrics"); !strings.Contains(metrics, `rate="1/s"`) || strings.Contains(metrics, `rate="off"`) {
		t.Error("the metrics show the old rate")
	}
}

// What needs a restart is refused by name, with both values, and what is live changes all the same. Secrets are
// not shown. The next SIGHUP says it again.
func TestReload_NeedsRestart(t *testing.T) {
	t.Parallel()
	r := startReloading(t, "burst: 5\n", "--log-format", "json")
	text := "burst: 6\nlock-ttl: 4s\nredis: redis://u:hidden@h:1\nauth-secret: hidden-hidden-hidden-hidden-hidden\nlock-wait: 3s\nallow-origin: [https://a.example]\n"
	for i := range 2 {
		log := r.reload(text)
		contains(t, log, `"setting":"lock-ttl","is":"3s","wanted":"4s"`, `"setting":"redis","is":"embedded","wanted":"Redis at h:1"`,
			`"setting":"auth-secret","is":"","wanted":"(secret)"`, `"setting":"lock-wait"`, `"setting":"allow-origin"`, fmt.Sprintf(`"changed":%d,"need_restart":5`, 1-i))
		redistest.ErrorIf(t, strings.Contains(log, "hidden"), "the log has a secret:\n%s", log)
	}
	if got := r.Settings(); got["burst"] != "6" || got["lock_ttl"] != "3s" || got["auth"] != "none" {
		t.Errorf("%v", got)
	}
	contains(t, r.reload("burst: 5\n"), `"changed":1,"need_restart":0`)
}

// Of a file with an error nothing counts, and the node goes on as it was, until the file is right again.
func TestReload_Garbage(t *testing.T) {
	t.Parallel()
	r := startReloading(t, "burst: 5\n", "--log-format", "json")
	c := r.dial("a")
	for text, want := range map[string]string{
		"burst: 6\nspeed: 3\n":                    r.file + ":2: ",
		"burst: 6\nburst: 7\n":                    r.file + ":2: ",
		"burst: 6\nrate: many\n":                  r.file + ":2: ",
		"burst: 6\nmax-frame: 10B\n":              r.file + ":2: ",
		"burst: 6\nlock-ttl: 1ms\n":               r.file + ":2: ",
		"burst: 6\nredis: http://x\n":             r.file + ":2: ",
		"burst: 6\nallow-origin: [nonsense]\n":    r.file + ":2: ",
		"burst: 6\n}":                             r.file + ":2: ",
		"burst: 6\n" + strings.Repeat("#", 1<<20): "longer than",
	} {
		if log := r.reload(text); !strings.Contains(log, "the configuration cannot be used, everything stays as it is") || !strings.Contains(log, want) || strings.Contains(log, "has changed") {
			t.Errorf("%.60q: %s", text, log)
		}
		if got := r.Settings()["burst"]; got != "5" {
			t.Errorf("%.60q: burst is %s", text, got)
		}
	}
	redistest.OK(t, os.Remove(r.file))
	contains(t, r.hangUp(), "no such file")
	redistest.OK(t, os.Mkdir(r.file, 0o700))
	contains(t, r.hangUp(), "no regular file")
	redistest.OK(t, os.Remove(r.file))
	redistest.OK(t, syscall.Mkfifo(r.file, 0o600))
	contains(t, r.hangUp(), "no regular file") // and does not wait for somebody to write
	redistest.OK(t, os.Remove(r.file))
	join(t, c, "42")
	contains(t, r.reload("burst: 8\n"), `"changed":1`)
	contains(t, r.reload(""), `"setting":"burst","was":"8","is":"100"`)
}

// The level of the log, and the drain delay, which counts when the node stops.
func TestReload_LogAndDrain(t *testing.T) {
	t.Parallel()
	r := startReloading(t, "log-level: warn\n", "--log-format", "json")
	if log := r.log.String(); log != "" {
		t.Errorf("at level warn a quiet node logs %s", log)
	}
	r.reload("log-level: debug\ndrain-delay: 1ms\n")
	join(t, r.dial("a"), "42")
	redistest.Until(t, "requests are logged", func() bool { return strings.Contains(r.log.String(), `"message":"request"`) })
}

// A flag and a variable stay before the file, also when that is read again.
func TestReload_Precedence(t *testing.T) {
	t.Setenv("ROOMD_BURST", "7")
	r := startReloading(t, "rate: 5\n", "--max-rooms", "9")
	r.reload("rate: 6\nburst: 8\nmax-rooms: 10\n")
	if got := r.Settings(); got["rate"] != "6/s" || got["burst"] != "7" || got["max_rooms"] != "9" {
		t.Errorf("%v", got)
	}
}

// A process reads its file at SIGHUP, also several at once and under nohup, tells systemd so, and ends by SIGTERM.
func TestReload_Process(t *testing.T) {
	t.Parallel()
	server, socket := redistest.Start(t), filepath.Join(t.TempDir(), "notify")
	systemd, file := listenNotify(t, socket), settingsFile(t, "burst: 5\n")
	p := prepare(t, server.URL(), "--config", file)
	p.run = []string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh", "env", "NOTIFY_SOCKET=" + socket}
	p.start()
	systemd.expect("READY=1")
	for i := range 5 {
		redistest.OK(t, os.WriteFile(file, fmt.Appendf(nil, "burst: 1\nmax-rooms: %d\nrate: 1\n", i+1), 0o600))
		redistest.OK(t, p.cmd.Process.Signal(syscall.SIGHUP))
		redistest.OK(t, p.cmd.Process.Signal(syscall.SIGHUP))
	}
	systemd.expect("RELOADING=1", "MONOTONIC_USEC=")
	systemd.expect("READY=1")
	c := p.player("a", nil)
	redistest.Until(t, "the rate counts", func() bool {
		_, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionUsers, Room: "42"})
		return errors.Is(err, protocol.ErrRateLimited)
	})
	p.stop(syscall.SIGTERM)
}
