package node

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport"
	"roomd/transport/node/roomdtest"
)

// The log says at the start what differs from the defaults, wherever it comes from.
func TestSettings_Logged(t *testing.T) {
	t.Setenv("ROOMD_GRACE", "7s")
	t.Setenv("ROOMD_AUTH_SECRET", strings.Repeat("hidden", 6))
	log := runInside(t, func(*Node) {}, "--allow-origin", "https://a.example", "--allow-origin", "https://b.example",
		"--log-format", "console")
	line := regexp.MustCompile(`(?m)^.* this is .*$`).FindString(log)
	want := `settings="--listen=127.0.0.1:0 --allow-origin=https://a.example,https://b.example --auth-secret='(secret)' --grace=7s"`
	redistest.ErrorIf(t, !strings.Contains(line, "this is roomd ") || !strings.HasSuffix(line, want),
		"the line is\n%s\nwant\n%s", line, want)
	log = runInside(t, func(*Node) {}, "--log-level", "debug")
	for _, want := range []string{"--lock-ttl=3s", "--max-queue=262144", "--duplicate=replace", "--insecure=false"} {
		redistest.ErrorIf(t, !strings.Contains(log, want), "at level debug there is no %s:\n%s", want, log)
	}
	redistest.ErrorIf(t, strings.Contains(log, "hidden"), "the log has the secret:\n%s", log)
	log = runInside(t, func(*Node) {}, "--log-level", "warn")
	redistest.Equal(t, "at level warn a quiet node logs", log, "")
}

// What a flag holds that names a secret by itself is never shown.
func TestSettings_SecretsAreTagged(t *testing.T) {
	t.Parallel()
	for _, flag := range flagsOf(config{}) {
		redistest.ErrorIf(t, regexp.MustCompile(`(secret|password|token)$`).MatchString(flag.Name) &&
			!flag.Tag.Has("secret"),
			"--%s has no tag that keeps it out of the log", flag.Name)
	}
	cfg, err := parse(t, "--redis", "redis://user:hidden@127.0.0.1:1/3")
	redistest.OK(t, err)
	db, err := cfg.redisFlags.open()
	redistest.OK(t, err)
	defer db.Close()
	var log bytes.Buffer
	written := newLog(cfg, &log)
	logSettings(written, cfg, db.String())
	if !strings.Contains(log.String(), "--redis='Redis at 127.0.0.1:1, database 3'") ||
		strings.Contains(log.String(), "hidden") {
		t.Errorf("the log:\n%s", &log)
	}
}

func TestVersion_Printed(t *testing.T) {
	suffix := " " + runtime.GOOS + "/" + runtime.GOARCH
	for want, info := range map[string]debug.BuildInfo{
		"roomd (devel), revision unknown, go1.26.8": {GoVersion: "go1.26.8"},
		"roomd v1.2.3, revision abc with changes of 2026-01-02T03:04:05Z, go1.27": {
			GoVersion: "go1.27", Main: debug.Module{Version: "v1.2.3"},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"},
				{Key: "vcs.time", Value: "2026-01-02T03:04:05Z"}, {Key: "vcs.modified", Value: "true"}},
		},
	} {
		redistest.Equal(t, "got", versionOf(&info), want+suffix)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "--version")
	cmd.Env = append(os.Environ(), roomdtest.AsRoomd+"=1")
	if out, err := cmd.Output(); err != nil || string(out) != version()+"\n" {
		t.Errorf("--version: %q, %v", out, err)
	}
	t.Setenv("ROOMD_VERSION", "v1.2.3") // which containers have for reasons of their own
	if _, err := parse(t); err != nil {
		t.Errorf("with ROOMD_VERSION: %v", err)
	}
}

// What the log shows of --node-ttl is what counts, also where another flag decides it.
func TestSettings_NodeTTL(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"--node-ttl=5s": {"--node-ttl", "0s"}, "--node-ttl=8s": {"--lock-ttl", "8s"},
		"--node-ttl=7s": {"--node-ttl", "7s"},
	} {
		cfg, err := parse(t, args...)
		redistest.OK(t, err)
		got := inForce(settings(cfg, ""), true)
		redistest.ErrorIf(t, !strings.Contains(got, want), "%v: %s", args, got)
	}
}

