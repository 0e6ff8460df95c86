package client

import (
	"context"
	"fmt"
	"sync"

	"roomd/transport/protocol"
)

// calls are the requests of a connection that wait for their replies, and how the connection
// ended.
type calls struct {
	done chan struct{} // closed when err is set

	mu      sync.Mutex
	lastID  int64                            // guarded by mu: of the newest request
	waiting map[int64]chan<- *protocol.Reply // guarded by mu: by request id; each channel has room for its reply
	err     *CloseError                      // guarded by mu: why the connection ended; nil while it is open
}

func newCalls() *calls {
	return &calls{done: make(chan struct{}), waiting: make(map[int64]chan<- *protocol.Reply)}
}

// add gives the request its id, under which its reply goes to answer.
func (c *calls) add(req *protocol.Request, answer chan<- *protocol.Reply) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.lastID++
	req.ID = c.lastID
	c.waiting[req.ID] = answer
	return nil
}

func (c *calls) remove(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

// deliver hands a reply to the request it answers, if that still waits.
func (c *calls) deliver(reply *protocol.Reply) {
	if reply.ID == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if answer, ok := c.waiting[*reply.ID]; ok {
		// The channel has room for one: a second reply with the id must not block the reading.
		delete(c.waiting, *reply.ID)
		answer <- reply
	}
}

// end records why the connection ended, and wakes all who wait.
func (c *calls) end(why *CloseError) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = why
	close(c.done)
}

// cause returns why the connection ended, or nil while it is open.
func (c *calls) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return nil
	}
	return c.err
}

// roundTrip sends a request and waits for its reply.
func (l *link) roundTrip(ctx context.Context, req *protocol.Request) (*protocol.Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("not sent: %w", err)
	}
	if err := checkText(req); err != nil {
		return nil, fmt.Errorf("not sent: %w", err)
	}
	answer := make(chan *protocol.Reply, 1)
	if err := l.calls.add(req, answer); err != nil {
		return nil, fmt.Errorf("not sent: %w", err)
	}
	defer l.calls.remove(req.ID)

	frame := protocol.AppendRequest(nil, req)
	if len(frame) > protocol.MaxFrame {
		// The server would end the connection.
		return nil, fmt.Errorf("not sent: %s: makes a frame of %d bytes, the limit is %d",
			longest(req), len(frame), protocol.MaxFrame)
	}
	select {
	case l.outgoing <- frame:
	case <-ctx.Done():
		return nil, fmt.Errorf("not sent: %w", ctx.Err())
	case <-l.calls.done:
		return nil, fmt.Errorf("not sent: %w", l.calls.cause())
	}

	var ended error
	select {
	case reply := <-answer:
		return result(reply)
	case <-ctx.Done():
		ended = ctx.Err()
	case <-l.calls.done:
		ended = l.calls.cause()
	}
	// An answer that has come says more than how the wait ended.
	select {
	case reply := <-answer:
		return result(reply)
	default:
		return nil, ended
	}
}
