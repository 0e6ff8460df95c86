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

// silentAttempts is how many failed attempts at the first connection pass before the program is told.
const silentAttempts = 3

// sessions runs a session on each connection, and returns the error after which it makes no other connection.
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

// disconnected records the end of a connection. The rooms show their last state until they are restored.
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

// attempt calls dial with the next address and a token, which is empty if there is none. final says that no
// other attempt can succeed.
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

// refuses reports whether a server would also refuse the next attempt, after one that failed with err.
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

// ends reports whether the end of a connection also ends the client.
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
