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

// Client is a user who stays connected, made by [Connect]. When the connection ends, the client makes another
// one, to any of its addresses, and restores its rooms. It is safe for concurrent use.
type Client struct {
	cfg        Config
	ctx        context.Context // cancelled when Close is called
	stop       context.CancelFunc
	done       chan struct{} // closed when the client is Lost
	goroutines sync.WaitGroup

	mu       sync.Mutex // guards the fields below, and the rooms' state
	state    State
	degraded bool             // the server says that it is degraded
	session  *session         // on the current connection, or nil
	last     error            // why the last attempt to connect failed
	err      error            // why the client is Lost
	rooms    map[string]*Room // by id: rooms that have not ended
	user     string           // the user's name in the server's spelling, once known
	changed  chan struct{}    // closed when a field above changes, or a room is restored
}

// Connect connects a user. It returns when the first connection is made. It fails if cfg is wrong; if the
// server refuses for good, with an error that wraps the server's [protocol.Error] or is [ErrUnauthorized]; and
// with the error of [Config.Token]. Otherwise it tries until ctx ends, and tells [Config.OnUnreachable]; then
// the error is ctx.Err() with the last failure. Once Connect has returned, ctx no longer matters. The caller
// must Close the client.
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

// await waits until condition returns true, or ctx ends. condition runs with the client's mutex held.
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

// Join makes the user a member of the room, in any free seat. A member that joins again keeps its seat. While
// the client reconnects, Join waits until ctx ends. The error holds a [*protocol.Error] if the server refused,
// is that of Err if the client has ended, or is ctx.Err(). After ctx.Err() the user may still become a member;
// then Room returns the room.
func (c *Client) Join(ctx context.Context, room string) (*Room, error) {
	return c.enter(ctx, joinCall(room, nil))
}

// JoinSeat is like Join, but asks for one seat, counted from 0.
func (c *Client) JoinSeat(ctx context.Context, room string, seat int) (*Room, error) {
	return c.enter(ctx, joinCall(room, &seat))
}

// JoinHistory is like Join, and asks for up to n of the last messages that the room has kept according to its
// settings. The first iteration over the room's changes yields them after its first snapshot, each with the
// version at which it was said, and then the messages since. JoinHistory adds nothing for a client that is
// already a member, or watches.
func (c *Client) JoinHistory(ctx context.Context, room string, n int) (*Room, error) {
	return c.enter(ctx, historyCall(protocol.ActionJoin, room, n))
}

// Match makes the user a member of a room that has these labels, among others, and a free seat: the fullest
// such room. If there is none, Match creates a room with the settings of begin and exactly these labels. Errors
// are as for Join; no room is full.
func (c *Client) Match(ctx context.Context, labels map[string]string, begin room.Settings) (*Room, error) {
	return c.enter(ctx, matchCall(labels, begin))
}

// Watch follows the room without joining it. A member may watch, too, and goes on watching when the membership
// ends. Errors are as for Join.
func (c *Client) Watch(ctx context.Context, room string) (*Room, error) {
	return c.enter(ctx, plainCall(protocol.ActionWatch, room))
}

// WatchHistory is like Watch, and asks for earlier messages, as JoinHistory does.
func (c *Client) WatchHistory(ctx context.Context, room string, n int) (*Room, error) {
	return c.enter(ctx, historyCall(protocol.ActionWatch, room, n))
}

// Room returns the room with that id if the client is a member of it or watches it, otherwise nil.
func (c *Client) Room(id string) *Room {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.rooms[id]; r != nil && r.replica.known() {
		return r
	}
	return nil // no room yet: the user was moved there, and no snapshot has come
}

// Users lists the members of a room, without joining it. Errors are as for Join.
func (c *Client) Users(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.do(ctx, plainCall(protocol.ActionUsers, room))
}

// Kick removes a user from the room and tells the user why, if why is not empty. A ban keeps the user out for
// that time, even a user who is not in the room. It is rounded up to seconds; with 0 the user may come back at
// once. Only admins and the room's host may kick: others get [protocol.ErrForbidden]. Other errors are as for
// [Room.Set].
func (c *Client) Kick(ctx context.Context, room, user, why string, ban time.Duration) (*protocol.Reply, error) {
	return c.do(ctx, kickCall(room, user, why, ban))
}

