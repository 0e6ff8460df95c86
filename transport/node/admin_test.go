package node

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport"
	"roomd/transport/auth"
)

const testSecret = "0123456789abcdef0123456789abcdef"

func verifier(t *testing.T) *auth.Verifier {
	t.Helper()
	v, err := auth.New(auth.Secret(testSecret), auth.Options{})
	redistest.OK(t, err)
	return v
}

func token(t *testing.T, role auth.Role) string {
	t.Helper()
	signer, err := auth.SecretSigner(testSecret)
	redistest.OK(t, err)
	text, err := signer.Sign(auth.Identity{User: "ops", Role: role, Expires: time.Now().Add(time.Minute)})
	redistest.OK(t, err)
	return text
}

// secrets answers with what nobody else may see.
var secrets = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secrets") })

// get asks for a page. The headers are alternately names and values.
func get(t *testing.T, url string, headers ...string) (status int, body string) {
	t.Helper()
	status, body, _ = ask(t, http.MethodGet, url, "", headers...)
	return status, body
}

// ask sends a request, over a connection of its own.
func ask(t *testing.T, method, url, body string, headers ...string) (status int, answer string, header http.Header) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	redistest.OK(t, err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	redistest.OK(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	redistest.OK(t, err)
	return resp.StatusCode, string(text), resp.Header
}

// outerAddr returns an address of this machine that is not loopback.
func outerAddr(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	redistest.OK(t, err)
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			return ip.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback")
	return ""
}

func TestWhoIsAnOperator(t *testing.T) {
	admin, player := "Bearer "+token(t, auth.RoleAdmin), "Bearer "+token(t, auth.RolePlayer)
	for _, tt := range []struct {
		what    string
		outside bool // asked by an address that others can reach
		keyless bool // the node has no key
		headers []string
		status  int
		page    int // the status of the page's files, which have no secrets
	}{
		{"from loopback", false, true, nil, 200, 200},
		{"from loopback, with a key", false, false, nil, 200, 200},
		{"by localhost", false, true, []string{"Host", "localhost:1"}, 200, 200},
		{"by IPv6", false, true, []string{"Host", "[::1]:1"}, 200, 200},
		{"by a name (DNS rebinding)", false, true, []string{"Host", "evil.example"}, 403, 403},
		{"by a name that begins well", false, true, []string{"Host", "127.0.0.1.evil.example"}, 403, 403},
		{"by a page of another site", false, true, []string{"Sec-Fetch-Site", "cross-site"}, 403, 403},
		{"by a page of another port", false, true, []string{"Sec-Fetch-Site", "same-site"}, 403, 403},
		{"by a page whose browser says less", false, true, []string{"Origin", "https://evil.example"}, 403, 403},
		{"through a proxy that says less", false, true, []string{"X-Forwarded-Proto", "https"}, 403, 403},
		{"by the address bar", false, true, []string{"Sec-Fetch-Site", "none"}, 200, 200},
		{"through a proxy", false, true, []string{"X-Forwarded-For", "192.0.2.1"}, 403, 403},
		{"through a proxy, with a key", false, false, []string{"Forwarded", "for=192.0.2.1"}, 401, 200},
		{"by a name, with a token", false, false, []string{"Host", "roomd.example", "Authorization", admin}, 200, 200},
		{"with a wrong token", false, false, []string{"Authorization", admin + "x"}, 401, 401},
		{"with a player's token", false, false, []string{"Authorization", player}, 403, 403},
		{"from elsewhere", true, false, nil, 401, 200},
		{"from elsewhere, as localhost", true, false, []string{"Host", "localhost"}, 401, 200},
		{"from elsewhere, with a password", true, false, []string{"Authorization", "Basic YTpi"}, 401, 200},
		{"from elsewhere, with a player's token", true, false, []string{"Authorization", player}, 403, 403},
		{"from elsewhere, by a page of another site", true, false, []string{"Sec-Fetch-Site", "cross-site"}, 403, 403},
		{"by a name (DNS rebinding), with a key", false, false, []string{"Host", "evil.example"}, 403, 403},
		{"from elsewhere, with an admin's token", true, false, []string{"Authorization", admin}, 200, 200},
	} {
		t.Run(tt.what, func(t *testing.T) {
			cfg := Config{Redis: open(t, redisurl.Embedded), AdminListen: "127.0.0.1:0", Admin: secrets}
			if !tt.keyless {
				cfg.Serve.Auth = verifier(t)
			}
			host := "127.0.0.1"
			if tt.outside {
				host, cfg.AdminListen = outerAddr(t), "0.0.0.0:0"
			}
			n := start(t, cfg)
			_, port, _ := net.SplitHostPort(n.AdminAddr())
			url := "http://" + net.JoinHostPort(host, port)
			for path, secret := range map[string]string{"/others": "secrets", "/metrics": "roomd_ready",
				"/api/nodes": `"nodes"`} {
				status, body := get(t, url+path, tt.headers...)
				redistest.ErrorIf(t, status != tt.status || strings.Contains(body, secret) != (status == 200),
					"%s: %d %s, want %d", path, status, body, tt.status)
			}
			for path, text := range map[string]string{"/admin": "<title>roomd: operators",
				"/admin/admin.js": "The operators' page"} {
				if status, body := get(t, url+path, tt.headers...); status != tt.page ||
					strings.Contains(body, text) != (status == 200) {
					t.Errorf("%s: %d %s, want %d", path, status, body, tt.page)
				}
			}
			for _, path := range []string{"/", "/administration", "/admin/../metrics"} {
				if status, body := get(t, url+path, tt.headers...); status != tt.status &&
					status != http.StatusTemporaryRedirect || strings.Contains(body, "<title>") {
					t.Errorf("%s: %d %s, want %d", path, status, body, tt.status)
				}
			}
			if status, body := get(t, url+"/healthz", tt.headers...); status != 200 || body != "ok\n" {
				t.Errorf("healthz: %d %s", status, body)
			}
		})
	}
}

// Operators can watch while the node drains: their address is closed last.
func TestTheDrainCanBeWatched(t *testing.T) {
	var n *Node
	var draining atomic.Bool
	look := sync.OnceFunc(func() {
		if status, body := get(t, "http://"+n.AdminAddr()+"/"); status != 200 || body != "secrets" {
			t.Errorf("%d %s", status, body)
		}
	})
	n = start(t, Config{
		Redis: open(t, redisurl.Embedded), AdminListen: "127.0.0.1:0", Admin: secrets,
		OnClient: func(client redis.UniversalClient) {
			client.AddHook(redistest.Hook{Before: func(ctx context.Context, cmd redis.Cmder) error {
				// it gives its lease back
				if draining.Load() && strings.HasPrefix(cmd.Name(), "eval") && n.Ready(ctx) != nil {
					look()
					draining.Store(false)
				}
				return nil
			}})
		},
	})
	redistest.OK(t, n.Ready(t.Context()))
	draining.Store(true)
	redistest.OK(t, n.Shutdown(t.Context()))
	redistest.ErrorIf(t, draining.Load(), "nobody could look while the node drained")
	if c, err := net.Dial("tcp", n.AdminAddr()); err == nil {
		c.Close()
		t.Error("the admin address is open after the shutdown")
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

// routes are what a page can use of a node.
var routes = []string{"/ws?user=a", "/", "/roomd.js", "/page.json", "/api/rooms", "/api/openapi.yaml", "/unguarded",
	"/nothing"}

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
		{"an allowed origin's host with another port", false, "", []string{"https://game.example"},
			"Game.example:PORT", false},
		{"another than the allowed", false, "", []string{"https://game.example", "null"}, "evil.game.example", true},
		{"a subdomain", false, "", []string{"https://*.game.example"}, "a.b.game.example", false},
		{"what has subdomains", false, "", []string{"https://*.game.example"}, "game.example", true},
		{"no subdomain", false, "", []string{"https://*.game.example"}, "evilgame.example", true},
		{"any", false, "", []string{"*"}, "evil.example", false},
		{"with a key", true, "", nil, "evil.example", false},
		{"where others can come", false, "0.0.0.0:0", nil, "evil.example", false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			cfg := Config{Redis: open(t, redisurl.Embedded), Serve: transport.Options{AllowOrigins: tt.allow},
				Insecure:  tt.listen != "",
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
				redistest.ErrorIf(t, tt.refused != strings.Contains(body, `"code":"forbidden"`),
					"%s: %d %s", route, status, body)
			}
			for _, probe := range []string{"/healthz", "/readyz"} {
				if status, body := get(t, url+probe, "Host", host); status != 200 {
					t.Errorf("%s: %d %s", probe, status, body)
				}
			}
		})
	}
}

