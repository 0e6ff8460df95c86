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

	"roomd/lockmgr/redisconn/pause"
	"roomd/transport/protocol"
)

// run makes one connection after the other until the client ends.
func (c *Client) run() {
	k := &connector{cfg: &c.cfg, onEvent: c.event, backoff: c.cfg.backoff(), next: rand.IntN(len(c.cfg.Addresses))}
	err := c.sessions(k)
	if c.ctx.Err() != nil {
		err = &CloseError{Code: websocket.CloseNormalClosure, Text: "by the program"}
	}
	c.stop()
	if !errors.Is(err, ErrClosed) {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.session, c.err = Lost, nil, err
	for _, r := range c.rooms {
		r.endLocked(err)
	}
	close(c.done)
	c.notifyLocked()
}

// sessions runs a session on each connection, and returns why there is no further one.
func (c *Client) sessions(k *connector) error {
	for {
		conn, token, final, err := k.attempt(c.ctx)
		if err == nil {
			began := time.Now()
			c.begin(conn, token).run()
			err = conn.Err()
			final = k.ends(err, time.Since(began))
		} else {
			c.mu.Lock()
			c.last = err
			c.mu.Unlock()
		}
		if c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		if final {
			return err
		}
		c.disconnected(err)
		if err := k.backoff.Wait(c.ctx); err != nil {
			return err
		}
	}
}

// disconnected records why there is no connection: what the rooms show is what was, until they are
// restored.
func (c *Client) disconnected(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.rooms {
		r.disconnectedLocked()
	}
	if c.state != Connecting {
		c.state = Reconnecting
	}
	c.session, c.last, c.degraded = nil, why, false
	c.notifyLocked()
}

// connector makes the connections of a client, one after the other. Only run's goroutine uses it.
type connector struct {
	cfg     *Config
	onEvent func(*protocol.Event)
	backoff pause.Backoff
	next    int  // counts attempts; says which address
	before  bool // there was a connection before
	refused bool // the token of the last attempt was not accepted, or has expired since
}

// attempt tries the next address once. It returns the token with which it is connected, or, with an
// error, whether no other attempt can succeed.
func (k *connector) attempt(ctx context.Context) (conn *Conn, token string, final bool, err error) {
	address := k.cfg.Addresses[k.next%len(k.cfg.Addresses)]
	k.next++
	opts := k.cfg.options()
	opts.OnEvent = k.onEvent
	if k.cfg.Token != nil {
		if token, err = k.cfg.Token(ctx); err != nil {
			final = !k.before || errors.Is(err, ErrUnauthorized)
			return nil, "", final, fmt.Errorf("client: option Token: %w", err)
		}
		opts.Token = StaticToken(token)
	}
	if conn, err = k.cfg.dial(ctx, address, opts); err != nil {
		return nil, "", k.refuses(err), err
	}
	k.before, k.refused = true, false
	return conn, token, false, nil
}

// refuses reports whether a server would refuse another attempt, too, after one that failed with err.
func (k *connector) refuses(err error) bool {
	var refusal *protocol.Error
	var untrusted *tls.CertificateVerificationError
	var status *statusError
	switch {
	case errors.Is(err, ErrUnauthorized): // a token is asked for once more
		again := k.cfg.Token != nil && !k.refused
		k.refused = true
		return !again
	case errors.As(err, &refusal):
		return !refusal.Retry
	case k.before: // it will work again: a proxy says all sorts of things while servers restart
		return false
	case errors.As(err, &status):
		return status.code < http.StatusInternalServerError && status.code != http.StatusTooManyRequests
	}
	return errors.As(err, &untrusted) || errors.Is(err, errNotRoomd)
}

// settled is how long a connection lasts after which the next pause is a short one again.
const settled = 10 * time.Second

// ends reports whether the end of a connection is the end of the client, too.
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
