package transport

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport/protocol"
)

func TestConnect_Refused(t *testing.T) {
	s := start(t, room.Rules{}, Options{MaxConnections: 2, AllowOrigins: []string{"https://game.example"}})
	upgrade := http.Header{"Connection": {"Upgrade"}, "Upgrade": {"websocket"}, "Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="}}
	with := func(name, value string) http.Header {
		h := upgrade.Clone()
		h.Set(name, value)
		return h
	}
	for _, tt := range []struct {
		path   string
		header http.Header
		status int
		code   string
		names  string
	}{
		{"/ws", upgrade, 400, "bad_request", "user"},
		{"/ws?user=", upgrade, 400, "bad_request", "user"},
		{"/ws?user=a&user=b", upgrade, 400, "bad_request", "user"},
		{"/ws?user=%ff", upgrade, 400, "bad_request", "user"},
		{"/ws?user=a%0a", upgrade, 400, "bad_request", "user"},
		{"/ws?user=" + strings.Repeat("x", 65), upgrade, 400, "bad_request", "user"},
		{"/ws?user=a;b", upgrade, 400, "bad_request", "query"},
		{"/ws?user=a", nil, 400, "bad_request", "websocket"},
		{"/ws?user=a", with("Sec-Websocket-Protocol", "other.v7"), 400, "bad_request", "roomd.v1"},
		{"/ws?user=a", with("Origin", "https://evil.example"), 403, "forbidden", `"https://evil.example" may not connect; --allow-origin allows it`},
		{"/ws?user=a", with("Origin", "null"), 403, "forbidden", `"null"`},
		{"/ws?user=a", with("Origin", "https://"+strings.Repeat("<\"", 4000)), 403, "forbidden", "--allow-origin"},
		{"/nothing", nil, 404, "bad_request", "/ws"},
		{"/" + strings.Repeat("x", 4000), nil, 404, "bad_request", "/ws"},
		{"/ws?user=a", with("Sec-Websocket-Protocol", strings.Repeat("x", 4000)), 400, "bad_request", "roomd.v1"},
	} {
		req, _ := http.NewRequest("GET", "http://"+s.addr+tt.path, nil)
		req.Header = tt.header.Clone()
		res, err := http.DefaultClient.Do(req)
		redistest.OK(t, err)
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		redistest.ErrorIf(t, len(body) > 700, "%.20s: the response has %d bytes", tt.path, len(body))
		var got struct{ Error protocol.Error }
		if err := json.Unmarshal(body, &got); err != nil || res.StatusCode != tt.status || got.Error.Code != tt.code || !strings.Contains(got.Error.Message, tt.names) {
			t.Errorf("%s: %d %s, want %d %s naming %s", tt.path, res.StatusCode, body, tt.status, tt.code, tt.names)
		}
	}
	for _, origin := range []string{"https://game.example", "http://" + s.addr} {
		ws, _, err := websocket.DefaultDialer.Dial("ws://"+s.addr+"/ws?user=a", http.Header{"Origin": {origin}})
		redistest.FatalIf(t, err != nil, "origin %s: %v", origin, err)
		defer ws.Close()
	}
	if _, res, err := websocket.DefaultDialer.Dial("ws://"+s.addr+"/ws?user=b", nil); err == nil || res.StatusCode != 503 {
		t.Errorf("a connection over the limit: %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// A request with another method gets 405 and the allowed ones.
func TestConnect_Methods(t *testing.T) {
	s := serve(t, sizedRooms{}, Options{})
	for target, want := range map[string]struct {
		status int
		allow  string
	}{
		"POST /ws":        {405, "GET"},
		"HEAD /ws":        {405, "GET"},
		"PUT /ws?user=a":  {405, "GET"},
		"POST /healthz":   {405, "GET, HEAD"},
		"DELETE /readyz":  {405, "GET, HEAD"},
		"HEAD /healthz":   {200, ""},
		"POST /elsewhere": {404, ""},
	} {
		method, path, _ := strings.Cut(target, " ")
		answer := httptest.NewRecorder()
		s.Handler().ServeHTTP(answer, httptest.NewRequest(method, path, nil))
		redistest.ErrorIf(t, answer.Code != want.status || answer.Header().Get("Allow") != want.allow,
			"%s: %d, Allow: %s", target, answer.Code, answer.Header().Get("Allow"))
		redistest.ErrorIf(t, want.status == 405 && !strings.Contains(answer.Body.String(), "bad_request"),
			"%s: %s", target, answer.Body)
	}
}

func TestHealth_Answers(t *testing.T) {
	server := redistest.Start(t)
	s := startOn(t, server.Client(), coordinator.Options{}, Options{})
	status := func(path string) int {
		res, err := http.Get("http://" + s.addr + path)
		redistest.OK(t, err)
		res.Body.Close()
		return res.StatusCode
	}
	defer http.DefaultClient.CloseIdleConnections()
	h, r := status("/healthz"), status("/readyz")
	redistest.ErrorIf(t, h != 200 || r != 200, "healthy: %d, %d", h, r)
	server.Kill()
	if h, r := status("/healthz"), status("/readyz"); h != 200 || r != 503 {
		t.Errorf("without Redis: %d, %d", h, r)
	}
	server.Restart()
	redistest.Equal(t, "Redis is back:", status("/readyz"), 200)
	_ = s.Shutdown(t.Context())
	redistest.Equal(t, "draining:", status("/readyz"), 503)
}

// Every response has the headers, whatever it says; a page can widen its policy.
func TestHeaders_Secure(t *testing.T) {
	s := serve(t, sizedRooms{}, Options{})
	for _, target := range []string{"GET /healthz", "HEAD /healthz", "GET /ws", "POST /ws", "GET /ws?user=a", "GET /nothing", "GET //x/../y"} {
		for scheme, wantHSTS := range map[string]string{"http": "", "https": alwaysTLS} {
			answer := answerTo(s.Handler(), target, scheme)
			for name, want := range map[string]string{
				"X-Content-Type-Options":    "nosniff",
				"Content-Security-Policy":   "default-src 'none'; frame-ancestors 'none'",
				"Referrer-Policy":           "no-referrer",
				"Cache-Control":             "no-store",
				"Strict-Transport-Security": wantHSTS,
			} {
				if got := answer.Header()[name]; len(got) > 1 || answer.Header().Get(name) != want {
					t.Errorf("%s by %s: %s: %q, want %q", target, scheme, name, got, want)
				}
			}
		}
	}
	page := SecureHeaders(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", "script-src 'self'")
	}))
	got := answerTo(page, "GET /", "http").Header()["Content-Security-Policy"]
	redistest.ErrorIf(t, len(got) != 1 || got[0] != "script-src 'self'", "the policy of a page is %q", got)
}

