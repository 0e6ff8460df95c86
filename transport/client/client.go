package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"roomd/room"
	"roomd/transport/protocol"
)

// Client is one user who stays connected, made by [Connect]: when the connection ends, the client
// makes another one, to any of its addresses, and brings its rooms back. It is safe for concurrent use.
type Client struct {
	cfg        Config
	ctx        context.Context // ends when Close begins
	stop       context.CancelFunc
	done       chan struct{} // closed when the client is Lost
	goroutines sync.WaitGroup

	mu       sync.Mutex // guards the rest, and what is in the rooms
	state    State
	degraded bool             // the server of the present connection, or of the one being made, says that it is
	session  *session         // on the present connection, nil if there is none
	last     error            // why the last attempt to connect failed
	err      error            // why the client is Lost
	rooms    map[string]*Room // by id: those that have not ended
	user     string           // the client's own name as the server writes it, once it is known
	changed  chan struct{}    // closed with the next change of the above, or of a room's being restored
}

// Connect connects a user. It returns when the first connection is made, or fails: with what is wrong with cfg; with
// a refusal that would be the same next time, which wraps the server's [protocol.Error] or is [ErrUnauthorized]; with
// the error of [Config.Token]; or with ctx.Err() and why there was no connection until then: it goes on trying until
// ctx ends, and tells [Config.OnUnreachable]. The end of ctx does nothing once Connect has returned. The caller must
// Close the client.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c := &Client{cfg: cfg, done: make(chan struct{}), rooms: make(map[string]*Room), changed: make(chan struct{})}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.goroutines.Go(c.run)
	if err := c.connected(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// connected waits for the first connection.
func (c *Client) connected(ctx context.Context) error {
	var state State
	var last error
	err := c.await(ctx, func() bool {
		state, last = c.state, c.last
		return state != Connecting
	})
	switch {
	case err == nil && state == Lost:
		return last
	case err == nil:
		return nil
	case last != nil:
		err = fmt.Errorf("%w: %w", err, last)
	}
	return fmt.Errorf("client: not connected: %w", err)
}

// await waits until a condition, which looks at what the client's mutex guards, is true, or ctx ends.
func (c *Client) await(ctx context.Context, condition func() bool) error {
	for {
		c.mu.Lock()
		is, changed := condition(), c.changed
		c.mu.Unlock()
		if is {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Join makes the user a member of the room, in any free seat. A member who joins again keeps the
// seat. While the client connects again, Join waits, until ctx ends. The error holds a
// [*protocol.Error] if the server refused, is that of Err if the client has ended, or is ctx.Err();
// then the user may have become a member all the same, and Room returns the room.
func (c *Client) Join(ctx context.Context, room string) (*Room, error) {
	return c.enter(ctx, joinCall(room, nil))
}

// JoinSeat is like Join, but asks for one seat, counted from 0.
func (c *Client) JoinSeat(ctx context.Context, room string, seat int) (*Room, error) {
	return c.enter(ctx, joinCall(room, &seat))
}

// JoinHistory is like Join, and asks for up to n of the last messages that the room has kept, as its settings say. The
// first iteration over the room's changes has them behind the snapshot with which it begins, each with the version at
// which it was said, and all that is said until it begins. It does nothing for who is a member, or watches, already.
func (c *Client) JoinHistory(ctx context.Context, room string, n int) (*Room, error) {
	return c.enter(ctx, historyCall(protocol.ActionJoin, room, n))
}

// Match makes the user a member of a room that has the labels, perhaps among others, and a free seat: the fullest
// there is; or, if there is none, of a new one with these settings, whose labels are those that are looked for. The
// error is as for Join; no room is full.
func (c *Client) Match(ctx context.Context, labels map[string]string, begin room.Settings) (*Room, error) {
	return c.enter(ctx, matchCall(labels, begin))
}

// Watch follows the room without joining it. A member may watch, too, and goes on watching after
// the end of the membership. Errors are as for Join.
func (c *Client) Watch(ctx context.Context, room string) (*Room, error) {
	return c.enter(ctx, plainCall(protocol.ActionWatch, room))
}

// WatchHistory is like Watch, and asks for messages of before, as JoinHistory does.
func (c *Client) WatchHistory(ctx context.Context, room string, n int) (*Room, error) {
	return c.enter(ctx, historyCall(protocol.ActionWatch, room, n))
}

// Room returns the room of which the client is a member, or which it watches, by its id. It is nil
// if there is none.
func (c *Client) Room(id string) *Room {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.rooms[id]; r != nil && r.replica.known() {
		return r
	}
	return nil // also while all that is known of the room is that the user was moved there
}

// Users lists the members of a room, without joining it. Errors are as for Join.
func (c *Client) Users(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.do(ctx, plainCall(protocol.ActionUsers, room))
}

// Kick makes a user leave the room and tells them why, if why is not empty. A ban keeps the user
// out for that time, also one who is not in the room; it is rounded up to seconds, and 0 means
// that the user may come back at once. Only admins may, and the host of the room: the error is
// [protocol.ErrForbidden] for others. Other errors are as for [Room.Set].
func (c *Client) Kick(ctx context.Context, room, user, why string, ban time.Duration) (*protocol.Reply, error) {
	return c.do(ctx, kickCall(room, user, why, ban))
}

// Swap has two members of the room exchange their seats. Errors are as for Kick.
func (c *Client) Swap(ctx context.Context, room, one, other string) (*protocol.Reply, error) {
	return c.do(ctx, swapCall(room, one, other))
}

// Shuffle gives each member of the room the seat of another one, at random. Errors are as for Kick.
func (c *Client) Shuffle(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.do(ctx, plainCall(protocol.ActionShuffle, room))
}

// CloseRoom makes everybody leave the room, and lets nobody in. Errors are as for Kick.
func (c *Client) CloseRoom(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.do(ctx, plainCall(protocol.ActionClose, room))
}

// Configure replaces the room's settings: what is zero in s is so from then on. With a condition
// made by [Expect] it does so only at exactly that version; otherwise the error is a
// [*ConflictError]. The host may not change each of the settings. Other errors are as for Kick.
func (c *Client) Configure(ctx context.Context, room string, s room.Settings,
	only ...Condition) (*protocol.Reply, error) {
	return c.do(ctx, configureCall(room, s, only))
}

// SetPrivateOf replaces the private data of a member of the room, as [Room.SetPrivate] does those of the user. Errors
// are as for Kick.
func (c *Client) SetPrivateOf(ctx context.Context, room, user string, data any,
	only ...Condition) (*protocol.Reply, error) {
	return c.do(ctx, setPrivateCall(room, user, data, only))
}

// Txn does several things in one version, all or none: 1 to [protocol.MaxTxn] requests with the actions set, timer,
// say, kick, swap, shuffle, configure and close, which have neither id nor room, and expect nothing. With a condition
// made by [Expect] they are done only if neither the room's data nor a timer has changed since. Only admins may: the
// error is [protocol.ErrForbidden] for others, and otherwise as for [Room.Set].
func (c *Client) Txn(ctx context.Context, room string, actions []protocol.Request,
	only ...Condition) (*protocol.Reply, error) {
	return c.do(ctx, txnCall(room, actions, only))
}

// Close leaves all rooms and ends the client. It returns when the client's goroutines have ended.
// Requests that wait, and the rooms, get the error of Err. Closing again does nothing.
func (c *Client) Close() {
	c.stop()
	c.goroutines.Wait()
}

// enter sends a join or a watch, and returns the room that it leads to.
func (c *Client) enter(ctx context.Context, k *call) (*Room, error) {
	var entered *Room // set by the reading goroutine, before the reply gets here
	k.enters = true
	k.apply = c.locked(func(reply *protocol.Reply) {
		if reply.Error == nil {
			entered = c.openLocked(reply.Room)
			if k.req.History != nil {
				entered.replica.keep()
			}
			entered.enteredLocked(k.req.Action, reply)
		}
	})
	if _, err := c.do(ctx, k); err != nil {
		return nil, err
	}
	return entered, nil
}

// locked returns a function that takes a reply over with the mutex held, and wakes requests that wait
// for the room.
func (c *Client) locked(apply func(*protocol.Reply)) func(*protocol.Reply) {
	return func(reply *protocol.Reply) {
		c.mu.Lock()
		defer c.mu.Unlock()
		apply(reply)
		c.notifyLocked()
	}
}

// do sends a request, again until a connection lasts for long enough to bring the reply, and the server does not say
// that it comes too fast.
func (c *Client) do(ctx context.Context, k *call) (*protocol.Reply, error) {
	tries := 0
	for prefix := "not sent: "; ; prefix = "" {
		s, err := c.ready(ctx, k)
		if err != nil {
			return nil, k.failed(fmt.Errorf("%s%w", prefix, err))
		}
		reply, begun, again, err := s.ask(ctx, k)
		switch {
		case again && tries+1 < rateTries:
			tries++
		case !errors.Is(err, ErrClosed): // nil, for instance
			return reply, k.failed(err)
		case begun && !protocol.ActionNamed(k.req.Action).Repeats:
			return nil, k.failed(fmt.Errorf("%w: %w", errNoReply, err))
		}
	}
}

// errNoReply is for a request that may have been done, or not.
var errNoReply = protocol.NewError(protocol.CodeUnknown, "sent, but no reply came")

// ready waits for a session that can take the request, which goes to its ask.
func (c *Client) ready(ctx context.Context, k *call) (s *session, err error) {
	waited := c.await(ctx, func() bool {
		s, err = c.readyLocked(k)
		return s != nil || err != nil
	})
	return s, cmp.Or(err, waited)
}

// readyLocked returns the session that can take the request, or nil if there is none now. The
// error says why there never will be one.
func (c *Client) readyLocked(k *call) (*session, error) {
	r := k.room
	switch {
	case k.err != nil:
		return nil, k.err
	case c.err != nil:
		return nil, c.err
	case r != nil && r.err != nil:
		return nil, r.err
	case c.session == nil, c.session.conn.Err() != nil, r != nil && r.awaitsSnapshotLocked():
		return nil, nil
	case k.enters, protocol.ActionNamed(k.req.Action).Host: // the host does it as a member
		r = c.rooms[k.req.Room]
	}
	if r != nil && !r.restoredLocked() || !c.session.mayAskLocked() {
		return nil, nil
	}
	return c.session, nil
}
