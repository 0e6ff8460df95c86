package client

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

func TestDial_ChecksFirst(t *testing.T) {
	t.Parallel()
	var touched bool
	address := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { touched = true }))
	tests := []struct {
		name, address string
		opts          Options
		want          string
	}{
		{"no address", "", Options{}, `client: URL: the scheme must be ws or wss, not ""`},
		{"http", "http://" + address[5:], Options{}, `client: URL: the scheme must be ws or wss, not "http"`},
		{"no host", "ws:///ws", Options{}, "client: URL: the host is missing"},
		{"password", "ws://a:b@" + address[5:], Options{}, "client: URL: must not hold a user name or password"},
		{"not a URL", "ws://host:port/?token=secret", Options{}, `client: URL: invalid port ":port" after host`},
		{"bad query", address + "?token=secret;%zz", Options{}, "client: URL: the query is malformed"},
		{"bad user", address, Options{User: "\xff"}, "client: option User: not valid UTF-8"},
		{"handshake header", address, Options{Header: http.Header{"sec-websocket-protocol": {"x"}}},
			"client: option Header: Sec-Websocket-Protocol belongs to the handshake and cannot be set"},
		{"handshake timeout", address, Options{HandshakeTimeout: -1}, "client: option HandshakeTimeout: -1ns is negative"},
		{"token", address, Options{Token: StaticToken("secret\n")}, "client: option Token: the token has characters that no token has"},
		{"token and header", address, Options{Token: StaticToken("a"), Header: http.Header{"authorization": {"b"}}},
			"client: option Header: Authorization is set by option Token"},
		{"write timeout", address, Options{WriteTimeout: -1}, "client: option WriteTimeout: -1ns is negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Dial(t.Context(), tt.address, tt.opts)
			redistest.ErrorIf(t, err == nil || err.Error() != tt.want, "got  %v\nwant %s", err, tt.want)
		})
	}
	redistest.ErrorIf(t, touched, "the server was asked")
}

func TestDial_SendsWhoAndWhat(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, path string
		opts       Options
		user       []string
		other      string
	}{
		{"nobody", "/ws?a=1", Options{}, nil, "1"},
		{"user", "/ws", Options{User: "张三 &=?#"}, []string{"张三 &=?#"}, ""},
		{"user beside a query", "/ws?a=%26", Options{User: "x"}, []string{"x"}, "&"},
		{"user in place of another", "/ws?user=y&a=1", Options{User: "x"}, []string{"x"}, "1"},
		{"token", "/ws", Options{Token: StaticToken("t")}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			requests := make(chan *http.Request, 1)
			address := serve(t, handler(t, func(s *server) {
				requests <- s.http
				s.drain()
			}))
			header := http.Header{"X-Game": {"cards"}}
			if tt.opts.Token == nil {
				header.Set("Authorization", "Bearer t")
			}
			tt.opts.Header = header.Clone()
			c, err := Dial(t.Context(), address+tt.path, tt.opts)
			redistest.OK(t, err)
			defer c.Close()
			r := <-requests
			q := r.URL.Query()
			if strings.Join(q["user"], "|") != strings.Join(tt.user, "|") || q.Get("a") != tt.other || r.URL.Path != "/ws" {
				t.Errorf("asked for %s", r.URL)
			}
			for name, want := range map[string]string{
				"Authorization":            "Bearer t",
				"X-Game":                   "cards",
				"Sec-Websocket-Protocol":   "roomd.v1",
				"Sec-Websocket-Extensions": "",
			} {
				got := r.Header.Get(name)
				redistest.ErrorIf(t, got != want, "%s: %q, want %q", name, got, want)
			}
			redistest.ErrorIf(t, !reflect.DeepEqual(tt.opts.Header, header), "the caller's header became %v", tt.opts.Header)
		})
	}
}

