package transport

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/auth"
	"roomd/transport/protocol"
)

const testSecret = "0123456789abcdef0123456789abcdef"

func newVerifier(t testing.TB) *auth.Verifier {
	t.Helper()
	v, err := auth.New(auth.Secret(testSecret), auth.Options{})
	redistest.OK(t, err)
	return v
}

// signed returns a token that says so. It is valid for an hour, if it does not say how long.
func signed(t testing.TB, identity auth.Identity) string {
	t.Helper()
	signer, err := auth.SecretSigner(testSecret)
	redistest.OK(t, err)
	if identity.Expires.IsZero() {
		identity.Expires = time.Now().Add(time.Hour)
	}
	token, err := signer.Sign(identity)
	redistest.OK(t, err)
	return token
}

// tokenOf returns a token for a user, who may enter the rooms that match patterns, or all.
func tokenOf(t testing.TB, user string, ttl time.Duration, patterns ...string) string {
	t.Helper()
	return signed(t, auth.Identity{User: user, Rooms: patterns, Expires: time.Now().Add(ttl)})
}

// startWithKey starts a node in a bubble that asks for tokens.
func startWithKey(t *testing.T, opts Options) *testNode {
	t.Helper()
	opts.Auth = newVerifier(t)
	return start(t, room.Rules{}, opts)
}

// ofBrowser is what tells a browser from a program.
var ofBrowser = http.Header{"Origin": {"http://pipes"}}

// dialWith connects as a browser, with a token, or without one if that is "".
func (s *testNode) dialWith(t *testing.T, token string) *testClient {
	t.Helper()
	header := ofBrowser.Clone()
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	c, _, err := s.dial(t, "/ws", header)
	redistest.OK(t, err)
	return c
}

// with connects with a token that says so.
func (s *testNode) with(t *testing.T, identity auth.Identity) *testClient {
	t.Helper()
	return s.dialWith(t, signed(t, identity)).reading()
}

// connectAs connects with a token of that role.
func (s *testNode) connectAs(t *testing.T, user string, role auth.Role) *testClient {
	t.Helper()
	return s.with(t, auth.Identity{User: user, Role: role})
}

func authFrame(token string) string { return fmt.Sprintf(`{"id":1,"action":"auth","token":%q}`, token) }

// holdsPartOf reports whether a text has the header, the claims or the signature of a token, as
// they are or decoded.
func holdsPartOf(text, token string) bool {
	for _, part := range strings.Split(token, ".") {
		decoded, _ := base64.RawURLEncoding.DecodeString(part)
		if strings.Contains(text, part) || strings.Contains(text, string(decoded)) {
			return true
		}
	}
	return false
}

// Who shows no token can do nothing, and not stay.
func TestToken_Missing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *testNode
		for limit, timeout := range map[time.Duration]time.Duration{0: defaultAuthTimeout, 3 * time.Second: 3 * time.Second} {
			var limits tracedLimits
			s = startWithKey(t, Options{AuthTimeout: limit, Trace: limits.trace()})
			silent := s.dialWith(t, "").reading()
			time.Sleep(timeout - 1)
			silent.expectSilence()
			time.Sleep(time.Nanosecond)
			silent.expectClose(protocol.CloseUnauthorized)
			redistest.Equal(t, "traced:", limits.names(), LimitAuth)
		}
		good := tokenOf(t, "a", time.Hour)
		for frame, want := range map[string]string{
			`{"id":7,"action":"join","room":"42"}`:  `{"id":7,"room":"42","error":{"code":"unauthorized",`,
			`{"id":7,"action":"users","room":"42"}`: `{"id":7,"room":"42","error":{"code":"unauthorized",`,
			`{"id":7,"action":"leave","room":"42"}`: `{"id":7,"room":"42","error":{"code":"unauthorized",`,
			`{"id":7,"action":"dance","room":"42"}`: `{"id":7,"room":"42","error":{"code":"unknown_action",`,
			`{"id":7,"action":"auth"}`:              `{"id":7,"error":{"code":"bad_request",`,
			`{"id":7,"action":"auth","token":""}`:   `{"id":7,"error":{"code":"unauthorized",`,
			`nonsense`:                              `{"error":{"code":"bad_request",`,
			authFrame(good + "x"):                   `{"id":1,"error":{"code":"unauthorized",`,
			authFrame(tokenOf(t, "a", time.Second)): `{"id":1,"error":{"code":"unauthorized",`,
		} {
			c := s.dialWith(t, "")
			time.Sleep(2 * time.Second)
			c.send(frame)
			_, got, err := c.ws.ReadMessage()
			redistest.ErrorIf(t, err != nil || !strings.HasPrefix(string(got), want) || holdsPartOf(string(got), good),
				"%s: %s, %v; want %s", frame, got, err, want)
			c.expectClose(protocol.CloseUnauthorized)
		}
		s.expectMembers(t, "42", "")
		named, _, err := s.dial(t, "/ws?user=b", ofBrowser)
		redistest.OK(t, err)
		named.send(authFrame(good))
		named.expect(`{"id":1,"error":{"code":"unauthorized","message":"the token is not for the user that ?user= names","retry":false}}`)
		named.expectClose(protocol.CloseUnauthorized)
	})
}

