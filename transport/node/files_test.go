package node

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/transport/auth"
)

// Static pages need no token where everything else does, and let no other site in where nothing does.
func TestWhoReadsStaticPages(t *testing.T) {
	for _, tt := range []struct {
		what    string
		open    bool // others can reach the address
		keyless bool
		headers []string
		status  int // of the page
		others  int // of what is for operators
	}{
		{"from elsewhere", true, false, nil, 200, 401},
		{"from elsewhere, with a player's token", true, false, []string{"Authorization", "Bearer " + token(t, auth.RolePlayer)}, 403, 403},
		{"from elsewhere, by a page of another site", true, false, []string{"Sec-Fetch-Site", "cross-site"}, 403, 403},
		{"through a proxy, with a key", false, false, []string{"X-Forwarded-For", "192.0.2.1"}, 200, 401},
		{"through a proxy", false, true, []string{"X-Forwarded-For", "192.0.2.1"}, 403, 403},
		{"from loopback", false, true, nil, 200, 200},
		{"by a name (DNS rebinding)", false, true, []string{"Host", "evil.example"}, 403, 403},
		{"by a name (DNS rebinding), with a key", false, false, []string{"Host", "evil.example"}, 403, 403},
		{"by a page of another site", false, true, []string{"Sec-Fetch-Site", "cross-site"}, 403, 403},
	} {
		t.Run(tt.what, func(t *testing.T) {
			cfg := Config{Redis: open(t, redisurl.Embedded), AdminListen: "127.0.0.1:0", Admin: secrets}
			if !tt.keyless {
				cfg.Serve.Auth = verifier(t)
			}
			if tt.open {
				cfg.AdminListen = "0.0.0.0:0"
			}
			n := start(t, cfg)
			_, port, _ := net.SplitHostPort(n.AdminAddr())
			base := "http://127.0.0.1:" + port
			for path, text := range map[string]string{"/admin": "<title>roomd: operators", "/admin/admin.js": "The operators' page"} {
				if status, body := get(t, base+path, tt.headers...); status != tt.status || strings.Contains(body, text) != (status == 200) {
					t.Errorf("%s: %d %s, want %d", path, status, body, tt.status)
				}
			}
			for _, path := range []string{"/", "/administration", "/admin/../metrics", "/api/nodes"} {
				if status, body := get(t, base+path, tt.headers...); status != tt.others && status != http.StatusTemporaryRedirect || strings.Contains(body, "<title>") {
					t.Errorf("%s: %d %s, want %d", path, status, body, tt.others)
				}
			}
		})
	}
}

// The page that the node serves itself may change things; a page of any other origin may not, also
// where that has been given this address.
func TestThePageOfTheNodeItself(t *testing.T) {
	n := start(t, Config{Redis: open(t, redisurl.Embedded), AdminListen: "127.0.0.1:0", Admin: secrets})
	for _, tt := range []struct {
		headers []string
		status  int
	}{
		{[]string{"Origin", "http://" + n.AdminAddr(), "Sec-Fetch-Site", "same-origin"}, 200},
		{[]string{"Origin", "http://" + n.AdminAddr()}, 200},
		{[]string{"Origin", "http://127.0.0.1:1"}, 403},
		{[]string{"Origin", "http://" + n.AdminAddr(), "Sec-Fetch-Site", "same-site"}, 403},
		{[]string{"Origin", "null"}, 403},
		{[]string{"Origin", "http://evil.example", "Host", "evil.example"}, 403},
		{[]string{"Origin", "x://" + n.AdminAddr()}, 403},
		{[]string{"Origin", "http://" + n.AdminAddr() + "@evil.example"}, 403},
	} {
		if status, body := get(t, "http://"+n.AdminAddr()+"/api/nodes", tt.headers...); status != tt.status {
			t.Errorf("%q: %d %s, want %d", tt.headers, status, body, tt.status)
		}
	}
}