func answerTo(h http.Handler, target, scheme string) *httptest.ResponseRecorder {
	method, path, _ := strings.Cut(target, " ")
	request, answer := httptest.NewRequest(method, scheme+"://x"+path, nil), httptest.NewRecorder()
	h.ServeHTTP(answer, request)
	return answer
}

// A token comes in three ways, and says who the user is.
func TestHandshake_WaysToSendToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWithKey(t, Options{})
		token := tokenOf(t, "李四", time.Hour)
		for name, tt := range map[string]struct {
			path        string
			header      http.Header
			subprotocol []string
			frame       string
		}{
			"header":               {"/ws", http.Header{"Authorization": {"Bearer " + token}}, nil, ""},
			"scheme in lower case": {"/ws", http.Header{"Authorization": {"bearer  " + token}}, nil, ""},
			"subprotocol":          {"/ws", nil, []string{"roomd.token." + token}, ""},
			"beside a proxy's":     {"/ws", http.Header{"Authorization": {"Basic YTpi"}}, []string{"roomd.token." + token}, ""},
			"first frame":          {"/ws", ofBrowser, nil, authFrame(token)},
			"the user named, too":  {"/ws?user=%E6%9D%8E%E5%9B%9B", http.Header{"Authorization": {"Bearer " + token}}, nil, ""},
			"named, and a frame":   {"/ws?user=%E6%9D%8E%E5%9B%9B", ofBrowser, nil, authFrame(token)},
		} {
			c, res, err := s.dial(t, tt.path, tt.header, tt.subprotocol...)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			redistest.ErrorIf(t, c.ws.Subprotocol() != protocol.Subprotocol || strings.Contains(fmt.Sprint(res.Header), token),
				"%s: the response has %v", name, res.Header)
			if tt.frame != "" {
				c.exchange(tt.frame, fmt.Sprintf(`{"id":1,"user":"李四","expires":%d}`, time.Now().Add(time.Hour).Unix()))
			}
			c.send(`{"id":2,"action":"join","room":"` + strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(name) + `"}`)
			_, got, err := c.ws.ReadMessage()
			redistest.ErrorIf(t, err != nil || !strings.Contains(string(got), `"users":[{"user":"李四","seat":0}]`),
				"%s: %s, %v", name, got, err)
		}
	})
}

