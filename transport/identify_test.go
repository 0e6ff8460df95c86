package transport

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

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
			if c.ws.Subprotocol() != protocol.Subprotocol || strings.Contains(fmt.Sprint(res.Header), token) {
				t.Errorf("%s: the response has %v", name, res.Header)
			}
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
		if answer.Code != tt.status || !strings.Contains(body, tt.want) || !strings.Contains(body, `"code":"`+code+`"`) || holdsPartOf(body, good) {
			t.Errorf("%s %.80v: %d %s, want %d with %q", tt.path, tt.header, answer.Code, body, tt.status, tt.want)
		}
		if challenge := answer.Header().Get("WWW-Authenticate"); (challenge == "Bearer") != (tt.status == 401) {
			t.Errorf("%d with WWW-Authenticate: %q", tt.status, challenge)
		}
	}
}
