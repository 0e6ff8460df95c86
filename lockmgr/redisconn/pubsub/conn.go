package pubsub

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pause"
)

// conn is one connection to one server, with its subscriptions.
//
// After each SUBSCRIBE it sends a PING on the same connection. The answer to that PING makes the subscription active.
// Redis' confirmation is not enough: it could belong to an earlier SUBSCRIBE of the same channel, and a refusal does
// not name the channel. A separate goroutine sends commands, so that no mutex is held during a write.
type conn struct {
	hub     *Hub
	address string
	server  redis.UniversalClient
	ready   chan struct{} // signals that there are commands

	// Used by listen only.
	receivers []*Subscription // of the last message; its memory is reused
	refusal   error           // the last refusal since the last answer to a ping

	// Guarded by hub.mu.
	commands    []command // to be sent
	pings       uint64    // the number of the last ping
	channels    map[string][]*Subscription
	unconfirmed []*Subscription // in order; their pings are not answered yet
	leaving     map[string]int  // by channel: number of our SUNSUBSCRIBEs that are not confirmed yet
}

// command is a SUBSCRIBE or an UNSUBSCRIBE, with a ping after it; without a channel it is only a ping.
type command struct {
	channel string
	off     bool
	ping    uint64 // its number
}

func newConn(h *Hub, address string, server redis.UniversalClient) *conn {
	return &conn{
		hub: h, address: address, server: server, ready: make(chan struct{}, 1),
		channels: make(map[string][]*Subscription), leaving: make(map[string]int),
	}
}

// run uses the connection until it is lost. The hub then gives the subscriptions another connection.
func (c *conn) run() {
	h := c.hub
	ps := c.server.Subscribe(h.life)
	err := ps.Ping(h.life) // connects
	if err == nil {
		err = c.use(ps)
	}
	_ = ps.Close()
	h.mu.Lock()
	delete(h.conns, c.address)
	var subs []*Subscription
	for _, list := range c.channels {
		subs = append(subs, list...)
	}
	h.mu.Unlock()
	h.failed(subs, err)
}

func (c *conn) use(ps *redis.PubSub) error {
	ctx, cancel := context.WithCancel(c.hub.life)
	var unsent error
	var writer sync.WaitGroup
	writer.Go(func() {
		if unsent = c.send(ctx, ps); unsent != nil {
			_ = ps.Close() // if go-redis reconnected by itself, listen would not notice
		}
	})
	err := c.listen(ctx, ps)
	cancel()
	_ = ps.Close()
	writer.Wait()
	if unsent != nil {
		return unsent
	}
	return err
}

// sendLocked queues a command, and returns the number of its ping.
func (c *conn) sendLocked(cmd command) (ping uint64) {
	c.pings++
	cmd.ping = c.pings
	c.commands = append(c.commands, cmd)
	signal(c.ready)
	return cmd.ping
}

// send sends commands until the connection fails, or returns nil when ctx ends.
func (c *conn) send(ctx context.Context, ps *redis.PubSub) error {
	on, off := ps.Subscribe, ps.Unsubscribe
	if c.hub.sharded() {
		on, off = ps.SSubscribe, ps.SUnsubscribe
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.ready:
		}
		c.hub.mu.Lock()
		commands := c.commands
		c.commands = nil
		c.hub.mu.Unlock()
		for _, cmd := range commands {
			var err error
			switch {
			case cmd.off:
				err = off(ctx, cmd.channel)
			case cmd.channel != "":
				err = on(ctx, cmd.channel)
			}
			if err == nil {
				err = ps.Ping(ctx, strconv.FormatUint(cmd.ping, 10))
			}
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				return err
			}
		}
	}
}

// listen handles messages and answers until the connection fails.
func (c *conn) listen(ctx context.Context, ps *redis.PubSub) error {
	// ReceiveTimeout does not end with its context.
	stop := context.AfterFunc(ctx, func() { _ = ps.Close() })
	defer stop()
	silent := false
	for {
		message, err := ps.ReceiveTimeout(ctx, idlePing)
		if isTimeout(err) && !silent {
			silent = true
			c.hub.mu.Lock()
			c.sendLocked(command{})
			c.hub.mu.Unlock()
			continue
		}
		switch {
		case err == nil:
		case c.isRefusal(err):
			c.refusal = err
			continue
		case isTimeout(err) && c.refusal != nil: // the server may have refused the ping itself
			return c.refusal
		default:
			return err
		}
		silent = false
		switch m := message.(type) {
		case *redis.Message:
			for _, s := range c.receiversOf(m.Channel) {
				s.handler.Message(m.Payload)
			}
		case *redis.Pong:
			c.pong(m.Payload)
		case *redis.Subscription:
			if m.Kind == "sunsubscribe" {
				c.dropped(m.Channel)
			}
		}
	}
}

// isRefusal reports whether err is the server's answer to one command, after which the connection goes on.
func (c *conn) isRefusal(err error) bool {
	if to, moved := redis.IsMovedError(err); moved {
		return to != c.address // go-redis reports a server that has changed its address the same way
	}
	return redis.IsPermissionError(err) || redis.IsClusterDownError(err)
}

func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}

// addLocked adds a subscription, and subscribes.
func (c *conn) addLocked(s *Subscription) {
	s.conn = c
	c.channels[s.channel] = append(c.channels[s.channel], s)
	s.unanswered = c.sendLocked(command{channel: s.channel})
	c.unconfirmed = append(c.unconfirmed, s)
}

func (c *conn) removeLocked(s *Subscription) {
	if !c.forgetLocked(s) {
		return
	}
	c.sendLocked(command{channel: s.channel, off: true})
	if c.hub.sharded() {
		c.leaving[s.channel]++
	}
}