// A browser offers the token as a subprotocol. It ends the connection if the server selects none
// that was offered, or if the answer names the token.
func TestHandshake_Browser(t *testing.T) {
	s := serve(t, sizedRooms{}, Options{Auth: newVerifier(t), AllowOrigins: []string{"https://game.example"}})
	token := tokenOf(t, "a", time.Hour)
	for _, offered := range []string{"roomd.v1, roomd.token." + token, "roomd.token." + token + ", roomd.v1"} {
		req, _ := http.NewRequest("GET", "http://"+s.addr+"/ws", nil)
		req.Header = http.Header{
			"Connection": {"keep-alive, Upgrade"}, "Upgrade": {"websocket"}, "Origin": {"https://game.example"},
			"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
			"Sec-Websocket-Extensions": {"permessage-deflate; client_max_window_bits"}, "Sec-Websocket-Protocol": {offered},
		}
		res, err := http.DefaultTransport.RoundTrip(req)
		redistest.OK(t, err)
		res.Body.Close()
		if got := res.Header["Sec-Websocket-Protocol"]; res.StatusCode != 101 || fmt.Sprint(got) != "[roomd.v1]" || strings.Contains(fmt.Sprint(res.Header), token) {
			t.Errorf("%d %v", res.StatusCode, res.Header)
		}
	}
}

