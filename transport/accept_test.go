package transport

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
