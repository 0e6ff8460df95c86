package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

func newClient(cfg Config) (*Client, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c := &Client{cfg: cfg, status: newStatus()}
	c.rooms = &rooms{client: c, byID: make(map[string]*Room)}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

// first waits for the first connection.
func (c *Client) first(ctx context.Context) error {
	for {
		now := c.status.now()
		switch now.state {
		case Connecting:
		case Lost:
			return now.last
		default:
			return nil
		}
		select {
		case <-now.changed:
		case <-ctx.Done():
			if last := c.status.now().last; last != nil {
				return fmt.Errorf("client: not connected: %w: %w", ctx.Err(), last)
			}
			return fmt.Errorf("client: not connected: %w", ctx.Err())
		}
	}
}

// connector makes the connections of a client, one after the other.
type connector struct {
	client  *Client
	backoff backoff
	next    int  // counts attempts; says which address
	before  bool // there was a connection before
	refused bool // the token of the last attempt was not accepted, or has expired since
}

func newConnector(c *Client) *connector {
	return &connector{client: c, backoff: c.cfg.backoff(), next: rand.IntN(len(c.cfg.Addresses))}
}

// connect tries until there is a connection, and returns it with its token. The error is final.
func (k *connector) connect(ctx context.Context) (*Conn, string, error) {
	for {
		conn, token, err := k.attempt(ctx)
		if err == nil {
			k.before, k.refused = true, false
			return conn, token, nil
		}
		if ctx.Err() != nil {
			return nil, "", ctx.Err()
		}
		k.client.status.attemptFailed(err)
		if !k.again(err) {
			return nil, "", err
		}
		if !k.backoff.pause(ctx) {
			return nil, "", ctx.Err()
		}
	}
}

// attempt tries the next address once.
func (k *connector) attempt(ctx context.Context) (*Conn, string, error) {
	cfg := &k.client.cfg
	address := cfg.Addresses[k.next%len(cfg.Addresses)]
	k.next++
	opts, token := cfg.options(), ""
	opts.OnEvent = k.client.rooms.event
	if cfg.Token != nil {
		var err error
		if token, err = cfg.Token(ctx); err != nil {
			return nil, "", &tokenError{err}
		}
		opts.Token = StaticToken(token)
	}
	conn, err := cfg.dial(ctx, address, opts)
	return conn, token, err
}

// tokenError says that [Config.Token] has failed.
type tokenError struct{ err error }

func (e *tokenError) Error() string { return "client: option Token: " + e.err.Error() }
func (e *tokenError) Unwrap() error { return e.err }

// again reports whether another attempt may succeed, after one that failed with err.
func (k *connector) again(err error) bool {
	var token *tokenError
	var refusal *protocol.Error
	switch {
	case errors.As(err, &token):
		return k.before && !errors.Is(err, ErrUnauthorized)
	case errors.Is(err, ErrUnauthorized):
		again := k.client.cfg.Token != nil && !k.refused
		k.refused = true
		return again
	case errors.As(err, &refusal):
		return refusal.Retry
	}
	// What has worked before will work again: a proxy says all sorts of things while servers restart.
	return k.before || !misdirected(err)
}

// misdirected reports whether the address is not that of a roomd server that this client can trust.
func misdirected(err error) bool {
	var untrusted *tls.CertificateVerificationError
	var status *statusError
	if errors.As(err, &status) {
		return status.code < http.StatusInternalServerError && status.code != http.StatusTooManyRequests
	}
	return errors.As(err, &untrusted) || errors.Is(err, errNotRoomd)
}

// settled is how long a connection lasts after which the next pause is a short one again.
const settled = 10 * time.Second

// ended looks at why a connection has ended, and returns the error that ends the client, or nil.
func (k *connector) ended(why error, lasted time.Duration) error {
	if lasted >= settled {
		k.backoff.reset()
	}
	var closed *CloseError
	if !errors.As(why, &closed) {
		return nil
	}
	switch closed.Code {
	case websocket.CloseProtocolError, websocket.CloseUnsupportedData, websocket.CloseInvalidFramePayloadData,
		websocket.ClosePolicyViolation, websocket.CloseMessageTooBig, protocol.CloseReplaced, protocol.CloseTooMany:
		return why
	case protocol.CloseUnauthorized:
		if k.client.cfg.Token == nil {
			return why
		}
		k.refused = true
	}
	return nil
}
