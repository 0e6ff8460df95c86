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
	k := newConnector(&c.cfg)
	err := c.sessions(&k)
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

// silentAttempts is how many attempts to make the first connection fail before the program is told.
const silentAttempts = 3

// sessions runs a session on each connection, and returns why there is no further one.
func (c *Client) sessions(k *connector) error {
	for attempts := 1; ; attempts++ {
		var conn *Conn
		token := ""
		final, err := k.attempt(c.ctx, func(address, shown string, opts Options) (err error) {
			token, opts.OnEvent = shown, c.event
			conn, err = c.cfg.dial(c.ctx, address, opts)
			return err
		})
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
		if attempts == silentAttempts && !k.before {
			c.cfg.OnUnreachable(err)
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

// connector makes connections to the addresses of a client, one after the other. One goroutine uses it.
type connector struct {
	cfg     *Config
	backoff pause.Backoff
	next    int  // counts attempts; says which address
	before  bool // there was a connection before
	refused bool // the token of the last attempt was not accepted, or has expired since
}

func newConnector(cfg *Config) connector {
	return connector{cfg: cfg, backoff: cfg.backoff(), next: rand.IntN(len(cfg.Addresses))}
}

// attempt has dial try the next address once, with a token, which is empty if there is none. It reports, with an error,
// whether no other attempt can succeed.
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