// A connection ends when its token expires, and its seats are kept. A newer token of the same user
// lets it go on.
func TestToken_Expires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWithKey(t, Options{})
		begin := time.Now()
		c := s.dialWith(t, tokenOf(t, "a", 10*time.Minute)).reading()
		c.exchange(`{"id":1,"action":"join","room":"42"}`, `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
		c.send(authFrame(tokenOf(t, "b", time.Hour)))
		c.expect(`{"id":1,"error":{"code":"unauthorized","message":"the token is for another user than this connection's","retry":false}}`)
		c.exchange(authFrame("x"), `{"id":1,"error":{"code":"unauthorized","message":"the token is not a JSON Web Token","retry":false}}`)
		time.Sleep(9 * time.Minute)
		c.exchange(authFrame(tokenOf(t, "a", 10*time.Minute)), fmt.Sprintf(`{"id":1,"user":"a","expires":%d}`, begin.Add(19*time.Minute).Unix()))
		time.Sleep(time.Until(begin.Add(19*time.Minute - 1)))
		c.expectSilence()
		time.Sleep(time.Nanosecond)
		c.expectClose(protocol.CloseUnauthorized)
		s.expectMembers(t, "42", "a")
		again := s.dialWith(t, tokenOf(t, "a", time.Hour))
		again.exchange(`{"id":1,"action":"join","room":"42"}`, `{"id":1,"room":"42","version":3,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
		time.Sleep(defaultGrace + time.Second)
		s.expectMembers(t, "42", "a")
	})
}

// The rooms of a token limit what its user may enter and see, but not where the user may leave, and stop to watch.
func TestToken_Rooms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWithKey(t, Options{})
		c := s.dialWith(t, tokenOf(t, "a", time.Hour, "table-*", "lobby"))
		const forbidden = `{"id":2,"room":"42","error":{"code":"forbidden","message":"the token does not allow room 42","retry":false}}`
		for _, action := range []string{"join", "watch", "users"} {
			c.exchange(`{"id":2,"action":"`+action+`","room":"42"}`, forbidden)
		}
		c.send(`{"id":2,"action":"join","room":"a b"}`)
		c.expect(`{"id":2,"room":"a b","error":{"code":"bad_request","message":"room may hold only A-Z a-z 0-9 . _ -, not ' '","retry":false}}`)
		c.askAbout("table-1", `"join"`, `"version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]`)
		c.exchange(`{"id":2,"action":"watch","room":"lobby"}`, `{"id":2,"room":"lobby","epoch":"","version":0,"count":0,"users":[]}`)
		s.joins(t, "b", "lobby")
		c.expect(`{"event":"changes","room":"lobby","version":1,"from":0,"changes":[{"type":"join","user":"b","seat":0}]}`)
		c.exchange(authFrame(tokenOf(t, "a", time.Hour, "42")), fmt.Sprintf(`{"id":1,"user":"a","expires":%d}`, time.Now().Add(time.Hour).Unix()))
		c.expect(`{"event":"unwatched","room":"lobby","reason":"forbidden"}`)
		c.exchange(`{"id":2,"action":"unwatch","room":"lobby"}`, `{"id":2,"room":"lobby","epoch":"","version":0,"count":0}`)
		c.send(`{"id":2,"action":"users","room":"table-1"}`)
		c.expect(`{"id":2,"room":"table-1","error":{"code":"forbidden","message":"the token does not allow room table-1","retry":false}}`)
		c.exchange(`{"id":2,"action":"leave","room":"table-1"}`, `{"id":2,"room":"table-1","version":2,"count":0}`)
		c.exchange(`{"id":2,"action":"users","room":"42"}`, `{"id":2,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
	})
}

// Who watches a room that the token does not allow to enter has no power there, also as an admin.
func TestAccess_WatchingAdmin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startWithKey(t, Options{})
		c := s.with(t, auth.Identity{User: "boss", Role: auth.RoleAdmin, Rooms: []string{}, Watch: []string{"42"}})
		c.exchange(`{"id":1,"action":"watch","room":"42"}`, `{"id":1,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
		c.ask(`"set","data":1`, `"error":{"code":"forbidden","message":"the token does not allow room 42","retry":false}`)
		c.exchange(`{"id":3,"action":"unwatch","room":"42"}`, `{"id":3,"room":"42","epoch":"","version":0,"count":0}`)
	})
}

// A server without a key believes ?user=, and takes no notice of tokens.
func TestToken_NoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{})
		c, _, err := s.dial(t, "/ws?user=a", http.Header{"Authorization": {"Bearer x"}}, "roomd.token.x")
		redistest.OK(t, err)
		c.send(authFrame("x"))
		c.expect(`{"id":1,"error":{"code":"bad_request","message":"action auth makes no sense here: this server has no key for tokens","retry":false}}`)
		c.exchange(`{"id":2,"action":"users","room":"42"}`, `{"id":2,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
	})
}

// No log line, at whatever level, has a part of a token.
func TestToken_NotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log redistest.Log
		s := startWithKey(t, Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug - 4}))})
		good, bad := tokenOf(t, "a", time.Minute), tokenOf(t, "a", time.Minute)+"x"
		s.dialWith(t, good).reading().send(`{"id":1,"action":"join","room":"42"}`)
		for _, token := range []string{good, bad} {
			c := s.dialWith(t, "")
			c.send(authFrame(token))
			c2, _, err := s.dial(t, "/ws?user=b", nil, "roomd.token."+token)
			if err == nil {
				c2.ws.Close()
			}
			_, _, _ = s.dial(t, "/ws", http.Header{"Authorization": {"Bearer " + token}})
		}
		time.Sleep(2 * time.Minute)
		text := log.String()
		for _, want := range []string{"connected", "authenticated", "tokens are refused", "over: tokens are refused", "expired"} {
			redistest.ErrorIf(t, !strings.Contains(text, want), "%q is not in the log", want)
		}
		redistest.ErrorIf(t, holdsPartOf(text, good), "a part of the token is in the log:\n%s", text)
	})
}
