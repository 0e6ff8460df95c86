package client

import (
	"context"
	"errors"
	"sync"
	"time"
)

// session is what a client does on one connection.
type session struct {
	client  *Client
	conn    *Conn
	token   string
	slots   chan struct{}   // bounds how many rooms ask at once to be restored
	ctx     context.Context // ends with the connection
	cancel  context.CancelFunc
	helpers sync.WaitGroup
}

// maxRestoring is how many rooms ask at once, well below a server's burst.
const maxRestoring = 16

func startSession(c *Client, conn *Conn, token string) *session {
	s := &session{client: c, conn: conn, token: token, slots: make(chan struct{}, maxRestoring)}
	s.ctx, s.cancel = context.WithCancel(c.ctx)
	return s
}

// run returns when the connection has ended, and all that belongs to it.
func (s *session) run() {
	s.helpers.Go(s.heartbeat)
	if s.token != "" {
		s.helpers.Go(s.renew)
	}
	for _, r := range s.client.rooms.all() {
		s.helpers.Go(func() { s.restore(r) })
	}
	select {
	case <-s.conn.Done():
	case <-s.client.ctx.Done():
	}
	s.conn.Close() // with 1000, if the connection has not ended
	s.cancel()
	s.helpers.Wait()
}

var errSilent = errors.New("the server has been silent for too long")

// heartbeat pings a server that is silent, and drops the connection if it remains so.
func (s *session) heartbeat() {
	cfg, l := &s.client.cfg, s.conn.link
	for {
		if rest := cfg.Idle - l.silence(); rest > 0 {
			if !sleep(s.ctx, rest) {
				return
			}
			continue
		}
		before := l.heard.Load()
		l.ping()
		if !sleep(s.ctx, cfg.IdleTimeout) {
			return
		}
		// Not how long the silence is: a process that was stopped meanwhile may have slept for longer.
		if l.heard.Load() == before {
			l.drop(errSilent)
			return
		}
	}
}

// renew shows the server a newer token whenever most of the present one's time is over.
func (s *session) renew() {
	expires := expiry(s.token)
	for !expires.IsZero() {
		// A clock that goes wrong, or a token that is always the same, must not make this a busy loop.
		if !sleep(s.ctx, max(time.Until(expires)/5*4, time.Second)) {
			return
		}
		pauses := s.client.cfg.backoff()
		for {
			next, err := s.authenticate()
			if err == nil {
				expires = next
				break
			}
			if errors.Is(err, errGiveUp) || !pauses.pause(s.ctx) {
				return
			}
		}
	}
}

// errGiveUp says that the program has no further token: the present one is used up.
var errGiveUp = errors.New("no further token")

// authenticate shows the server a new token and returns when that expires.
func (s *session) authenticate() (time.Time, error) {
	token, err := s.client.cfg.Token(s.ctx)
	if err != nil && errors.Is(err, ErrUnauthorized) {
		return time.Time{}, errGiveUp
	}
	if err != nil {
		return time.Time{}, err
	}
	reply, err := s.conn.Auth(s.ctx, token)
	if err != nil {
		return time.Time{}, err
	}
	if reply.Expires != 0 {
		return time.Unix(reply.Expires, 0), nil
	}
	return expiry(token), nil
}