// What does not say who the client is gets 401 and the error object, which has no part of the token.
func TestHandshake_Unauthorized(t *testing.T) {
	s := serve(t, sizedRooms{}, Options{Auth: newVerifier(t)})
	good, other := tokenOf(t, "a", time.Hour), tokenOf(t, "b", time.Hour)
	bearer := func(tokens ...string) http.Header {
		h := http.Header{}
		for _, token := range tokens {
			h.Add("Authorization", "Bearer "+token)
		}
		return h
	}
	lines := func(offered ...string) http.Header { return http.Header{"Sec-Websocket-Protocol": offered} }
	for _, tt := range []struct {
		path   string
		header http.Header
		status int
		want   string
	}{
		{"/ws", bearer(""), 401, "not a JSON Web Token"},
		{"/ws", bearer("x"), 401, "not a JSON Web Token"},
		{"/ws", bearer(good + "x"), 401, "signature"},
		{"/ws", bearer(strings.Repeat("x", 9000)), 401, "8 KiB"},
		{"/ws", bearer(good, good), 401, "more than one"},
		{"/ws", lines("roomd.v1, roomd.token." + good + "x"), 401, "signature"},
		{"/ws", lines("roomd.v1, roomd.token." + good + ", roomd.token." + good), 401, "more than one"},
		{"/ws?user=b", bearer(good), 401, "?user="},
		{"/ws?user=a", bearer(other), 401, "?user="},
		{"/ws?user=a&user=a", bearer(good), 400, "once"},
		{"/ws?user=", bearer(good), 400, "user"},
		{"/ws", lines("roomd.token." + good), 400, "speaks roomd.v1"},
		{"/ws", http.Header{"Origin": {"http://example.com"}, "Sec-Websocket-Protocol": {"roomd.v2, roomd.tokn." + good}}, 400, "speaks roomd.v1"},
		{"/ws", lines("roomd.v1"), 401, "Authorization: Bearer"},
		{"/ws", bearer(good), 400, "websocket"}, // and so was let in
		{"/ws", lines("roomd.v1", "roomd.token."+good), 400, "websocket"},
		{"/ws", lines("roomd.token."+good, "roomd.v1"), 400, "websocket"},
		{"/ws", lines("roomd.v1, roomd.token."+good, "roomd.token."+other), 401, "more than one"},
		{"/ws", nil, 401, "Authorization: Bearer"}, // a program, which is not asked later
		{"/ws", http.Header{"Origin": {""}}, 401, "Authorization: Bearer"},
		{"/ws", http.Header{"Authorization": {"Basic YTpi"}}, 401, "Authorization: Bearer"},
	} {
		request, answer := httptest.NewRequest("GET", tt.path, nil), httptest.NewRecorder()
		request.Header = tt.header
		s.Handler().ServeHTTP(answer, request)
		body := answer.Body.String()
		code := map[int]string{400: "bad_request", 401: "unauthorized"}[tt.status]
		redistest.ErrorIf(t, answer.Code != tt.status || !strings.Contains(body, tt.want) || !strings.Contains(body, `"code":"`+code+`"`) || holdsPartOf(body, good),
			"%s %.80v: %d %s, want %d with %q", tt.path, tt.header, answer.Code, body, tt.status, tt.want)
		if challenge := answer.Header().Get("WWW-Authenticate"); (challenge == "Bearer") != (tt.status == 401) {
			t.Errorf("%d with WWW-Authenticate: %q", tt.status, challenge)
		}
	}
}

// What is the server's own origin depends on the Host that the client asked for, and on TLS.
func TestOrigin_Own(t *testing.T) {
	for _, tt := range []struct {
		origin, host string
		plain, tls   bool
	}{
		{"http://game.example", "game.example", true, false},
		{"https://game.example", "game.example", true, true}, // a proxy may have ended TLS
		{"HTTPS://Game.Example", "game.EXAMPLE", true, true},
		{"https://game.example:443", "game.example", true, true},
		{"https://game.example", "game.example:443", true, true},
		{"http://game.example", "game.example:443", false, false},
		{"http://game.example", "game.example:80", true, false},
		{"https://game.example:8443", "game.example:8443", true, true},
		{"https://game.example:8443", "game.example", false, false},
		{"https://game.example", "game.example:8443", false, false},
		{"https://game.example.", "game.example", false, false},
		{"https://game.example.", "game.example.", true, true},
		{"https://evil.game.example", "game.example", false, false},
		{"https://evilgame.example", "game.example", false, false},
		{"http://[::1]:8080", "[::1]:8080", true, false},
		{"https://[0:0::1]", "[::1]", true, true},
		{"http://[::1]", "[::2]", false, false},
		{"http://127.0.0.1:8080", "localhost:8080", false, false},
		{"null", "null", false, false},
		{"ws://game.example", "game.example", false, false},
		{"ftp://game.example", "game.example", false, false},
		{"chrome-extension://game.example", "game.example", false, false},
		{"https://game.example/", "game.example", false, false},
		{"https://a@game.example", "game.example", false, false},
		{"https://game.example:", "game.example", false, false},
		{"https://game.example:0443", "game.example:443", true, true},
		{"https://game.example https://evil.example", "game.example", false, false},
		{"https://", "", false, false},
		{"", "", false, false},
		{"https://\u212A.example", "k.example", false, false}, // the sign for kelvin, k in lower case
		{"https://[::1%25eth0]", "[::1%25eth0]", false, false},
		{"https://*", "*", false, false},
	} {
		request := httptest.NewRequest("GET", "/ws", nil)
		request.Host = tt.host
		plain := isOwn(tt.origin, request)
		request.TLS = &tls.ConnectionState{}
		if secure := isOwn(tt.origin, request); plain != tt.plain || secure != tt.tls {
			t.Errorf("%s at %s: %v, with TLS %v", tt.origin, tt.host, plain, secure)
		}
	}
}

