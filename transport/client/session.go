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
	began      time.Time
	ctx        context.Context // ends with the connection
	cancel     context.CancelFunc
	goroutines sync.WaitGroup

	window     float64 // guarded by client.mu: how many requests may be without a reply
	unanswered int     // guarded by client.mu: those that are
	resting    int     // guarded by client.mu: those that came too fast, and wait before they are sent again
}

const (
	maxWindow = 64                     // well below a server's burst
	ratePause = 100 * time.Millisecond // before a request that came too fast is sent again

	// rateTries is after how many it is refused: it may be one for a room that there is not, of which a user may
	// begin only so many a minute.
	rateTries = 30
)

// begin makes a connection the client's, and begins to restore its rooms.
func (c *Client) begin(conn *Conn, token string) *session {
	s := &session{client: c, conn: conn, token: token, window: maxWindow, began: time.Now()}
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
			if reply, err := s.conn.Do(s.ctx, protocol.Request{Action: protocol.ActionAuth, Token: token}); err == nil {
				if expires = expiry(token); reply.Expires != 0 {
					expires = time.Unix(reply.Expires, 0)
				}
				break
			}
		}
	}
}

// remaining returns how long a token lasts by the clock of the server, which is the one that counts; 0 if the server
// does not say what time it is.
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
	for k := s.missing(r); k != nil; k = s.missing(r) {
		if s.client.await(s.ctx, s.mayAskLocked) != nil {
			return
		}
		_, _, again, err := s.ask(s.ctx, k)
		var refused *protocol.Error
		if errors.As(err, &refused) && s.later(refused) && !again {
			_ = backoff.Wait(s.ctx)
		}
		if err != nil && refused == nil || s.ctx.Err() != nil {
			return
		}
	}
}

// mayAskLocked reports whether a request may be sent now, and counts it if so: by ask.
func (s *session) mayAskLocked() bool {
	if s.resting > 0 || s.unanswered >= int(s.window) {
		return false
	}
	s.unanswered++
	return true
}

// ask sends a request, and reports whether the server refused it as one too many. Then it was not done, and is to be
// sent again: ask has waited for that. Fewer are sent at once from then on, since a server closes the connection of a
// client that goes on regardless.
func (s *session) ask(ctx context.Context, k *call) (reply *protocol.Reply, begun, again bool, err error) {
	reply, begun, err = s.conn.roundTrip(ctx, k)
	again = errors.Is(err, protocol.ErrRateLimited)
	c := s.client
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.notifyLocked()
	s.unanswered--
	if !again {
		s.window = min(maxWindow, s.window+1/s.window)
		return reply, begun, false, err
	}
	s.window = 1
	s.resting++
	c.mu.Unlock()
	_ = pause.For(ctx, ratePause)
	c.mu.Lock()
	s.resting--
	return nil, true, true, err
}

// later reports whether a refused request to restore a room may be sent again soon. CodeUnknown is none of those that
// a server calls so, but who joins or watches again does no harm. And another session of the user may be that of the
// connection before, until the server has noticed that it is broken.
func (s *session) later(err *protocol.Error) bool {
	return err.Retry || err.Code == protocol.CodeUnknown ||
		err.Code == protocol.CodeDuplicateUser && time.Since(s.began) < 2*s.client.cfg.Idle
}
