package node

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
)

// tellFlags are the flags of a node that tells a backend, which takes everything.
func tellFlags(t *testing.T) []string {
	t.Helper()
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(backend.Close)
	secret := writeFile(t, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
	return []string{"--journal", "10000", "--feed", "100000", "--webhook", backend.URL + "/hidden?key=hidden", "--webhook-secret-file", secret}
}

// The log shows where commits are sent, and nothing that may be secret.
func TestWebhooks_Flags(t *testing.T) {
	t.Parallel()
	given := tellFlags(t)
	cfg, err := parse(t, given...)
	redistest.OK(t, err)
	parts, err := nodeConfig(cfg, slog.New(slog.DiscardHandler))
	redistest.OK(t, err)
	parts.Redis.Close()
	if to := parts.Webhooks.Receivers; len(to) != 1 || !strings.HasSuffix(to[0].URL, "/hidden?key=hidden") {
		t.Errorf("%+v", to)
	}
	var log bytes.Buffer
	written, _ := newLog(cfg, &log)
	if err = logSettings(written, cfg, ""); err != nil || !strings.Contains(log.String(), "--webhook=http://127.0.0.1:") || strings.Contains(log.String(), "hidden") {
		t.Errorf("%v\n%s", err, &log)
	}
	for want, args := range map[string][]string{
		"--feed":                {"--webhook", "https://game.example", "--webhook-secret-file", "x"},
		"--journal":             {"--feed", "10"},
		"--webhook-secret-file": {"--webhook", "https://game.example", "--feed", "10", "--journal", "10"},
		"twice":                 {"--webhook", "https://game.example", "--webhook", "https://game.example#kinds=join", "--webhook-secret-file", "x", "--feed", "10", "--journal", "10"},
	} {
		if err := parseAndValidate(t, args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
	}
	if _, err := parse(t, "--webhook", "https://u:hidden@game.example"); err == nil || strings.Contains(err.Error(), "hidden") {
		t.Error(err)
	}
}
