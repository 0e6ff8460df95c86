package client

import (
	"context"
	"errors"
	"fmt"

	"roomd/transport/protocol"
)

// request sends a request about no room in particular of the client's.
func (c *Client) request(ctx context.Context, req *protocol.Request) (*protocol.Reply, error) {
	return c.do(ctx, req, nil)
}

// enter sends a join or a watch, and returns the room that it leads to.
func (c *Client) enter(ctx context.Context, d draft) (*Room, error) {
	var entered *Room // set by the reading goroutine, before the reply gets here
	w := want{req: d.req, id: d.req.Room, apply: func(reply *protocol.Reply) {
		if reply.Error == nil {
			entered = c.rooms.listed(d.req.Action, reply)
		}
	}}
	if _, err := c.fulfil(ctx, w); err != nil {
		return nil, err
	}
	return entered, nil
}

// do sends a request, of the room if that is not nil, and waits for the reply.
func (c *Client) do(ctx context.Context, req *protocol.Request, room *Room) (*protocol.Reply, error) {
	w := want{req: req, room: room}
	if req.Action == protocol.ActionLeave || req.Action == protocol.ActionUnwatch {
		w.apply = func(reply *protocol.Reply) {
			if reply.Error == nil || reply.Error.Is(protocol.ErrNotMember) {
				c.rooms.left(req.Action, req.Room)
			}
		}
	}
	return c.fulfil(ctx, w)
}

// want is a request that waits for a connection, and for its room to be restored on it.
type want struct {
	req   *protocol.Request
	room  *Room  // must not have ended; may be nil
	id    string // of the room that may begin with the request; otherwise empty
	apply func(*protocol.Reply)
}

// fulfil sends the request until a connection lasts for long enough to bring the reply.
func (c *Client) fulfil(ctx context.Context, w want) (*protocol.Reply, error) {
	for prefix := "not sent: "; ; prefix = "" {
		conn, err := c.ready(ctx, w)
		if err != nil {
			return nil, failed(w.req, fmt.Errorf("%s%w", prefix, err))
		}
		reply, sent, err := conn.link.roundTrip(ctx, w.req, w.apply)
		switch {
		case err == nil:
			return reply, nil
		case !errors.Is(err, ErrClosed):
			return nil, failed(w.req, err)
		case sent && !repeatable(w.req.Action):
			return nil, failed(w.req, fmt.Errorf("%w: %w", errNoReply, err))
		}
	}
}

// errNoReply is for a request that may have been done, or not.
var errNoReply = protocol.NewError(protocol.CodeUnknown, "sent, but no reply came")

// repeatable reports whether a request that may have been done can be sent again.
func repeatable(action string) bool {
	switch action {
	case protocol.ActionJoin, protocol.ActionLeave, protocol.ActionUsers,
		protocol.ActionWatch, protocol.ActionUnwatch, protocol.ActionReady:
		return true
	}
	return false
}

// ready waits for a connection that can take the request.
func (c *Client) ready(ctx context.Context, w want) (*Conn, error) {
	for {
		// The connection is read before the room: a room that is restored then is so on this
		// connection, or on a later one.
		now := c.status.now()
		if now.err != nil {
			return nil, now.err
		}
		restored, err := c.rooms.restored(w.room, w.id)
		if err != nil {
			return nil, err
		}
		if restored && now.conn != nil && now.conn.Err() == nil {
			return now.conn, nil
		}
		select {
		case <-now.changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
