package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/google/uuid"

	"roomd/room"
	"roomd/transport/protocol"
)

// Client is a user who stays connected, made by [Connect]. When the connection ends, the client makes another one, to
// the next of its addresses, and restores its rooms. It is safe for concurrent use.
type Client struct{ link }

// Connect connects a user. It returns when the first connection is made. It fails if cfg is wrong, if [Config.Token]
// fails, or if another attempt cannot succeed: if the server refuses for good with a [*protocol.Error], accepts no
// token ([ErrUnauthorized]), has a certificate that is not trusted, or is no roomd. After other failures it tries
// again until ctx ends; the error is then ctx.Err() with the last failure. Once Connect has returned, ctx no longer
// matters. The caller must Close the client.
func Connect(ctx context.Context, cfg Config) (*Client, error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c := &Client{link{cfg: cfg, done: make(chan struct{}), rooms: make(map[string]*Room)}}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.goroutines.Go(c.run)
	if err := c.connected(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Join makes the user a member of the room, in any free seat. A member that joins again keeps its seat. While the
// client reconnects, Join waits, at most until ctx ends. The error holds a [*protocol.Error] if the server refused,
// the error of Err if the client has ended, or ctx.Err(); otherwise it names a field that cannot be sent. After
// ctx.Err() the user may still become a member; then Room returns the room.
func (c *Client) Join(ctx context.Context, room string) (*Room, error) {
	return c.enter(ctx, plainCall(protocol.ActionJoin, room))
}

// JoinSeat is like Join, but asks for that seat, counted from 0.
func (c *Client) JoinSeat(ctx context.Context, room string, seat int) (*Room, error) {
	return c.enter(ctx, newCall(protocol.Request{Action: protocol.ActionJoin, Room: room, Seat: &seat}))
}

// JoinHistory is like Join, and asks for up to n of the last messages that the room has kept according to its
// settings. The first iteration over the room's changes yields them after its first snapshot, each with the version
// at which it was said. The messages that came since the join follow. A client that is already a member, or watches,
// gets no earlier messages.
func (c *Client) JoinHistory(ctx context.Context, room string, n int) (*Room, error) {
	return c.enter(ctx, historyCall(protocol.ActionJoin, room, n))
}

// Match makes the user a member of the fullest room that has these labels, perhaps among others, and a free seat. If
// there is none, Match creates a room with exactly these labels, and otherwise the settings of begin. Errors are as
// for Join, except that no room is too full.
func (c *Client) Match(ctx context.Context, labels map[string]string, begin room.Settings) (*Room, error) {
	begin.Labels = ""
	return c.enter(ctx, newCall(protocol.Request{Action: protocol.ActionMatch, Labels: room.MakeLabels(labels),
		Settings: &begin, Key: uuid.NewString()})) // a repeated request with the key finds the same room
}

// MatchParty agrees that the user, a member of the room party, may be moved to a table as Match finds it. If all users,
// other members of the party, have agreed to the same labels, it moves them and the user to one table, all or none.
// It returns the room in which the user is then: the table or, as long as somebody has not agreed, the party. Errors
// are as for Match.
func (c *Client) MatchParty(ctx context.Context, party string, labels map[string]string, begin room.Settings,
	users ...string) (*Room, error) {
	begin.Labels = ""
	return c.enter(ctx, newCall(protocol.Request{Action: protocol.ActionMatch, Labels: room.MakeLabels(labels),
		Settings: &begin, Party: party, Users: users}))
}

// Watch follows the room without joining it. A member can watch, too, and goes on watching when the membership ends.
// Errors are as for Join.
func (c *Client) Watch(ctx context.Context, room string) (*Room, error) {
	return c.enter(ctx, plainCall(protocol.ActionWatch, room))
}

// WatchHistory is like Watch, and asks for earlier messages, as JoinHistory does.
func (c *Client) WatchHistory(ctx context.Context, room string, n int) (*Room, error) {
	return c.enter(ctx, historyCall(protocol.ActionWatch, room, n))
}

// Room returns the room with that id if the client has a snapshot of it as a member or watcher, otherwise nil.
func (c *Client) Room(id string) *Room {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.rooms[id]; r != nil && r.replica.known() {
		return r
	}
	return nil // a user who was moved there has no snapshot at first
}

// Users returns a reply with the members of a room, without joining it. Errors are as for Join.
func (c *Client) Users(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.do(ctx, plainCall(protocol.ActionUsers, room))
}

// Kick removes a user from the room and tells the user why, if why is not empty. A ban keeps the user out for that
// time, even a user who is not in the room. It is rounded up to seconds; with 0 the user may come back at once. Only
// admins and the room's host may kick: others get [protocol.ErrForbidden]. Other errors are as for [Room.Set].
func (c *Client) Kick(ctx context.Context, room, user, why string, ban time.Duration) (*protocol.Reply, error) {
	k := newCall(protocol.Request{Action: protocol.ActionKick, Room: room, User: user, Text: why})
	k.req.Ban = int(k.units("ban", ban, time.Second, protocol.MaxBan))
	return c.do(ctx, k)
}

// Swap exchanges the seats of two members of the room. Errors are as for Kick.
func (c *Client) Swap(ctx context.Context, room, one, other string) (*protocol.Reply, error) {
	return c.do(ctx, newCall(protocol.Request{Action: protocol.ActionSwap, Room: room,
		Users: []string{one, other}}))
}

// Shuffle permutes the seats of the room's members at random. Errors are as for Kick.
func (c *Client) Shuffle(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.do(ctx, plainCall(protocol.ActionShuffle, room))
}

// CloseRoom removes all members from the room, and keeps everybody out. Errors are as for Kick.
func (c *Client) CloseRoom(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.do(ctx, plainCall(protocol.ActionClose, room))
}

// Configure replaces all settings of the room, including those that are zero in s. With a condition made by [Expect],
// the room must still have exactly that version; otherwise the error is a [*ConflictError]. A host may change only
// some settings. Other errors are as for Kick.
func (c *Client) Configure(ctx context.Context, room string, s room.Settings,
	only ...Condition) (*protocol.Reply, error) {
	return c.do(ctx, newCall(protocol.Request{Action: protocol.ActionConfigure, Room: room, Settings: &s}, only...))
}

// SetPrivateOf replaces the private data of any member, like [Room.SetPrivate]. Errors are as for Kick.
func (c *Client) SetPrivateOf(ctx context.Context, room, user string, data any,
	only ...Condition) (*protocol.Reply, error) {
	k := setCall(room, protocol.ScopePrivate, data, only)
	if k.req.User = user; user == "" && k.err == nil {
		k.err = errors.New("user: must not be empty")
	}
	return c.do(ctx, k)
}

// Txn does several actions in one version, all or none: 1 to [protocol.MaxTxn] requests with the actions set, timer,
// say, kick, swap, shuffle, configure or close, whose ID, Room and Expect are not set. With a condition made by
// [Expect], neither the room's data nor a timer may have changed since that version. Only admins may use Txn: others
// get [protocol.ErrForbidden]. Other errors are as for [Room.Set].
func (c *Client) Txn(ctx context.Context, room string, actions []protocol.Request,
	only ...Condition) (*protocol.Reply, error) {
	return c.do(ctx, newCall(protocol.Request{Action: protocol.ActionTxn, Room: room, Actions: actions}, only...))
}

// Close ends the client. If it is connected, it leaves all rooms; otherwise the server keeps the seats for the grace.
// Close returns when the client's goroutines have ended. Waiting requests and the rooms get the error of Err.
func (c *Client) Close() {
	c.stop()
	c.goroutines.Wait()
}

// enter sends a join, a match or a watch, and returns the room that the server names.
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

// State is the state of a client's connection.
type State int

// The states of a [Client]. The first is Connecting, and the last Lost.
const (
	Connecting   State = iota // the first connection is not made yet
	Connected                 // there is a connection; rooms may still be restored
	Reconnecting              // the connection has ended, and the client tries to make another
	Lost                      // the client has ended for good: Err says why
	Degraded                  // there is a connection, but its server cannot reach Redis: rooms stand still
)

// String returns the name in lower case.
func (s State) String() string {
	return [...]string{"connecting", "connected", "reconnecting", "lost", "degraded"}[s]
}

// State returns the current state.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// States returns an iteration over the client's states, starting with the current one. A slow reader skips states.
// The iteration ends after Lost, or when ctx ends.
func (c *Client) States(ctx context.Context) iter.Seq[State] {
	return func(yield func(State) bool) {
		for last, state := State(-1), State(-1); last != Lost && ctx.Err() == nil; last = state {
			changed := func() bool { state = c.state; return state != last }
			if c.await(ctx, changed) != nil || !yield(state) {
				return
			}
		}
	}
}

// Done returns a channel that is closed when the client has ended for good.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns nil as long as Done is open, and then an error that is [ErrClosed] and holds the reason for the end: a
// [*CloseError], with code 1000 after Close, or the failure of the last attempt to connect. It is also
// [ErrUnauthorized] if the server accepts no token.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
