package pubsub

import (
	"context"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"
)

// conn is one connection to one server, and what is subscribed there.
//
// That a subscription stands is known by a PING sent behind it on the same
// connection: the confirmation of a SUBSCRIBE could be that of an earlier one to
// the same channel. Subscriptions that are made together share a command and a PING;
// if one of them is refused the server does not say which, and each is sent again by
// itself. Commands are sent by a goroutine of their own, so that no mutex is held
// while one is written.
type conn struct {
	hub     *Hub
	address string
	server  redis.UniversalClient
	write   chan struct{}   // says that outbox or pings has changed
	told    []*Subscription // of listen: those whom the last message was for
	refusal error           // of listen: of a command since the last answer to a ping

	// guarded by hub.mu
	channels map[string][]*Subscription
	outbox   []command
	pings    uint64          // the last one that was asked for
	unsure   []*Subscription // those whose ping has not been answered, in order
	leaving  map[string]int  // by channel: how many SUNSUBSCRIBEs of ours are to be confirmed
}

// command is a SUBSCRIBE, or an UNSUBSCRIBE.
type command struct {
	channel string
	off     bool
	alone   bool   // it is sent by itself
	ping    uint64 // is sent behind it, or behind a later one that is sent with it
}

func newConn(h *Hub, address string, server redis.UniversalClient) *conn {
	return &conn{
		hub: h, address: address, server: server, write: make(chan struct{}, 1),
		channels: make(map[string][]*Subscription), leaving: make(map[string]int),
	}
}

// run uses the connection until it is lost, and then lets its subscriptions look
// for another.
func (c *conn) run() {
	h := c.hub
	ps := c.server.Subscribe(h.life)
	err := ps.Ping(h.life) // dials
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

// use writes and reads until one of them fails.
func (c *conn) use(ps *redis.PubSub) error {
	ctx, cancel := context.WithCancel(c.hub.life)
	var unsent error
	var writer sync.WaitGroup
	writer.Go(func() {
		if unsent = c.send(ctx, ps); unsent != nil {
			_ = ps.Close() // go-redis has connected again, and nobody would notice
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

// send is the connection's writer. It returns nil if ctx ends.
func (c *conn) send(ctx context.Context, ps *redis.PubSub) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.write:
		}
		c.hub.mu.Lock()
		commands, last := c.outbox, c.pings
		c.outbox = nil
		c.hub.mu.Unlock()
		err := c.flush(ctx, ps, commands, last)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
	}
}

// flush sends commands, with a ping behind each, and the last ping if that is
// another one.
func (c *conn) flush(ctx context.Context, ps *redis.PubSub, commands []command, last uint64) error {
	sent := uint64(0)
	for len(commands) > 0 {
		n := together(commands)
		sent = commands[n-1].ping
		if err := c.subscribe(ctx, ps, commands[:n]); err != nil {
			return err
		}
		if err := ping(ctx, ps, sent); err != nil {
			return err
		}
		commands = commands[n:]
	}
	if sent < last {
		return ping(ctx, ps, last)
	}
	return nil
}

func ping(ctx context.Context, ps *redis.PubSub, number uint64) error {
	return ps.Ping(ctx, strconv.FormatUint(number, 10))
}

// together returns how many of the next commands may be sent as one.
func together(commands []command) int {
	n := 1
	for n < len(commands) && commands[n].off == commands[0].off && !commands[n].alone && !commands[0].alone {
		n++
	}
	return n
}

// subscribe sends commands of one kind.
func (c *conn) subscribe(ctx context.Context, ps *redis.PubSub, commands []command) error {
	send := ps.Subscribe
	switch off, sharded := commands[0].off, c.hub.sharded(); {
	case off && sharded:
		send = ps.SUnsubscribe
	case sharded:
		send = ps.SSubscribe
	case off:
		send = ps.Unsubscribe
	}
	var channels []string
	for _, command := range commands {
		channels = append(channels, command.channel)
	}
	if !c.hub.sharded() {
		return send(ctx, channels...)
	}
	for _, channel := range channels { // of one slot at a time
		if err := send(ctx, channel); err != nil {
			return err
		}
	}
	return nil
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
		switch {
		case err == nil:
		case c.isRefusal(err):
			c.refusal = err
			continue
		case isTimeout(err) && c.refusal != nil: // that may have been of the ping
			return c.refusal
		default:
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

// isRefusal reports whether err is a server's answer to one command, and not the end
// of the connection.
func (c *conn) isRefusal(err error) bool {
	if to, moved := redis.IsMovedError(err); moved {
		return to != c.address // of its own address go-redis thinks that it has changed
	}
	return redis.IsPermissionError(err) || redis.IsClusterDownError(err)
}

func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}
