package node

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/transport"
)

// routes are what a page can use of a node.
var routes = []string{"/ws?user=a", "/", "/roomd.js", "/page.json", "/api/rooms", "/api/openapi.yaml", "/unguarded", "/nothing"}

// A page of another site whose name leads to a node without a key (DNS rebinding) gets nothing from
// it, also where it says that it is of the same origin.
func TestForeignNames(t *testing.T) {
	for _, tt := range []struct {
		what    string
		keyed   bool
		listen  string // "" for 127.0.0.1
		allow   []string
		host    string // PORT stands for the node's
		refused bool
	}{
		{"the address", false, "", nil, "127.0.0.1:PORT", false},
		{"localhost", false, "", nil, "LocalHost:PORT", false},
		{"localhost, through a tunnel from another port", false, "", nil, "localhost:9999", false},
		{"IPv6", false, "", nil, "[::1]:PORT", false},
		{"a foreign name", false, "", nil, "evil.example:PORT", true},
		{"a foreign name without a port", false, "", nil, "evil.example", true},
		{"a name that begins well", false, "", nil, "127.0.0.1.evil.example:PORT", true},
		{"a name below localhost", false, "", nil, "localhost.evil.example", true},
		{"an address that is not loopback", false, "", nil, "192.0.2.1:PORT", true},
		{"a name for all addresses", false, "", nil, "0.0.0.0:PORT", true},
		{"an allowed origin's host", false, "", []string{"https://game.example"}, "game.example", false},
		{"an allowed origin's host with another port", false, "", []string{"https://game.example"}, "Game.example:PORT", false},
		{"another than the allowed", false, "", []string{"https://game.example", "null"}, "evil.game.example", true},
		{"a subdomain", false, "", []string{"https://*.game.example"}, "a.b.game.example", false},
		{"what has subdomains", false, "", []string{"https://*.game.example"}, "game.example", true},
		{"no subdomain", false, "", []string{"https://*.game.example"}, "evilgame.example", true},
		{"any", false, "", []string{"*"}, "evil.example", false},
		{"with a key", true, "", nil, "evil.example", false},
		{"where others can come", false, "0.0.0.0:0", nil, "evil.example", false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			cfg := Config{Redis: open(t, redisurl.Embedded), Serve: transport.Options{AllowOrigins: tt.allow}, Insecure: tt.listen != "",
				Unguarded: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
			if tt.keyed {
				cfg.Serve.Auth = verifier(t)
			}
			n := startOn(t, cfg, tt.listen)
			_, port, _ := net.SplitHostPort(n.Addr())
			url, host := "http://127.0.0.1:"+port, strings.ReplaceAll(tt.host, "PORT", port)
			for _, route := range routes {
				status, body := get(t, url+route, "Host", host, "Origin", "http://"+host)
				if named := strings.Contains(body, "--allow-origin"); named != tt.refused || named && status != 403 {
					t.Errorf("%s: %d %s", route, status, body)
				}
				if tt.refused != strings.Contains(body, `"code":"forbidden"`) {
					t.Errorf("%s: %d %s", route, status, body)
				}
			}
			for _, probe := range []string{"/healthz", "/readyz"} {
				if status, body := get(t, url+probe, "Host", host); status != 200 {
					t.Errorf("%s: %d %s", probe, status, body)
				}
			}
		})
	}
}
