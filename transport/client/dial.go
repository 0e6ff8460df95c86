package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redisconn/pause"
	"roomd/transport/protocol"
)

// Dial connects to the server at address, such as "wss://game.example/ws". The end of ctx cancels the attempt, and
// does nothing once Dial has returned. The caller must Close the Conn.
//
// Dial refuses bad options and a bad address before it sends anything. If the server refuses, the error's text has
// the HTTP status, and the error wraps the server's [*protocol.Error], if it sent one. If the server does not accept
// the token, the error is [ErrUnauthorized].
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
		// Without the query, which may have a token.
		return nil, fmt.Errorf("client: dialing %s://%s%s: %w", u.Scheme, u.Host, u.Path, err)
	}
	return newConn(conn, opts), nil
}

func dial(ctx context.Context, u *url.URL, header http.Header, opts *Options) (*websocket.Conn, error) {
	config := opts.TLS.Clone()
	if config == nil {
		config = new(tls.Config)
	}
	config.NextProtos = []string{"http/1.1"} // WebSocket needs it
	// gorilla watches ctx only until TCP is connected; after that, the end of ctx closes the socket here.
	release := func() bool { return true }
	dialer := websocket.Dialer{
		Proxy:            http.ProxyFromEnvironment,
		HandshakeTimeout: opts.HandshakeTimeout,
		Subprotocols:     []string{protocol.Subprotocol},
		TLSClientConfig:  config,
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
	if err != nil {
		// The socket has the deadline of ctx, too, and may fail just before ctx ends.
		if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
			return nil, context.DeadlineExceeded
		}
		return nil, refusal(resp, err)
	}
	if err := checkHandshake(conn, resp); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// refusal returns the error for a failed handshake. resp is nil if the server did not respond.
func refusal(resp *http.Response, err error) error {
	if resp == nil || !errors.Is(err, websocket.ErrBadHandshake) {
		return err
	}
	body, _ := io.ReadAll(resp.Body) // an unreadable body has no error of the protocol
	frame, _ := protocol.DecodeFrame(body)
	if reply, ok := frame.(*protocol.Reply); ok && reply.Error != nil {
		err = reply.Error
	}
	return &statusError{resp.StatusCode, resp.Status, err}
}

// statusError is the HTTP response to a failed handshake.
type statusError struct {
	code   int
	status string
	err    error
}

func (e *statusError) Error() string { return "HTTP " + e.status + ": " + e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// errNotRoomd says that the server is no roomd, or has another version.
var errNotRoomd = errors.New("the server does not speak " + protocol.Subprotocol)

func checkHandshake(conn *websocket.Conn, resp *http.Response) error {
	if got := conn.Subprotocol(); got != protocol.Subprotocol {
		return fmt.Errorf("%w (its subprotocol: %q)", errNotRoomd, got)
	}
	// We did not offer compression. It would let a small frame grow past any limit.
	if resp.Header.Get("Sec-WebSocket-Extensions") != "" {
		return errors.New("the server uses a WebSocket extension that was not offered")
	}
	return nil
}

// parseURL parses the address of a server and adds the user to its query. Its errors do not show the address, which
// may hold a token.
func parseURL(address, user string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return nil, fmt.Errorf("URL: %w", err)
	}
	if u.Scheme != "ws" && u.Scheme != "wss" {
		return nil, fmt.Errorf("URL: the scheme must be ws or wss, not %q", u.Scheme)
	}
	if u.Host == "" {
		return nil, errors.New("URL: the host is missing")
	}
	if u.User != nil {
		return nil, errors.New("URL: must not hold a user name or password")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("URL: the query is malformed")
	}
	if user != "" {
		query.Set("user", user)
		u.RawQuery = query.Encode()
	}
	return u, nil
}

// handshakeHeader returns o.Header with a token from o.Token, if that is set.
func (o *Options) handshakeHeader(ctx context.Context) (http.Header, error) {
	if o.Token == nil {
		return o.Header, nil
	}
	token, err := o.Token(ctx)
	if err != nil {
		return nil, fmt.Errorf("option Token: %w", err)
	}
	if strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		// net/http's error would show the token
		return nil, errors.New("option Token: the token has characters that no token has")
	}
	header := o.Header.Clone()
	if header == nil {
		header = make(http.Header)
	}
	header.Set("Authorization", "Bearer "+token)
	return header, nil
}

// connector connects to the addresses of a client in turn. One goroutine uses it.
type connector struct {
	cfg     *Config
	backoff pause.Backoff
	next    int  // counts attempts, to choose the address
	before  bool // there was a connection
	refused bool // the server did not accept the last token, or it has expired since
}

func newConnector(cfg *Config) connector {
	return connector{cfg: cfg, backoff: cfg.backoff(), next: rand.IntN(len(cfg.Addresses))}
}

// attempt calls dial with the next address and a token, which is empty if there is none. final says that no other
// attempt is to be made.
func (k *connector) attempt(ctx context.Context,
	dial func(address, token string, opts Options) error) (final bool, err error) {
	address, token := k.cfg.Addresses[k.next%len(k.cfg.Addresses)], ""
	k.next++
	opts := k.cfg.options()
	if k.cfg.Token != nil {
		if token, err = k.cfg.Token(ctx); err != nil {
			final = !k.before || errors.Is(err, ErrUnauthorized)
			return final, fmt.Errorf("client: option Token: %w", err)
		}
		opts.Token = StaticToken(token)
	}
	if err := dial(address, token, opts); err != nil {
		return k.refuses(err), err
	}
	k.before, k.refused = true, false
	return false, nil
}

// refuses reports whether no other attempt can succeed after one that failed with err.
func (k *connector) refuses(err error) bool {
	var refusal *protocol.Error
	var untrusted *tls.CertificateVerificationError
	var status *statusError
	switch {
	case errors.Is(err, ErrUnauthorized): // ask once for a newer token
		again := k.cfg.Token != nil && !k.refused
		k.refused = true
		return !again
	case errors.As(err, &refusal):
		return !refusal.Retry
	case k.before: // it worked before; while servers restart, a proxy may answer anything
		return false
	case errors.As(err, &status):
		return status.code < http.StatusInternalServerError && status.code != http.StatusTooManyRequests
	}
	return errors.As(err, &untrusted) || errors.Is(err, errNotRoomd)
}

// settled is how long a connection has to last to reset the pauses.
const settled = 10 * time.Second

// ends reports whether the client ends with a connection, which ended with the error why. If that lasted, pauses are
// short again.
func (k *connector) ends(why error, lasted time.Duration) bool {
	if lasted >= settled {
		k.backoff.Reset()
	}
	var closed *CloseError
	if !errors.As(why, &closed) {
		return false
	}
	switch closed.Code {
	case websocket.CloseProtocolError, websocket.CloseUnsupportedData, websocket.CloseInvalidFramePayloadData,
		websocket.ClosePolicyViolation, websocket.CloseMessageTooBig, protocol.CloseReplaced, protocol.CloseTooMany:
		return true
	case protocol.CloseUnauthorized:
		k.refused = true
		return k.cfg.Token == nil
	}
	return false
}
