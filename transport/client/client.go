package client

import (
	"context"
	"sync"
	"time"

	"roomd/transport/protocol"
)

// Client is one user who stays connected, made by [Connect]: when the connection ends, the client
// makes another one, to any of its addresses, and brings its rooms back. It is safe for concurrent use.
type Client struct {
	cfg    Config
	status *status
	rooms  *rooms

	ctx        context.Context // ends when Close begins
	stop       context.CancelFunc
	goroutines sync.WaitGroup
}

// Connect connects a user. It returns when the first connection is made, or fails: with what is wrong
// with cfg; with a refusal that would be the same next time, which wraps the server's [protocol.Error]
// or is [ErrUnauthorized]; with the error of [Config.Token]; or with ctx.Err() and why there was no
// connection until then. The end of ctx does nothing once Connect has returned. The caller must Close
// the client.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	c, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	c.goroutines.Go(c.run)
	if err := c.first(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Join makes the user a member of the room, in any free seat. A member who joins again keeps the
// seat. While the client connects again, Join waits, until ctx ends. The error holds a
// [*protocol.Error] if the server refused, is that of Err if the client has ended, or is ctx.Err();
// then the user may have become a member all the same, and Room returns the room.
func (c *Client) Join(ctx context.Context, room string) (*Room, error) {
	return c.enter(ctx, draftJoin(room, nil))
}

// JoinSeat is like Join, but asks for one seat, counted from 0.
func (c *Client) JoinSeat(ctx context.Context, room string, seat int) (*Room, error) {
	return c.enter(ctx, draftJoin(room, &seat))
}

// Watch follows the room without joining it. A member may watch, too, and goes on watching after
// the end of the membership. Errors are as for Join.
func (c *Client) Watch(ctx context.Context, room string) (*Room, error) {
	return c.enter(ctx, draftPlain(protocol.ActionWatch, room))
}

// Room returns the room of which the client is a member, or which it watches, by its id. It is nil
// if there is none.
func (c *Client) Room(id string) *Room { return c.rooms.get(id) }

// Users lists the members of a room, without joining it. Errors are as for Join.
func (c *Client) Users(ctx context.Context, room string) (*protocol.Reply, error) {
	return send(ctx, c, draftPlain(protocol.ActionUsers, room))
}

// Kick makes a user leave the room and tells them why, if why is not empty. A ban keeps the user
// out for that time, also one who is not in the room; it is rounded up to seconds, and 0 means
// that the user may come back at once. Only admins may: the error is [protocol.ErrForbidden] for
// others. Other errors are as for [Room.Set].
func (c *Client) Kick(ctx context.Context, room, user, why string, ban time.Duration) (*protocol.Reply, error) {
	return send(ctx, c, draftKick(room, user, why, ban))
}

// CloseRoom makes everybody leave the room, and lets nobody in. Errors are as for Kick.
func (c *Client) CloseRoom(ctx context.Context, room string) (*protocol.Reply, error) {
	return send(ctx, c, draftPlain(protocol.ActionClose, room))
}

// Configure replaces the room's settings: what is zero in s is so from then on. With a condition
// made by [Expect] it does so only at exactly that version; otherwise the error is a
// [*ConflictError]. Other errors are as for Kick.
func (c *Client) Configure(ctx context.Context, room string, s protocol.Settings, only ...Condition) (*protocol.Reply, error) {
	return send(ctx, c, draftConfigure(room, s, only))
}

// Close leaves all rooms and ends the client. It returns when the client's goroutines have ended.
// Requests that wait, and the rooms, get the error of Err. Closing again does nothing.
func (c *Client) Close() {
	c.stop()
	c.goroutines.Wait()
}
