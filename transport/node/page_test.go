package node

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/transport"
)

// The page is on the address of the game clients, beside everything else there.
func TestPageOnTheGameAddress(t *testing.T) {
	keyed := start(t, Config{Redis: open(t, redisurl.Embedded), Version: "v1.2", Serve: transport.Options{Auth: verifier(t)}})
	lists := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "lists") })
	open := start(t, Config{Redis: open(t, redisurl.Embedded), Version: "v1.2", Unguarded: lists})
	for _, tt := range []struct {
		n            *Node
		path         string
		status       int
		body, header string // what they contain
	}{
		{keyed, "/", 200, "<!doctype html>", "script-src 'self'"},
		{keyed, "/page.json", 200, `{"auth":true,"stampede":false,"version":""}`, "default-src 'none'"},
		{keyed, "/unguarded", 404, "game clients connect to /ws", "default-src 'none'"},
		{keyed, "/healthz", 200, "ok", "default-src 'none'"},
		{keyed, "/nothing", 404, "game clients connect to /ws; there is nothing at /nothing", "default-src 'none'"},
		{open, "/page.json", 200, `{"auth":false,"stampede":true,"version":"v1.2"}`, "default-src 'none'"},
		{open, "/unguarded", 200, "lists", "default-src 'none'"},
		{open, "/unguarded/x", 404, "game clients connect to /ws", "default-src 'none'"},
		{open, "/api/rooms", 200, `{"rooms":[]}`, "default-src 'none'"},
	} {
		answer, err := http.Get("http://" + tt.n.Addr() + tt.path)
		redistest.OK(t, err)
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		policy := answer.Header.Get("Content-Security-Policy")
		if err != nil || answer.StatusCode != tt.status || !strings.Contains(string(body), tt.body) || !strings.Contains(policy, tt.header) ||
			answer.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %.100s %v %v", tt.path, answer.StatusCode, body, answer.Header, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
