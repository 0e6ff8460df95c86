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

// session is the work of a client on one connection: the heartbeat, the renewal of the token, and one goroutine for
// each room that has to be restored.
type session struct {
	link       *link
	conn       *Conn
	token      string
	began      time.Time
	ctx        context.Context // ends with the connection
	cancel     context.CancelFunc
	goroutines sync.WaitGroup

	window     float64 // guarded by link.mu: how many requests may be under way
	unanswered int     // guarded by link.mu: how many requests are under way
	resting    int     // guarded by link.mu: how many of them wait because they came too fast
}

const (
	maxWindow = 64                     // well below a server's burst
	ratePause = 100 * time.Millisecond // before a request that came too fast is repeated

	// rateTries is how often link.do sends a request that the server refuses as one too many. More may be useless,
	// because a user may create only so many rooms a minute.
	rateTries = 30
)

// run returns when the connection and the session's goroutines have ended.
func (s *session) run() {
	s.goroutines.Go(s.heartbeat)
	if s.token != "" {
		s.goroutines.Go(s.renew)
	}
	select {
	case <-s.conn.Done():
	case <-s.link.ctx.Done():
	}
	s.conn.Close() // sends 1000 if the connection has not ended
	s.cancel()
	s.goroutines.Wait()
}

// heartbeat pings a server that is silent, and drops the connection if it remains so.
func (s *session) heartbeat() {
	cfg, c := &s.link.cfg, s.conn
	for {
		silence := time.Since(c.began) - time.Duration(c.heard.Load())
		if rest := cfg.Idle - silence; rest > 0 {
			if pause.For(s.ctx, rest) != nil {
				return
			}
			continue
		}
		before := c.heard.Load()
		c.control(websocket.PingMessage, nil) // if it cannot be sent, no answer comes either
		if pause.For(s.ctx, cfg.IdleTimeout) != nil {
			return
		}
		// A measured silence would prove nothing: this process may have been stopped meanwhile.
		if c.heard.Load() == before {
			c.drop(errors.New("the server has been silent for too long"))
			return
		}
	}
}

// renew sends the server a newer token after most of the current one's time, as long as Token has one that expires.
func (s *session) renew() {
	for expires := expiry(s.token); !expires.IsZero(); {
		// At least a second, so that a token that never changes does not make this a busy loop.
		rest := max(s.remaining(expires)/5*4, time.Second)
		expires = time.Time{}
		backoff := s.link.cfg.backoff()
		for err := pause.For(s.ctx, rest); err == nil; err = backoff.Wait(s.ctx) {
			token, err := s.link.cfg.Token(s.ctx)
			if errors.Is(err, ErrUnauthorized) {
				return // the program has no newer token
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

// remaining returns how long a token lasts by the server's clock, which decides; 0 if the server does not tell the
// time.
func (s *session) remaining(expires time.Time) time.Duration {
	reply, err := s.conn.Do(s.ctx, protocol.Request{Action: protocol.ActionPing})
	if err != nil {
		return 0
	}
	return expires.Sub(time.UnixMilli(reply.Time))
}

// expiry returns the expiry of a JSON Web Token, or the zero time if the token has none. It does not verify the token.
func expiry(token string) time.Time {
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if parts := strings.Split(token, "."); len(parts) == 3 {
		payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
		_ = json.Unmarshal(payload, &claims) // an unreadable token has no exp
	}
	if claims.Exp <= 0 || claims.Exp > math.MaxInt32*100 {
		return time.Time{}
	}
	return time.Unix(int64(claims.Exp), 0)
}

// restore restores a room: the membership and the watch on a new connection, and the list after missed events. It
// repeats requests that the server cannot serve now.
func (s *session) restore(m *membership) {
	backoff := s.link.cfg.backoff()
	for k := s.missing(m); k != nil; k = s.missing(m) {
		if s.link.await(s.ctx, s.mayAskLocked) != nil {
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

// mayAskLocked reports whether ask may send a request now, and counts it if so.
func (s *session) mayAskLocked() bool {
	if s.resting > 0 || s.unanswered >= int(s.window) {
		return false
	}
	s.unanswered++
	return true
}

// ask sends a request by roundTrip. again reports that the server refused it as one too many: the server has not
// carried it out, ask has paused, and the caller should repeat it. From then on fewer requests are under way at once,
// because a server closes the connection of a client that ignores the refusal.
func (s *session) ask(ctx context.Context, k *call) (reply *protocol.Reply, begun, again bool, err error) {
	reply, begun, err = s.conn.roundTrip(ctx, k)
	again = errors.Is(err, protocol.ErrRateLimited)
	c := s.link
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.changed.notify()
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

// later reports whether a refused request to restore a room may be repeated soon. CodeUnknown, too, may be repeated:
// a second join or watch does no harm. After CodeDuplicateUser, the other session may be this client's last one,
// until the server notices that its connection is broken.
func (s *session) later(err *protocol.Error) bool {
	return err.Retry || err.Code == protocol.CodeUnknown ||
		err.Code == protocol.CodeDuplicateUser && time.Since(s.began) < 2*s.link.cfg.Idle
}
