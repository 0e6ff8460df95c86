package pubsub

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// conn is one connection to one server, and what is subscribed there.
//
// That a subscription stands is known by a PING sent behind it on the same
// connection: the confirmation of a SUBSCRIBE could be that of an earlier one to
// the same channel. Commands are sent by a goroutine of their own, so that no
// mutex is held while one is written.
type conn struct {
	hub     *Hub
	address string
	server  redis.UniversalClient
	write   chan struct{}   // says that outbox or pings has changed
	told    []*Subscription // of listen: those whom the last message was for

	// guarded by hub.mu
	channels map[string][]*Subscription
	outbox   []command
	pings    uint64          // the ping that follows all of outbox
	unsure   []*Subscription // those whose ping has not been answered, in order
	leaving  map[string]int  // by channel: how many SUNSUBSCRIBEs of ours are to be confirmed
}

// command is a SUBSCRIBE, or an UNSUBSCRIBE.
type command struct {
	channel string
	off     bool
}

func newConn(h *Hub, address string, server redis.UniversalClient) *conn {
	return &conn{
		hub: h, address: address, server: server, write: make(chan struct{}, 1),
		channels: make(map[string][]*Subscription), leaving: make(map[string]int),
	}
}

func (c *conn) addLocked(s *Subscription) {
	s.conn = c
	others := c.channels[s.channel]
	c.channels[s.channel] = append(others, s)
	if len(others) == 0 {
		c.outbox = append(c.outbox, command{channel: s.channel})
	}
	s.barrier = c.pingLocked()
	c.unsure = append(c.unsure, s)
}

func (c *conn) removeLocked(s *Subscription) {
	left := slices.DeleteFunc(c.channels[s.channel], func(other *Subscription) bool { return other == s })
	if len(left) > 0 {
		c.channels[s.channel] = left
		return
	}
	delete(c.channels, s.channel)
	c.outbox = append(c.outbox, command{channel: s.channel, off: true})
	if c.hub.sharded() {
		c.leaving[s.channel]++
	}
	c.pingLocked()
}

// pingLocked has a ping sent behind all commands, and returns its number.
func (c *conn) pingLocked() uint64 {
	c.pings++
	signal(c.write)
	return c.pings
}

// run uses the connection until it is lost, and then lets its subscriptions look
// for another.
func (c *conn) run() {
	h := c.hub
	ps := c.server.Subscribe(h.life)
	err := ps.Ping(h.life) // dials
	if err == nil {
		ctx, cancel := context.WithCancel(h.life)
		var writer sync.WaitGroup
		writer.Go(func() { c.send(ctx, ps) })
		err = c.listen(ctx, ps)
		cancel()
		_ = ps.Close()
		writer.Wait()
	}
	_ = ps.Close()
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c.address)
	var subs []*Subscription
	for _, list := range c.channels {
		subs = append(subs, list...)
	}
	if h.life.Err() != nil {
		err = ErrClosed
	} else {
		h.lost(err)
	}
	h.retryLocked(subs, err)
}

// send is the connection's writer. If it fails, the reader notices.
func (c *conn) send(ctx context.Context, ps *redis.PubSub) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.write:
		}
		c.hub.mu.Lock()
		commands, ping := c.outbox, c.pings
		c.outbox = nil
		c.hub.mu.Unlock()
		for len(commands) > 0 {
			off, n := commands[0].off, 0
			var channels []string
			for ; n < len(commands) && commands[n].off == off; n++ {
				channels = append(channels, commands[n].channel)
			}
			commands = commands[n:]
			c.subscribe(ctx, ps, off, channels)
		}
		_ = ps.Ping(ctx, strconv.FormatUint(ping, 10))
	}
}

func (c *conn) subscribe(ctx context.Context, ps *redis.PubSub, off bool, channels []string) {
	if !c.hub.sharded() {
		if off {
			_ = ps.Unsubscribe(ctx, channels...)
		} else {
			_ = ps.Subscribe(ctx, channels...)
		}
		return
	}
	for _, channel := range channels { // of one slot at a time
		if off {
			_ = ps.SUnsubscribe(ctx, channel)
		} else {
			_ = ps.SSubscribe(ctx, channel)
		}
	}
}

// listen passes on what comes until the connection fails.
func (c *conn) listen(ctx context.Context, ps *redis.PubSub) error {
	// Receive has no way of its own to end with a context.
	stop := context.AfterFunc(ctx, func() { _ = ps.Close() })
	defer stop()
	silent := false
	for {
		message, err := ps.ReceiveTimeout(ctx, idlePing)
		if isTimeout(err) && !silent {
			silent = true
			c.hub.mu.Lock()
			c.pingLocked()
			c.hub.mu.Unlock()
			continue
		}
		if _, moved := redis.IsMovedError(err); moved {
			c.refused(err)
			continue
		}
		if err != nil {
			return err
		}
		silent = false
		switch m := message.(type) {
		case *redis.Message:
			for _, s := range c.standing(m.Channel) {
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

// standing returns the subscriptions of a channel that stand; messages for
// others belong to an earlier subscription. The slice is good until the next call.
func (c *conn) standing(channel string) []*Subscription {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	c.told = slices.DeleteFunc(append(c.told[:0], c.channels[channel]...), func(s *Subscription) bool { return s.barrier != 0 })
	return c.told
}

// dropped looks for another server for a channel that this one has unsubscribed by
// itself, as it does when the channel's slot leaves it.
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
	c.unsure = slices.DeleteFunc(c.unsure, func(s *Subscription) bool { return slices.Contains(subs, s) })
	c.hub.moveLocked(subs, errMoved)
}

// refused looks for other servers for all channels that do not stand yet: the slot
// of one of them is not here, and the server does not say which.
func (c *conn) refused(err error) {
	c.hub.mu.Lock()
	defer c.hub.mu.Unlock()
	clear(c.leaving) // one of these may be what was refused, and not be confirmed
	subs := slices.DeleteFunc(c.unsure, func(s *Subscription) bool { return s.closed })
	c.unsure = nil
	for _, s := range subs {
		c.removeLocked(s)
	}
	c.hub.moveLocked(subs, err)
}

// pong says of the subscriptions sent before that ping that they stand.
func (c *conn) pong(payload string) {
	answered, err := strconv.ParseUint(payload, 10, 64)
	if err != nil {
		return
	}
	var again []*Subscription
	c.hub.mu.Lock()
	n := 0
	for ; n < len(c.unsure) && c.unsure[n].barrier <= answered; n++ {
		s := c.unsure[n]
		s.barrier = 0
		switch {
		case s.closed:
		case s.stoodLocked():
			again = append(again, s)
		default:
			close(s.ready)
		}
	}
	c.unsure = slices.Delete(c.unsure, 0, n)
	c.hub.mu.Unlock()
	for _, s := range again {
		if s.handler.Interrupted != nil {
			s.handler.Interrupted()
		}
	}
}

func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}
