package node

import (
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

// get asks the admin address. The headers are alternately names and values.
func get(t *testing.T, url string, headers ...string) (status int, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	redistest.OK(t, err)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	redistest.OK(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	redistest.OK(t, err)
	return resp.StatusCode, string(text)
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
	}{
		{"from loopback", false, true, nil, 200},
		{"from loopback, with a key", false, false, nil, 200},
		{"by localhost", false, true, []string{"Host", "localhost:1"}, 200},
		{"by IPv6", false, true, []string{"Host", "[::1]:1"}, 200},
		{"by a name (DNS rebinding)", false, true, []string{"Host", "evil.example"}, 403},
		{"by a name that begins well", false, true, []string{"Host", "127.0.0.1.evil.example"}, 403},
		{"by a page of another site", false, true, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"by a page of another port", false, true, []string{"Sec-Fetch-Site", "same-site"}, 403},
		{"by a page whose browser says less", false, true, []string{"Origin", "https://evil.example"}, 403},
		{"through a proxy that says less", false, true, []string{"X-Forwarded-Proto", "https"}, 403},
		{"by the address bar", false, true, []string{"Sec-Fetch-Site", "none"}, 200},
		{"through a proxy", false, true, []string{"X-Forwarded-For", "192.0.2.1"}, 403},
		{"through a proxy, with a key", false, false, []string{"Forwarded", "for=192.0.2.1"}, 401},
		{"by a name, with a token", false, false, []string{"Host", "roomd.example", "Authorization", admin}, 200},
		{"with a wrong token", false, false, []string{"Authorization", admin + "x"}, 401},
		{"with a player's token", false, false, []string{"Authorization", player}, 403},
		{"from elsewhere", true, false, nil, 401},
		{"from elsewhere, as localhost", true, false, []string{"Host", "localhost"}, 401},
		{"from elsewhere, with a password", true, false, []string{"Authorization", "Basic YTpi"}, 401},
		{"from elsewhere, with a player's token", true, false, []string{"Authorization", player}, 403},
		{"from elsewhere, with an admin's token", true, false, []string{"Authorization", admin}, 200},
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
			for path, secret := range map[string]string{"/others": "secrets", "/metrics": "roomd_ready", "/api/nodes": `"nodes"`} {
				status, body := get(t, url+path, tt.headers...)
				if status != tt.status || strings.Contains(body, secret) != (status == 200) {
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
				if draining.Load() && strings.HasPrefix(cmd.Name(), "eval") && n.Ready(ctx) != nil { // it gives its lease back
					look()
					draining.Store(false)
				}
				return nil
			}})
		},
	})
	if err := n.Ready(t.Context()); err != nil {
		t.Error(err)
	}
	draining.Store(true)
	if err := n.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if draining.Load() {
		t.Error("nobody could look while the node drained")
	}
	if c, err := net.Dial("tcp", n.AdminAddr()); err == nil {
		c.Close()
		t.Error("the admin address is open after the shutdown")
	}
}