// forgetLocked removes a subscription, and reports whether it was the channel's last one.
func (c *conn) forgetLocked(s *Subscription) bool {
	others := slices.DeleteFunc(c.channels[s.channel], func(other *Subscription) bool { return other == s })
	c.channels[s.channel] = others
	if len(others) > 0 {
		return false
	}
	delete(c.channels, s.channel)
	return true
}

// receiversOf returns the active subscriptions of a channel. One that is not active yet gets no message, because
// the message may belong to an earlier one. The slice is valid until the next call.
func (c *conn) receiversOf(channel string) []*Subscription {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	c.receivers = slices.DeleteFunc(append(c.receivers[:0], c.channels[channel]...),
		func(s *Subscription) bool { return s.unanswered != 0 })
	return c.receivers
}

// dropped handles the end of a channel on this server. If no SUNSUBSCRIBE of ours asked for it, the channel's slot
// has moved, and the hub assigns its subscriptions to another server.
func (c *conn) dropped(channel string) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	if n := c.leaving[channel]; n > 1 {
		c.leaving[channel] = n - 1
		return
	} else if n == 1 {
		delete(c.leaving, channel)
		return
	}
	subs := c.channels[channel]
	delete(c.channels, channel)
	c.unconfirmed = slices.DeleteFunc(c.unconfirmed, func(s *Subscription) bool { return slices.Contains(subs, s) })
	for _, s := range subs {
		c.hub.refusedLocked(s, errMoved)
	}
}

// pong handles the answer to a ping. It makes the subscriptions that were sent before that ping active, or
// handles their refusal.
func (c *conn) pong(payload string) {
	answered, err := strconv.ParseUint(payload, 10, 64)
	if err != nil {
		return
	}
	refusal := c.refusal
	c.refusal = nil
	var missed []*Subscription
	isNews := false
	h := c.hub
	h.mu.Lock()
	if refusal != nil {
		clear(c.leaving) // one of these may have been refused, and will never be confirmed
	}
	for _, s := range c.answeredLocked(answered) {
		switch {
		case s.closed:
		case refusal == nil:
			if s.activateLocked() {
				missed = append(missed, s)
			}
		default:
			c.forgetLocked(s)
			refusal = fmt.Errorf("pubsub: subscribe to %q: %w", s.channel, refusal)
			isNews = h.refusedLocked(s, refusal)
		}
	}
	h.mu.Unlock()
	if isNews {
		h.lost(refusal)
	}
	for _, s := range missed {
		if s.handler.Interrupted != nil {
			s.handler.Interrupted()
		}
	}
}

// answeredLocked removes from unconfirmed the subscriptions sent before that ping, and returns them.
func (c *conn) answeredLocked(ping uint64) []*Subscription {
	n := 0
	for n < len(c.unconfirmed) && c.unconfirmed[n].unanswered <= ping {
		n++
	}
	sent := slices.Clone(c.unconfirmed[:n])
	c.unconfirmed = slices.Delete(c.unconfirmed, 0, n)
	return sent
}

// Subscription is one subscriber of one channel. Two subscriptions of the same channel are independent.
type Subscription struct {
	hub     *Hub
	channel string
	handler Handler

	// guarded by hub.mu
	attempt    *attempt      // the one under way, or the one that succeeded
	conn       *conn         // nil without one
	unanswered uint64        // the ping after its SUBSCRIBE; 0 once answered
	refusals   int           // how often servers have refused it since it was active
	denied     pause.Backoff // between attempts while the user lacks the right
	missed     bool          // messages may have been lost since it was made or last active
	closed     bool
}

// attempt is one attempt to make a subscription active.
type attempt struct {
	over chan struct{}
	err  error // written before over is closed
}

func newAttempt() *attempt { return &attempt{over: make(chan struct{})} }

func (a *attempt) end(err error) {
	a.err = err
	close(a.over)
}

// Wait waits until the subscription is active. After it has returned nil, the subscription gets all messages
// published from then on, until the connection is lost. If the current attempt fails, Wait returns its error,
// and the hub tries again. Wait returns [ErrClosed] when the subscription or the hub is closed, and the cause
// of ctx when ctx ends.
func (s *Subscription) Wait(ctx context.Context) error {
	if s.hub.life.Err() != nil {
		return ErrClosed
	}
	s.hub.mu.Lock()
	a := s.attempt
	s.hub.mu.Unlock()
	select {
	case <-a.over:
		return a.err
	case <-s.hub.life.Done():
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// IsActive reports whether the hub believes that the subscription is active; see Wait.
func (s *Subscription) IsActive() bool {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.hub.life.Err() == nil && !s.closed && s.wasActiveLocked()
}

// Close ends the subscription. It does not wait for a running call of the handler.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	if s.conn != nil {
		s.conn.removeLocked(s)
	}
	if s.wasActiveLocked() {
		s.attempt = newAttempt()
	}
	s.attempt.end(ErrClosed)
}

func (s *Subscription) wasActiveLocked() bool {
	select {
	case <-s.attempt.over:
		return true
	default:
		return false
	}
}

// activateLocked ends the attempt with success, and reports whether messages may have been lost before.
func (s *Subscription) activateLocked() (missed bool) {
	missed = s.missed
	s.unanswered, s.refusals, s.missed = 0, 0, false
	s.denied.Reset()
	s.attempt.end(nil)
	return missed
}

// failLocked starts another attempt, because the current one has failed, or the subscription is no longer active.
func (s *Subscription) failLocked(err error) {
	if s.closed {
		return
	}
	if !s.wasActiveLocked() {
		s.attempt.end(err)
	}
	s.attempt = newAttempt()
	s.missed = true
}