func TestOrigin_Allowed(t *testing.T) {
	for _, tt := range []struct{ allowed, yes, no string }{
		{"https://game.example", "https://game.example https://GAME.example https://game.example:443",
			"http://game.example https://game.example:8443 https://www.game.example https://game.example. https://xgame.example null *"},
		{"HTTPS://Game.Example:443", "https://game.example", "https://game.example:444"},
		{"http://game.example:8080", "http://game.example:8080", "http://game.example"},
		{"https://*.game.example", "https://a.game.example https://b.a.game.example https://A.GAME.example https://a.game.example:443",
			"https://game.example http://a.game.example https://a.game.example:8443 https://agame.example https://.game.example https://a..game.example https://game.example.evil.example https://a.game.example.evil https://a.game.example. https://a.game.example/ https://x@a.game.example null"},
		{"https://*.game.example:8443", "https://a.game.example:8443", "https://a.game.example"},
		{"https://*.localhost", "https://a.localhost", "https://localhost https://127.0.0.1"},
		{"http://[0:0::1]:80", "http://[::1]", "http://[::2] http://[::1]:81"},
		{"null", "null", "https://game.example Null"},
		{"*", "null https://game.example x", ""},
		{"capacitor://localhost", "capacitor://localhost", "http://localhost ionic://localhost"},
	} {
		os, err := parseOrigins([]string{"https://other.example", tt.allowed})
		redistest.OK(t, err)
		for _, origin := range strings.Fields(tt.yes) {
			redistest.ErrorIf(t, !os.allow(origin), "%s refuses %s", tt.allowed, origin)
		}
		for _, origin := range strings.Fields(tt.no) {
			redistest.ErrorIf(t, os.allow(origin), "%s allows %s", tt.allowed, origin)
		}
	}
}

func TestOrigin_Bad(t *testing.T) {
	for _, bad := range []string{
		"", "game.example", "*.game.example", "https://*", "https://*.", "https://*game.example", "https://a.*.example", "https://*.*.example",
		"https://game.*", "https://game.example:*", "*://game.example", "https://*.game.example/", "https://game.example/table",
		"https://*.0.0.1", "https://*.1", "https://*.[::1]", "https://*..example", "https://*.example..", "https://*.x:y", "https://x:0", "https://x:65536",
		"https://[::1", "https://::1", "https://[127.0.0.1]", "https://bücher.example", "https://a b", "https://u@x", "https://x?y", "nulls", "https:game.example", "//x",
	} {
		_, err := parseOrigins([]string{bad})
		var invalid *room.InvalidError
		redistest.ErrorIf(t, !errors.As(err, &invalid) || invalid.Field != "AllowOrigins" || !strings.Contains(err.Error(), "not \""+bad),
			"%q: %v", bad, err)
	}
}

// Two Origin headers are refused, even where all origins are allowed.
func TestOrigin_Two(t *testing.T) {
	s := serve(t, sizedRooms{}, Options{AllowOrigins: []string{"*"}})
	request, answer := httptest.NewRequest("GET", "/ws?user=a", nil), httptest.NewRecorder()
	request.Header["Origin"] = []string{"https://a.example", "https://b.example"}
	s.Handler().ServeHTTP(answer, request)
	redistest.ErrorIf(t, answer.Code != http.StatusForbidden || !strings.Contains(answer.Body.String(), "https://a.example, https://b.example"),
		"%d %s", answer.Code, answer.Body)
}
