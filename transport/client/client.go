package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

// Client is one connection of one user, made by [Dial]. Its methods may be called from any
// goroutine, except that those which wait must not be called from the callbacks in [Options].
type Client struct {
	conn *websocket.Conn
	opts Options

	outgoing   chan []byte    // frames for the writing goroutine
	done       chan struct{}  // closed by the reading goroutine, together with setting err
	closeOnce  sync.Once      // only the first Close sends a close frame
	goroutines sync.WaitGroup // the two that run

	mu      sync.Mutex                       // guards what follows
	lastID  int64                            // of the newest request
	waiting map[int64]chan<- *protocol.Reply // by request id; each channel has room for its reply
	cut     error                            // why this side cut the connection, nil if it did not
	err     *CloseError                      // why the connection ended; nil as long as done is open
}

// start takes over conn.
func start(conn *websocket.Conn, opts Options) *Client {
	c := &Client{
		conn:     conn,
		opts:     opts,
		outgoing: make(chan []byte),
		done:     make(chan struct{}),
		waiting:  make(map[int64]chan<- *protocol.Reply),
	}
	conn.SetReadLimit(ReadLimit)
	conn.SetPingHandler(c.pong)
	c.goroutines.Go(c.read)
	c.goroutines.Go(c.write)
	return c
}

// Join makes the user a member of the room, in any free seat, and tells who is in it. A member who
// joins again keeps the seat. Events of the room follow from then on.
//
// For this and the other requests: the reply is shared with OnReply and must not be changed. The
// error holds a [*protocol.Error] if the server refused; a [*CloseError], which is [ErrClosed], if
// the connection has ended; or ctx.Err(). After the last two the request may or may not have been
// carried out, unless the text says that it was not sent. A reply that comes after ctx has ended
// goes to OnReply alone.
func (c *Client) Join(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.request(ctx, &protocol.Request{Action: protocol.ActionJoin, Room: room})
}

// JoinSeat is like Join, but asks for one seat, counted from 0.
func (c *Client) JoinSeat(ctx context.Context, room string, seat int) (*protocol.Reply, error) {
	return c.request(ctx, &protocol.Request{Action: protocol.ActionJoin, Room: room, Seat: &seat})
}

// Leave gives the user's seat in the room back. Replies and errors are as for Join.
func (c *Client) Leave(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.request(ctx, &protocol.Request{Action: protocol.ActionLeave, Room: room})
}

// Users tells who is in the room, without joining it. Replies and errors are as for Join.
func (c *Client) Users(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.request(ctx, &protocol.Request{Action: protocol.ActionUsers, Room: room})
}

// Watch is like Users, and the room's events follow from then on, without joining it.
func (c *Client) Watch(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.request(ctx, &protocol.Request{Action: protocol.ActionWatch, Room: room})
}

// Unwatch ends Watch, also if the user does not watch. A member goes on getting the room's events.
// Replies and errors are as for Join; the reply has no list.
func (c *Client) Unwatch(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.request(ctx, &protocol.Request{Action: protocol.ActionUnwatch, Room: room})
}

func (c *Client) request(ctx context.Context, req *protocol.Request) (*protocol.Reply, error) {
	reply, err := c.roundTrip(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("client: %s of room %q: %w", req.Action, req.Room, err)
	}
	return reply, nil
}

func (c *Client) roundTrip(ctx context.Context, req *protocol.Request) (*protocol.Reply, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("not sent: %w", err)
	}
	if !utf8.ValidString(req.Room) {
		return nil, errors.New("not sent: room: not valid UTF-8")
	}
	answer := make(chan *protocol.Reply, 1)
	if err := c.enroll(req, answer); err != nil {
		return nil, fmt.Errorf("not sent: %w", err)
	}
	defer c.withdraw(req.ID)

	frame := protocol.AppendRequest(nil, req)
	if len(frame) > protocol.MaxFrame {
		// The server would end the connection.
		return nil, fmt.Errorf("not sent: room: makes a frame of %d bytes, the limit is %d",
			len(frame), protocol.MaxFrame)
	}
	select {
	case c.outgoing <- frame:
	case <-ctx.Done():
		return nil, fmt.Errorf("not sent: %w", ctx.Err())
	case <-c.done:
		return nil, fmt.Errorf("not sent: %w", c.Err())
	}

	var ended error
	select {
	case reply := <-answer:
		return result(reply)
	case <-ctx.Done():
		ended = ctx.Err()
	case <-c.done:
		ended = c.Err()
	}
	// An answer that has come is worth more than how the waiting ended.
	select {
	case reply := <-answer:
		return result(reply)
	default:
		return nil, ended
	}
}

func result(reply *protocol.Reply) (*protocol.Reply, error) {
	if reply.Error != nil {
		return nil, reply.Error
	}
	return reply, nil
}

// enroll gives the request its id and makes its reply go to answer.
func (c *Client) enroll(req *protocol.Request, answer chan<- *protocol.Reply) error {
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

func (c *Client) withdraw(id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.waiting, id)
}