// The list without a lock is there only where nobody but this machine can come, and names are believed.
func TestUnguarded_WhereItIs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want bool
	}{
		{[]string{"--listen", "127.0.0.1:0"}, true},
		{[]string{"--listen", "localhost:0"}, true},
		{[]string{"--listen", "[::1]:0", "--insecure"}, true},
		{[]string{"--listen", "0.0.0.0:0", "--insecure"}, false},
		{[]string{"--listen", ":0", "--insecure"}, false},
		{[]string{"--listen", "127.0.0.1:0", "--auth-secret", "0123456789abcdef0123456789abcdef"}, false},
	} {
		cfg, err := parse(t, tt.args...)
		redistest.OK(t, err)
		parts, err := nodeConfig(cfg, slog.New(slog.DiscardHandler))
		redistest.OK(t, err)
		end := cfg.compare(&parts)
		if got := parts.Unguarded != nil; got != tt.want {
			t.Errorf("%v: %v", tt.args, got)
		}
		end()
		parts.Redis.Close()
	}
}

// What players may begin by a match stands in the flag or in a file, and operators are shown it.
func TestMatchSettings(t *testing.T) {
	text := `[{"capacity":4,"labels":{"mode":"ranked"}},{"capacity":2,"host":"longest"}]`
	file := filepath.Join(t.TempDir(), "settings.json")
	redistest.OK(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
	for _, value := range []string{text, "@" + file} {
		cfg, err := parse(t, "--match-settings", value)
		redistest.OK(t, err)
		want := transport.MatchSettings{{Capacity: 4, Labels: `{"mode":"ranked"}`},
			{Capacity: 2, Host: room.HostLongest}}
		if got := cfg.clients().MatchSettings; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v", value, got)
		}
		all := settings(cfg, "")
		redistest.Equal(t, "shown", inForce(all, false), "--match-settings='"+text+"'")
	}
	cfg, err := parse(t, "--match-settings", "[]")
	if redistest.OK(t, err); cfg.clients().MatchSettings == nil {
		t.Error("an empty list bounds nothing")
	}
}

// tellFlags are the flags of a node that tells a backend, which takes everything.
func tellFlags(t *testing.T) []string {
	t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(backend.Close)
	secret := writeFile(t, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
	return []string{"--journal", "10000", "--feed", "100000", "--webhook", backend.URL + "/hidden?key=hidden",
		"--webhook-secret-file", secret}
}

// The log shows where commits are sent, and nothing that may be secret.
func TestWebhooks_Flags(t *testing.T) {
	t.Parallel()
	given := tellFlags(t)
	cfg, err := parse(t, append(given, "--webhook-timeout", "3s")...)
	redistest.OK(t, err)
	parts, err := nodeConfig(cfg, slog.New(slog.DiscardHandler))
	redistest.OK(t, err)
	parts.Redis.Close()
	if to := parts.Webhooks.Receivers; len(to) != 1 || !strings.HasSuffix(to[0].URL, "/hidden?key=hidden") ||
		parts.Webhooks.Timeout != 3*time.Second {
		t.Errorf("%+v", parts.Webhooks)
	}
	var log bytes.Buffer
	written := newLog(cfg, &log)
	logSettings(written, cfg, "")
	if !strings.Contains(log.String(), "--webhook=http://127.0.0.1:") || strings.Contains(log.String(), "hidden") {
		t.Errorf("the log:\n%s", &log)
	}
	for want, args := range map[string][]string{
		"--feed":                {"--webhook", "https://game.example", "--webhook-secret-file", "x"},
		"--journal":             {"--feed", "10"},
		"--webhook-secret-file": {"--webhook", "https://game.example", "--feed", "10", "--journal", "10"},
		"twice": {"--webhook", "https://game.example", "--webhook", "https://game.example#kinds=join",
			"--webhook-secret-file", "x", "--feed", "10", "--journal", "10"},
	} {
		if err := parseAndValidate(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, err := parse(t, "--webhook", "https://u:hidden@game.example"); err == nil ||
		strings.Contains(err.Error(), "hidden") {
		t.Error(err)
	}
}