// Swap exchanges the seats of two members of the room. Errors are as for Kick.
func (c *Client) Swap(ctx context.Context, room, one, other string) (*protocol.Reply, error) {
	return c.do(ctx, swapCall(room, one, other))
}

// Shuffle permutes the seats of the room's members at random. Errors are as for Kick.
func (c *Client) Shuffle(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.do(ctx, plainCall(protocol.ActionShuffle, room))
}

// CloseRoom removes all members from the room, and keeps everybody out. Errors are as for Kick.
func (c *Client) CloseRoom(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.do(ctx, plainCall(protocol.ActionClose, room))
}

// Configure replaces all settings of the room, including those that are zero in s. With a condition made by
// [Expect], the room must still have exactly that version; otherwise the error is a [*ConflictError]. The host
// may not change all of the settings. Other errors are as for Kick.
func (c *Client) Configure(ctx context.Context, room string, s room.Settings,
	only ...Condition) (*protocol.Reply, error) {
	return c.do(ctx, configureCall(room, s, only))
}

// SetPrivateOf replaces the private data of a member, as [Room.SetPrivate] does for the user's own. Errors are
// as for Kick.
func (c *Client) SetPrivateOf(ctx context.Context, room, user string, data any,
	only ...Condition) (*protocol.Reply, error) {
	return c.do(ctx, setPrivateCall(room, user, data, only))
}

// Txn does several actions in one version, all or none: 1 to [protocol.MaxTxn] requests with the actions set,
// timer, say, kick, swap, shuffle, configure and close, without id, room and expect. With a condition made by
// [Expect], Txn requires that neither the room's data nor a timer has changed since that version. Only admins
// may: others get [protocol.ErrForbidden]. Other errors are as for [Room.Set].
func (c *Client) Txn(ctx context.Context, room string, actions []protocol.Request,
	only ...Condition) (*protocol.Reply, error) {
	return c.do(ctx, txnCall(room, actions, only))
}

// Close leaves all rooms and ends the client. It returns when the client's goroutines have ended. Waiting
// requests and the rooms get the error of Err. Closing again does nothing.
func (c *Client) Close() {
	c.stop()
	c.goroutines.Wait()
}

// enter sends a join or a watch, and returns the room that the server names.
func (c *Client) enter(ctx context.Context, k *call) (*Room, error) {
	var entered *Room // set by the reading goroutine before the reply arrives
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

// locked returns apply with the mutex held, followed by a wake-up of requests that wait for the room.
func (c *Client) locked(apply func(*protocol.Reply)) func(*protocol.Reply) {
	return func(reply *protocol.Reply) {
		c.mu.Lock()
		defer c.mu.Unlock()
		apply(reply)
		c.notifyLocked()
	}
}

// do sends a request, and repeats it after a lost connection if that does no harm. It also repeats a request
// that the server refused because too many came at once.
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
		case !errors.Is(err, ErrClosed): // err may be nil
			return reply, k.failed(err)
		case begun && !protocol.ActionNamed(k.req.Action).Repeats:
			return nil, k.failed(fmt.Errorf("%w: %w", errNoReply, err))
		}
	}
}

// errNoReply is for a request that the server may have carried out.
var errNoReply = protocol.NewError(protocol.CodeUnknown, "sent, but no reply came")

// ready waits for a session that can send the request by ask.
func (c *Client) ready(ctx context.Context, k *call) (s *session, err error) {
	waited := c.await(ctx, func() bool {
		s, err = c.readyLocked(k)
		return s != nil || err != nil
	})
	return s, cmp.Or(err, waited)
}

// readyLocked returns a session that can send the request, or nil if there is none now. The error says why
// there never will be one.
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
	case k.enters, protocol.ActionNamed(k.req.Action).Host: // a host first needs its membership restored
		r = c.rooms[k.req.Room]
	}
	if r != nil && !r.restoredLocked() || !c.session.mayAskLocked() {
		return nil, nil
	}
	return c.session, nil
}
