package client

import (
	"sync"

	"roomd/transport/protocol"
)

// calls are the requests of a connection that wait for their replies, and how the connection
// ended.
type calls struct {
	done chan struct{} // closed when err is set

	mu      sync.Mutex
	lastID  int64          // guarded by mu: of the newest request
	waiting map[int64]call // guarded by mu: by request id
	err     *CloseError    // guarded by mu: why the connection ended; nil while it is open
}

// call is what becomes of a reply.
type call struct {
	apply  func(*protocol.Reply)  // called first, by the reading goroutine; may be nil
	answer chan<- *protocol.Reply // has room for the reply; nil if nobody waits any more
}

func newCalls() *calls {
	return &calls{done: make(chan struct{}), waiting: make(map[int64]call)}
}

// add gives the request its id.
func (c *calls) add(req *protocol.Request, k call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.lastID++
	req.ID = c.lastID
	c.waiting[req.ID] = k
	return nil
}

func (c *calls) remove(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}

// abandon records that nobody waits for the reply any more. What the reply says is applied all the
// same, because the server did it.
func (c *calls) abandon(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.waiting[id]
	if k.answer = nil; ok && k.apply != nil {
		c.waiting[id] = k
		return
	}
	delete(c.waiting, id)
}

// deliver applies a reply, and hands it to the request it answers, if that still waits.
func (c *calls) deliver(reply *protocol.Reply) {
	if reply.ID == nil {
		return
	}
	c.mu.Lock()
	k, ok := c.waiting[*reply.ID]
	delete(c.waiting, *reply.ID) // a second reply with the id must not block the reading
	c.mu.Unlock()
	if !ok {
		return
	}
	if k.apply != nil {
		k.apply(reply)
	}
	if k.answer != nil {
		k.answer <- reply
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
