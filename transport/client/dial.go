package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

// Dial connects to the server at address, such as "wss://game.example/ws". The end of ctx stops
// the attempt, and does nothing once Dial has returned. The caller must Close the client.
//
// Dial refuses bad options and a bad address before it sends anything. If the server refuses, the
// error wraps its [protocol.Error] and has the HTTP status in its text; if it does not accept the
// token, the error is [ErrUnauthorized].
func Dial(ctx context.Context, address string, opts Options) (*Conn, error) {
	u, err := parseURL(address, opts.User)
	if err == nil {
		err = opts.check()
	}
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	header, err := opts.handshakeHeader(ctx)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	conn, err := dial(ctx, u, header, &opts)
	if err != nil {
		// Without the query, which may hold a token.
		return nil, fmt.Errorf("client: dialing %s://%s%s: %w", u.Scheme, u.Host, u.Path, err)
	}
	return start(conn, opts), nil
}

func dial(ctx context.Context, u *url.URL, header http.Header, opts *Options) (*websocket.Conn, error) {
	// gorilla looks at ctx only until TCP is connected; after that the end of ctx closes the socket.
	release := func() bool { return true }
	dialer := websocket.Dialer{
		Proxy:            http.ProxyFromEnvironment,
		HandshakeTimeout: opts.HandshakeTimeout,
		Subprotocols:     []string{protocol.Subprotocol},
		TLSClientConfig:  tlsConfig(opts.TLS),
		NetDialContext: func(dialCtx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(dialCtx, network, addr)
			if err == nil {
				release = context.AfterFunc(ctx, func() { _ = conn.Close() })
			}
			return conn, err
		},
	}
	conn, resp, err := dialer.DialContext(ctx, u.String(), header)
	if !release() {
		if err == nil {
			_ = conn.Close()
		}
		return nil, ctx.Err()
	}
	if err != nil && expired(ctx) {
		return nil, context.DeadlineExceeded
	}
	if err != nil {
		return nil, refusal(resp, err)
	}
	if err := checkHandshake(conn, resp); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// tlsConfig returns a copy of given, or the defaults, that asks for HTTP/1.1: WebSocket needs it.
func tlsConfig(given *tls.Config) *tls.Config {
	config := given.Clone()
	if config == nil {
		config = new(tls.Config)
	}
	config.NextProtos = []string{"http/1.1"}
	return config
}

// expired reports whether ctx's deadline has passed. The socket has the same deadline, and may
// fail a moment before ctx ends.
func expired(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}

// refusal makes an error of the response to a failed handshake; resp is nil if there was none.
func refusal(resp *http.Response, err error) error {
	if resp == nil || !errors.Is(err, websocket.ErrBadHandshake) {
		return err
	}
	body, readErr := io.ReadAll(resp.Body)
	if readErr == nil {
		if frame, decodeErr := protocol.DecodeFrame(body); decodeErr == nil {
			if reply, ok := frame.(*protocol.Reply); ok && reply.Error != nil {
				err = reply.Error
			}
		}
	}
	return &statusError{resp.StatusCode, resp.Status, err}
}

// statusError is the answer to a handshake that failed.
type statusError struct {
	code   int
	status string
	err    error
}

func (e *statusError) Error() string { return "HTTP " + e.status + ": " + e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// errNotRoomd says that the server is another one, or speaks another version.
var errNotRoomd = errors.New("the server does not speak " + protocol.Subprotocol)

func checkHandshake(conn *websocket.Conn, resp *http.Response) error {
	if got := conn.Subprotocol(); got != protocol.Subprotocol {
		return fmt.Errorf("%w (its subprotocol: %q)", errNotRoomd, got)
	}
	// Compression was not offered, and would let a small frame grow past any limit.
	if resp.Header.Get("Sec-WebSocket-Extensions") != "" {
		return errors.New("the server uses a WebSocket extension that was not offered")
	}
	return nil
}
