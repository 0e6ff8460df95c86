package client

import (
	"context"
	"encoding/base64"
	"errors"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/gorilla/websocket"

	"roomd/lockmgr/redisconn/pause"
	"roomd/transport/protocol"
)

// session is what a client does on one connection: the heartbeat, the renewal of the token, and one
// goroutine for each room that lacks something.
type session struct {
	client     *Client
	conn       *Conn
	token      string
	slots      chan struct{}   // bounds how many rooms ask at once to be restored
	ctx        context.Context // ends with the connection
	cancel     context.CancelFunc
	goroutines sync.WaitGroup
}

// maxRestoring is how many rooms ask at once, well below a server's burst.
const maxRestoring = 16

// begin makes a connection the client's, and begins to restore its rooms.
func (c *Client) begin(conn *Conn, token string) *session {
	s := &session{client: c, conn: conn, token: token, slots: make(chan struct{}, maxRestoring)}
	s.ctx, s.cancel = context.WithCancel(c.ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session, c.last, c.state = s, nil, c.connectedLocked()
	for _, r := range c.rooms {
		r.restoreLocked()
	}
	c.notifyLocked()
	return s
}

// run returns when the connection has ended, and all that belongs to it.
func (s *session) run() {
	s.goroutines.Go(s.heartbeat)
	if s.token != "" {
		s.goroutines.Go(s.renew)
	}
	select {
	case <-s.conn.Done():
	case <-s.client.ctx.Done():
	}
	s.conn.Close() // with 1000, if the connection has not ended
	s.cancel()
	s.goroutines.Wait()
}

// heartbeat pings a server that is silent, and drops the connection if it remains so.
func (s *session) heartbeat() {
	cfg, c := &s.client.cfg, s.conn
	for {
		silence := time.Since(c.began) - time.Duration(c.heard.Load())
		if rest := cfg.Idle - silence; rest > 0 {
			if pause.For(s.ctx, rest) != nil {
				return
			}
			continue
		}
		before := c.heard.Load()
		c.control(websocket.PingMessage, nil) // if it cannot be sent, no answer comes
		if pause.For(s.ctx, cfg.IdleTimeout) != nil {
			return
		}
		// Not how long the silence is: a process that was stopped meanwhile may have slept for longer.
		if c.heard.Load() == before {
			c.drop(errors.New("the server has been silent for too long"))
			return
		}
	}
}

// renew shows the server a newer token whenever most of the present one's time is over.
func (s *session) renew() {
	for expires := expiry(s.token); !expires.IsZero(); {
		// A token that is always the same must not make this a busy loop.
		rest := max(s.remaining(expires)/5*4, time.Second)
		expires = time.Time{}
		backoff := s.client.cfg.backoff()
		for err := pause.For(s.ctx, rest); err == nil; err = backoff.Wait(s.ctx) {
			token, err := s.client.cfg.Token(s.ctx)
			if errors.Is(err, ErrUnauthorized) {
				return // the program has no further token: the present one is used up
			}
			if err != nil {
				continue
			}
			if reply, err := s.conn.Auth(s.ctx, token); err == nil {
				if expires = expiry(token); reply.Expires != 0 {
					expires = time.Unix(reply.Expires, 0)
				}
				break
			}
		}
	}
}

// remaining returns how long a token lasts by the clock of the server, which is the one that counts; 0 if the server does not say what
// time it is.
func (s *session) remaining(expires time.Time) time.Duration {
	reply, _, err := s.conn.roundTrip(s.ctx, &call{req: &protocol.Request{Action: protocol.ActionPing}})
	if err != nil {
		return 0
	}
	return expires.Sub(time.UnixMilli(reply.Time))
}

// expiry reads from a JSON Web Token when it expires, without checking it, which is the server's
// business. It is the zero time if the token does not say.
func expiry(token string) time.Time {
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if parts := strings.Split(token, "."); len(parts) == 3 {
		payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
		_ = json.Unmarshal(payload, &claims) // what cannot be read has no exp
	}
	if claims.Exp <= 0 || claims.Exp > math.MaxInt32*100 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Exp), 0)
}

// restore brings a room back on a new connection: the membership, the watch, and the list where
// events were missed. It tries again while the server cannot do it now.
func (s *session) restore(r *Room) {
	backoff := s.client.cfg.backoff()
	for k := r.missing(); k != nil; k = r.missing() {
		s.slots <- struct{}{}
		_, _, err := s.conn.roundTrip(s.ctx, k)
		var refused *protocol.Error
		wait := errors.As(err, &refused) && later(refused)
		limited := wait && refused.Is(protocol.ErrRateLimited)
		if limited { // the others wait, too: a server closes the connection of a client that goes on regardless
			_ = backoff.Wait(s.ctx)
		}
		<-s.slots
		if wait && !limited {
			_ = backoff.Wait(s.ctx)
		}
		if err != nil && refused == nil || s.ctx.Err() != nil {
			return
		}
	}
}

// later reports whether a refused request may be sent again soon. CodeUnknown is none of those that
// a server calls so, but who joins or watches again does no harm.
func later(err *protocol.Error) bool { return err.Retry || err.Code == protocol.CodeUnknown }
