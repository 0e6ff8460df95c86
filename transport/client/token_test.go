package client

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

// The token goes into a header, and not into what the caller passed.
func TestToken_Sent(t *testing.T) {
	t.Parallel()
	requests := make(chan *http.Request, 1)
	address := serve(t, handler(t, func(s *server) {
		requests <- s.http
		s.drain()
	}))
	header := http.Header{"X-Game": {"cards"}}
	c, err := Dial(t.Context(), address, Options{Token: StaticToken("a.b.c"), Header: header})
	redistest.OK(t, err)
	defer c.Close()
	r := <-requests
	if r.Header.Get("Authorization") != "Bearer a.b.c" || r.Header.Get("X-Game") != "cards" || r.URL.RawQuery != "" {
		t.Errorf("asked %s with %v", r.URL, r.Header)
	}
	redistest.ErrorIf(t, len(header) != 1, "the caller's header became %v", header)
}

func TestToken_Unusable(t *testing.T) {
	t.Parallel()
	broken := errors.New("the login is away")
	for _, tt := range []struct {
		opts Options
		want string
	}{
		{Options{Token: func(context.Context) (string, error) { return "", broken }}, "client: option Token: the login is away"},
		{Options{Token: StaticToken("secret\n")}, "client: option Token: the token has characters that no token has"},
		{Options{Token: StaticToken("a"), Header: http.Header{"authorization": {"b"}}},
			"client: option Header: Authorization is set by option Token"},
	} {
		_, err := Dial(t.Context(), "ws://127.0.0.1:1/ws", tt.opts)
		redistest.ErrorIf(t, err == nil || err.Error() != tt.want, "got  %v\nwant %s", err, tt.want)
	}
	if _, err := Dial(t.Context(), "ws://127.0.0.1:1/ws", Options{Token: func(context.Context) (string, error) { return "", broken }}); !errors.Is(err, broken) {
		t.Errorf("%v does not wrap the error of Token", err)
	}
}

func TestToken_Auth(t *testing.T) {
	t.Parallel()
	c := dialScript(t, Options{}, func(s *server) {
		for req, ok := s.next(); ok; req, ok = s.next() {
			switch {
			case req.Action != protocol.ActionAuth:
				s.t.Errorf("the server got %+v", req)
			case req.Token == "good":
				s.send(`{"id":%d,"user":"张三","expires":946688400}`, req.ID)
			case req.Token == "last":
				s.close(protocol.CloseUnauthorized, "the token has expired")
			default:
				s.send(`{"id":%d,"error":{"code":"unauthorized","message":"no","retry":false}}`, req.ID)
			}
		}
	})
	if reply, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionAuth, Token: "good"}); err != nil || reply.User != "张三" || reply.Expires != 946688400 {
		t.Errorf("%+v, %v", reply, err)
	}
	if _, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionAuth, Token: "bad"}); !errors.Is(err, ErrUnauthorized) || err.Error() != "client: auth: unauthorized: no" {
		t.Error(err)
	}
	for token, want := range map[string]string{
		"\xff":                                 "not sent: token: not valid UTF-8",
		strings.Repeat("x", protocol.MaxFrame): "not sent: token: makes a frame of 16419 bytes, the limit is 16384",
	} {
		if _, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionAuth, Token: token}); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Error(err)
		}
	}
	_, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionAuth, Token: "last"})
	var closed *CloseError
	redistest.ErrorIf(t, !errors.Is(err, ErrUnauthorized) || !errors.Is(err, ErrClosed) || !errors.As(err, &closed),
		"after the token has expired: %v", err)
}

func TestDial_Unauthorized(t *testing.T) {
	t.Parallel()
	address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":{"code":"unauthorized","message":"the token has expired","retry":false}}`))
	}))
	_, err := Dial(t.Context(), address, Options{Token: StaticToken("secret.secret.secret")})
	if !errors.Is(err, ErrUnauthorized) || strings.Contains(err.Error(), "secret") ||
		!strings.HasSuffix(err.Error(), "HTTP 401 Unauthorized: unauthorized: the token has expired") {
		t.Error(err)
	}
}
