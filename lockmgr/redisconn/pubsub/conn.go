package pubsub

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"
)

// conn is one connection to one server, with its subscriptions.
//
// Behind each SUBSCRIBE it sends a PING on the same connection, and the subscription is
// active when that PING is answered: a confirmation of the SUBSCRIBE itself could be that of
// an earlier one to the same channel. Subscriptions that are made together share a command
// and a PING. If the server refuses one of them it does not say which, so each is then sent
// again by itself. A goroutine of its own sends commands, so that no mutex is held during a
// write.
type conn struct {
	hub     *Hub
	address string
	server  redis.UniversalClient
	outbox  outbox

	// Used by listen only.
	receivers []*Subscription // of the last message
	refusal   error           // of a command since the last answer to a ping

	// Guarded by hub.mu.
	channels    map[string][]*Subscription
	unconfirmed []*Subscription // their pings have not been answered yet; in order
	leaving     map[string]int  // by channel: our SUNSUBSCRIBEs that are not confirmed yet
}

func newConn(h *Hub, address string, server redis.UniversalClient) *conn {
	return &conn{
		hub: h, address: address, server: server, outbox: outbox{ready: make(chan struct{}, 1)},
		channels: make(map[string][]*Subscription), leaving: make(map[string]int),
	}
}

// run uses the connection until it is lost. Then its subscriptions get another one.
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

// use writes and reads until one of them fails.
func (c *conn) use(ps *redis.PubSub) error {
	ctx, cancel := context.WithCancel(c.hub.life)
	var unsent error
	var writer sync.WaitGroup
	writer.Go(func() {
		if unsent = c.send(ctx, ps); unsent != nil {
			_ = ps.Close() // go-redis may have reconnected, and then listen would notice nothing
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
	w := writer{ps, c.hub.sharded()}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.outbox.ready:
		}
		c.hub.mu.Lock()
		commands, last := c.outbox.takeLocked()
		c.hub.mu.Unlock()
		err := w.flush(ctx, commands, last)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
	}
}

// listen calls the handlers for what arrives, until the connection fails.
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
			c.outbox.pingLocked()
			c.hub.mu.Unlock()
			continue
		}
		switch {
		case err == nil:
		case c.isRefusal(err):
			c.refusal = err
			continue
		case isTimeout(err) && c.refusal != nil: // perhaps the ping itself was refused
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

// isRefusal reports whether err is the server's answer to one command: the connection goes
// on.
func (c *conn) isRefusal(err error) bool {
	if to, moved := redis.IsMovedError(err); moved {
		return to != c.address // go-redis reports a server that has changed its address so, too
	}
	return redis.IsPermissionError(err) || redis.IsClusterDownError(err)
}

func isTimeout(err error) bool {
	t, ok := err.(interface{ Timeout() bool })
	return ok && t.Timeout()
}