// What operators find, and that neither arguments nor keys are among it.
func TestAdmin_Pages(t *testing.T) {
	t.Parallel()
	n, log := startNode(t, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--auth-secret", secret,
		"--log-level", "debug")
	base := "http://" + n.AdminAddr()
	for path, want := range map[string]struct {
		status int
		has    string
	}{
		"/":                                  {200, "/metrics"},
		"/healthz":                           {200, "ok"},
		"/metrics":                           {200, `roomd_config_info{auth="secret"`},
		"/debug/pprof/":                      {200, "goroutine"},
		"/debug/pprof/heap":                  {200, ""},
		"/debug/pprof/goroutine?debug=1":     {200, "roomd/transport/node"},
		"/debug/pprof/profile?seconds=1":     {200, ""},
		"/debug/pprof/cmdline":               {404, "Unknown profile"},
		"/nothing":                           {404, ""},
		"/metrics?name[]=roomd_ready&seed=1": {200, "roomd_ready 1"},
	} {
		if status, body := get(t, base+path); status != want.status || !strings.Contains(body, want.has) ||
			strings.Contains(body, secret) {
			t.Errorf("%s: %d %.300s", path, status, body)
		}
	}
	if text := log(); !strings.Contains(text, "operators look at "+base+"/admin; metrics and profiles are at "+
		base) || strings.Contains(text, secret) {
		t.Errorf("the log:\n%s", text)
	}
}

func TestAdmin_UnusableAddress(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	redistest.OK(t, err)
	defer taken.Close()
	for args, want := range map[string]struct {
		code int
		says string
	}{
		"--admin-listen 0.0.0.0:0": {exitWrongUse,
			"--admin-listen 0.0.0.0:0 can be reached from other machines"},
		"--admin-listen :0 --insecure":                       {exitWrongUse, "--admin-listen :0 can be reached"},
		"--admin-listen 127.0.0.1":                           {exitWrongUse, "--admin-listen is not host:port"},
		"--admin-listen " + taken.Addr().String():            {exitFailed, "address already in use"},
		"--admin-listen 127.0.0.1:0 --redis redis://[::1]:1": {exitFailed, "does not answer"},
	} {
		start := time.Now()
		var stderr bytes.Buffer
		if code := command(room.Rules{}, strings.Fields("--listen 127.0.0.1:0 "+args), io.Discard,
			&stderr); code != want.code || !strings.Contains(stderr.String(), want.says) {
			t.Errorf("%s: exit code %d after %v: %s", args, code, time.Since(start), &stderr)
		}
	}
}
