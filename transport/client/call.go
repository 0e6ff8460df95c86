package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"roomd/transport/protocol"
)

// call is a request, and where its reply goes.
type call struct {
	req    *protocol.Request
	err    error                 // why it cannot be sent; nil if it can
	room   *Room                 // the call waits until room is restored, and fails if room has ended; may be nil
	enters bool                  // a join or watch: waits until its room is restored, if the client is in that room
	apply  func(*protocol.Reply) // called with the reply by the reading goroutine, before it reads on; may be nil
	answer chan *protocol.Reply  // has room for the reply on the current connection
}

// frame returns the request's frame. It returns an error for text that would be changed on the way, and for a
// frame that is so long that the server would end the connection.
func (k *call) frame() ([]byte, error) {
	type part struct{ field, text string }
	req := k.req
	parts := []part{
		{"room", req.Room}, {"token", req.Token}, {"user", req.User}, {"text", req.Text},
		{"data", string(req.Data)}, {"name", req.Name}, {"to", strings.Join(req.To, ",")},
		{"users", strings.Join(req.Users, ",")}, {"epoch", req.Epoch},
	}
	for _, p := range parts {
		if !utf8.ValidString(p.text) {
			return nil, errors.New(p.field + ": not valid UTF-8")
		}
	}
	frame := protocol.AppendRequest(nil, req)
	if len(frame) > protocol.MaxFrame {
		longest := slices.MaxFunc(parts, func(a, b part) int { return len(a.text) - len(b.text) })
		return nil, fmt.Errorf("%s: makes a frame of %d bytes, the limit is %d", longest.field, len(frame),
			protocol.MaxFrame)
	}
	return frame, nil
}

// failed returns err with the name of the request, or nil if err is nil.
func (k *call) failed(err error) error {
	switch {
	case err == nil:
		return nil
	case k.req.Action == protocol.ActionAuth:
		return fmt.Errorf("client: auth: %w", err)
	case k.req.Room == "":
		return fmt.Errorf("client: %s: %w", k.req.Action, err)
	}
	return fmt.Errorf("client: %s of room %q: %w", k.req.Action, k.req.Room, err)
}

// roundTrip sends a request and waits for its reply. If ctx ends first, the call's apply still gets a later reply,
// because the server has run the request. begun is false if the server has not started it, and never will.
func (c *Conn) roundTrip(ctx context.Context, k *call) (reply *protocol.Reply, begun bool, err error) {
	k.answer = make(chan *protocol.Reply, 1)
	if err := c.post(ctx, k); err != nil {
		return nil, false, fmt.Errorf("not sent: %w", err)
	}
	select {
	case reply = <-k.answer:
	case <-ctx.Done():
		err = ctx.Err()
		if k.apply == nil {
			c.forget(k)
		}
	case <-c.done:
		err = c.Err()
	}
	if reply == nil {
		// A reply that has arrived counts more than the end of the wait.
		select {
		case reply = <-k.answer:
		default:
			return nil, !isRestart(err), err
		}
	}
	switch {
	case reply.Error == nil:
		return reply, true, nil
	case reply.Error.Is(protocol.ErrConflict):
		return nil, true, &ConflictError{reply.Epoch, reply.Version, reply.Data, reply.Error}
	}
	return nil, true, reply.Error
}

// post gives the request its id, and passes it to the writing goroutine.
func (c *Conn) post(ctx context.Context, k *call) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case k.err != nil:
		return k.err
	}
	if err := c.expect(k); err != nil {
		return err
	}
	frame, err := k.frame()
	if err == nil {
		select {
		case c.outgoing <- frame:
			return nil
		case <-ctx.Done():
			err = ctx.Err()
		case <-c.done:
			err = c.Err()
		}
	}
	c.forget(k)
	return err
}

// expect registers the call for its reply.
func (c *Conn) expect(k *call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.lastID++
	k.req.ID = c.lastID
	c.calls[k.req.ID] = k
	return nil
}

func (c *Conn) forget(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, k.req.ID)
}

// deliver applies a reply, and passes it to the request that it answers, if that still waits.
func (c *Conn) deliver(reply *protocol.Reply) {
	if reply.ID == nil {
		return
	}
	c.mu.Lock()
	k, ok := c.calls[*reply.ID]
	delete(c.calls, *reply.ID) // a second reply with the same id must not block the reading goroutine
	c.mu.Unlock()
	if !ok {
		return
	}
	if k.apply != nil {
		k.apply(reply)
	}
	k.answer <- reply
}
