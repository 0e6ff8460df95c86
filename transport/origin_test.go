package transport

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

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
		if !errors.As(err, &invalid) || invalid.Field != "AllowOrigins" || !strings.Contains(err.Error(), "not \""+bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Two Origin headers are refused, even where all origins are allowed.
func TestOrigin_Two(t *testing.T) {
	s := serve(t, sizedRooms{}, Options{AllowOrigins: []string{"*"}})
	request, answer := httptest.NewRequest("GET", "/ws?user=a", nil), httptest.NewRecorder()
	request.Header["Origin"] = []string{"https://a.example", "https://b.example"}
	s.Handler().ServeHTTP(answer, request)
	if answer.Code != http.StatusForbidden || !strings.Contains(answer.Body.String(), "https://a.example, https://b.example") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}