func TestDial_Refused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		status int
		body   string
		is     error
		want   string // the end of the text
	}{
		{"with an error", 403, `{"error":{"code":"forbidden","message":"not this origin","retry":false}}`,
			protocol.ErrForbidden, "HTTP 403 Forbidden: forbidden: not this origin"},
		{"token", 401, `{"error":{"code":"unauthorized","message":"the token has expired","retry":false}}`, ErrUnauthorized,
			"HTTP 401 Unauthorized: unauthorized: the token has expired"},
		{"draining", 503, string(protocol.AppendReply(nil, &protocol.Reply{Error: protocol.NewError("unavailable", "draining")})),
			protocol.ErrUnavailable, "HTTP 503 Service Unavailable: unavailable: draining"},
		{"not ours", 404, "404 page not found\n", websocket.ErrBadHandshake, "HTTP 404 Not Found: websocket: bad handshake"},
		{"JSON, but not ours", 502, `{"error":null}`, websocket.ErrBadHandshake,
			"HTTP 502 Bad Gateway: websocket: bad handshake"},
		{"OK is not enough", 200, ``, websocket.ErrBadHandshake, "HTTP 200 OK: websocket: bad handshake"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			}))
			_, err := Dial(t.Context(), address+"/ws?token=secret", Options{Token: StaticToken("secret.secret")})
			redistest.FatalIf(t, err == nil, "connected")
			redistest.ErrorIf(t, !errors.Is(err, tt.is) || !strings.HasSuffix(err.Error(), "/ws: "+tt.want) ||
				strings.Contains(err.Error(), "secret"),
				"got  %v\nwant … %s", err, tt.want)
		})
	}
}

func TestDial_WrongServer(t *testing.T) {
	t.Parallel()
	for want, header := range map[string]http.Header{
		`the server does not speak roomd.v1 (its subprotocol: "")`:     {},
		`the server does not speak roomd.v1 (its subprotocol: "chat")`: {"Sec-WebSocket-Protocol": {"chat"}},
		// a server that compresses unasked could get around the read limit
		"the server uses a WebSocket extension that was not offered": {"Sec-WebSocket-Protocol": {"roomd.v1"},
			"Sec-WebSocket-Extensions": {"permessage-deflate; server_no_context_takeover; client_no_context_takeover"}},
	} {
		address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
			maps.Copy(w.Header(), header)
			w.Header().Set("Upgrade", "websocket")
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Sec-WebSocket-Accept", base64.StdEncoding.EncodeToString(sum[:]))
			w.WriteHeader(http.StatusSwitchingProtocols)
		}))
		_, err := Dial(t.Context(), address, Options{})
		redistest.ErrorIf(t, err == nil || !strings.HasSuffix(err.Error(), want), "got  %v\nwant … %s", err, want)
	}
}

// unanswered listens, but never answers. asked gets a value for each handshake begun.
func unanswered(t *testing.T) (address string, asked <-chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	redistest.OK(t, err)
	begun, ended := make(chan struct{}, 10), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			// Only now has the client certainly finished connecting.
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				begun <- struct{}{}
			}
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	return "ws://" + listener.Addr().String(), begun
}

func TestDial_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	address, asked := unanswered(t)
	t.Run("cancelled in the handshake", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-asked
			cancel()
		}()
		if _, err := Dial(ctx, address, Options{HandshakeTimeout: time.Hour}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want Canceled", err)
		}
	})
	t.Run("cancelled before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		redistest.ErrorIs(t, "got , want Canceled", redistest.Err(Dial(ctx, address, Options{})), context.Canceled)
	})
	t.Run("deadline", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if _, err := Dial(ctx, address, Options{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want DeadlineExceeded", err)
		}
	})
	t.Run("handshake timeout", func(t *testing.T) {
		_, err := Dial(t.Context(), address, Options{HandshakeTimeout: 20 * time.Millisecond})
		var timeout net.Error
		redistest.ErrorIf(t, !errors.As(err, &timeout) || !timeout.Timeout(), "got %v, want a timeout", err)
	})
}

func TestDial_ContextMeansNothingLater(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	c, err := Dial(ctx, serve(t, handler(t, echo)), Options{})
	redistest.OK(t, err)
	defer c.Close()
	cancel()
	redistest.OK(t, redistest.Err(c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"})))
}
