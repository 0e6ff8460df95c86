package node

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/transport"
	"roomd/transport/auth"
	"roomd/transport/client"
	"roomd/transport/protocol"
)

// ask sends a request. The headers are alternately names and values.
func ask(t *testing.T, method, url, body string, headers ...string) (status int, answer string, header http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	redistest.OK(t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	redistest.OK(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	redistest.OK(t, err)
	return res.StatusCode, string(text), res.Header
}

// A node serves its rooms by HTTP: to everybody on the address of the clients, and with authority on
// that of the operators, behind its check.
func TestAPI(t *testing.T) {
	n := start(t, Config{Redis: open(t, redisurl.Embedded), AdminListen: "127.0.0.1:0"})
	c, err := client.Dial(t.Context(), n.URL(), client.Options{User: "李四"})
	redistest.OK(t, err)
	defer c.Close()
	if _, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"}); err != nil {
		t.Fatal(err)
	}
	public, admin := "http://"+n.Addr()+"/api/rooms", "http://"+n.AdminAddr()+"/api/rooms"
	for url, want := range map[string]string{public: `"room":"42","count":1`, public + "/42": `{"user":"李四","seat":0}`, admin + "/42": "李四"} {
		if status, answer, header := ask(t, "GET", url, ""); status != 200 || !strings.Contains(answer, want) || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %s", url, status, answer)
		}
	}
	for _, test := range []struct {
		url     string
		status  int
		headers []string
	}{
		{public, 403, nil},
		{admin, 200, nil},
		{admin, 403, []string{"Origin", "https://evil.example"}},
		{admin, 403, []string{"Sec-Fetch-Site", "same-site"}},
		{admin, 403, []string{"X-Forwarded-For", "10.0.0.1"}},
	} {
		status, answer, header := ask(t, "PUT", test.url+"/42", `{"capacity":4}`, test.headers...)
		if status != test.status || status >= 400 && (header.Get("Content-Type") != "application/problem+json" || !strings.Contains(answer, `"code":"forbidden"`)) {
			t.Errorf("%s %v: %d %s %v", test.url, test.headers, status, answer, header)
		}
	}
	for _, addr := range []string{n.Addr(), n.AdminAddr()} {
		if status, answer, header := ask(t, "GET", "http://"+addr+"/api", ""); status != 404 || header.Get("Content-Type") != "application/problem+json" || !strings.Contains(answer, `"code":"not_found"`) {
			t.Errorf("/api: %d %s", status, answer)
		}
	}
}

// Elsewhere than on loopback an operator needs a token, and one without gets a problem document.
func TestAPIElsewhere(t *testing.T) {
	n := start(t, Config{Redis: open(t, redisurl.Embedded), Serve: transport.Options{Auth: verifier(t)}, AdminListen: "0.0.0.0:0"})
	_, port, _ := strings.Cut(strings.TrimPrefix(n.AdminAddr(), "[::]"), ":")
	url := "http://127.0.0.1:" + port + "/api/rooms/42"
	if status, answer, header := ask(t, "PUT", url, "{}"); status != 401 || header.Get("WWW-Authenticate") != "Bearer" || !strings.Contains(answer, `"code":"unauthorized"`) {
		t.Errorf("without a token: %d %s %v", status, answer, header)
	}
	for role, want := range map[auth.Role]int{auth.RolePlayer: 403, auth.RoleAdmin: 200} {
		if status, answer, _ := ask(t, "PUT", url, "{}", "Authorization", "Bearer "+token(t, role)); status != want {
			t.Errorf("%s: %d %s", role, status, answer)
		}
	}
}

// Pages of an allowed origin may import the client, and others may not.
func TestPage_ImportedByOthers(t *testing.T) {
	n := start(t, Config{Redis: open(t, redisurl.Embedded), Serve: transport.Options{AllowOrigins: []string{"https://game.example"}}})
	for _, tt := range []struct{ path, origin, allowed string }{
		{"/roomd.js", "https://game.example", "https://game.example"},
		{"/roomd.d.ts", "https://game.example", "https://game.example"},
		{"/roomd.js", "https://evil.example", ""},
		{"/roomd.js", "", ""},
		{"/page.json", "https://game.example", ""},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.Addr()+tt.path, http.NoBody)
		redistest.OK(t, err)
		if tt.origin != "" {
			request.Header.Set("Origin", tt.origin)
		}
		answer, err := http.DefaultClient.Do(request)
		redistest.OK(t, err)
		answer.Body.Close()
		if got := answer.Header.Get("Access-Control-Allow-Origin"); answer.StatusCode != http.StatusOK || got != tt.allowed || (answer.Header.Get("Vary") == "Origin") != (tt.path != "/page.json") {
			t.Errorf("%s for a page of %q: %d %v", tt.path, tt.origin, answer.StatusCode, answer.Header)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

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
	upgrade, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+open.Addr()+"/?user=x", nil)
	redistest.OK(t, err)
	upgrade.Header.Set("Connection", "Upgrade")
	upgrade.Header.Set("Upgrade", "websocket")
	answer, err := http.DefaultClient.Do(upgrade)
	redistest.OK(t, err)
	defer answer.Body.Close()
	if body, err := io.ReadAll(answer.Body); answer.StatusCode != http.StatusNotFound || !strings.Contains(string(body), "game clients connect to /ws") {
		t.Errorf("a game client at / gets %d %.100s, %v", answer.StatusCode, body, err)
	}
}
