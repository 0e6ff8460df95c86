package client

import (
	"context"
	"errors"
	"time"

	"roomd/transport/protocol"
)

// Room is a client's copy of a room of which it is a member, or which it watches, or both. It
// follows the server, also across reconnects, until it ends: when the client has left and watches no
// more, has lost its seat, or has ended itself. There is one for each id and client at a time. It is
// safe for concurrent use.
type Room struct {
	id     string
	client *Client
	done   chan struct{} // closed when err is set

	// The client's mutex guards the rest.
	replica   replica
	joined    bool  // the present connection has the membership
	watched   bool  // the present connection has the watch
	moved     bool  // a move here was announced, and no snapshot has come since
	restoring bool  // a goroutine of the session brings back what the present connection lacks
	lost      error // why the latest membership was lost; nil if it was not
	err       error // why the room has ended
}

// ID returns the room's id.
func (r *Room) ID() string { return r.id }

// View returns the room as it is now. After the room has ended, it is as it was last.
func (r *Room) View() View {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	return r.replica.share()
}

// Seat returns the client's own seat, counted from 0. It is false if the client is no member.
func (r *Room) Seat() (seat int, member bool) {
	v := r.View()
	return v.Seat, v.Member && v.Seat != noSeat
}

// Data returns the data of the room, which is empty if there is none.
func (r *Room) Data() protocol.JSON { return r.View().Data }

// Private returns the user's private data as a member, which are empty if there are none.
func (r *Room) Private() protocol.JSON {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	u, _ := r.replica.view.User(r.client.user)
	return u.Private
}

// Host returns the member who is the host of the room, "" if nobody is.
func (r *Room) Host() string { return r.View().Host }

// Done returns a channel that is closed when the room has ended.
func (r *Room) Done() <-chan struct{} { return r.done }

// Err returns nil as long as Done is open, and then why the room ended: [ErrLeft], [ErrUnwatched],
// a [*LostError], or the client's error.
func (r *Room) Err() error {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	return r.err
}

// Leave ends the membership and frees the seat. The room goes on if the client watches it. The error is as for Set,
// and with [protocol.ErrUnknown] the membership has ended, too, though the seat may not be free before the connection
// ends; a [*LostError] says that there was no membership any more, and where the user was moved, if that is why: the
// seat there stays.
func (r *Room) Leave(ctx context.Context) error {
	var left error // set by the reading goroutine, before the reply gets here
	k := plainCall(protocol.ActionLeave, r.id)
	k.apply = r.client.locked(func(reply *protocol.Reply) { left = r.leftLocked(reply) })
	_, err := r.do(ctx, k)
	if errors.Is(err, protocol.ErrNotMember) {
		return k.failed(left)
	}
	return err
}

// Unwatch ends the watching. The room goes on if the client is a member. It is no error if the client
// does not watch. Errors are as for Set.
func (r *Room) Unwatch(ctx context.Context) error {
	k := plainCall(protocol.ActionUnwatch, r.id)
	k.apply = r.client.locked(func(reply *protocol.Reply) {
		if now := r.client.rooms[r.id]; now != nil && reply.Error == nil {
			now.unwatchedLocked(ErrUnwatched)
		}
	})
	_, err := r.do(ctx, k)
	return err
}

// Ready says whether the user is ready. Errors are as for Set.
func (r *Room) Ready(ctx context.Context, ready bool) error {
	return r.act(ctx, readyCall(r.id, ready))
}

// Set replaces the data of the room by the JSON form of data, as [json.Marshal] makes it; nil removes it. With a
// condition made by [Expect], data that has been changed since stays as it is, and the error is a [*ConflictError],
// which has that data. When Set returns nil, the room shows what it has done, or something newer, unless ctx has
// ended meanwhile. The server refuses numbers that a double cannot hold, such as an int64 above 2⁵³: make those
// strings.
//
// For this and the other requests: while the client connects again, or has been moved to the room and not been told
// more of it yet, a request waits, until ctx ends. The error is [protocol.ErrUnknown] if the connection broke after
// the request was sent, so that it may or may not have been done; a restart of the node is no such end. It holds a
// [*protocol.Error] if the server refused, is ctx.Err(), or is that of Err if the room or the client has ended.
func (r *Room) Set(ctx context.Context, data any, only ...Condition) error {
	return r.act(ctx, setCall(r.id, "", data, only))
}

// SetMember is like Set for the user's own data as a member.
func (r *Room) SetMember(ctx context.Context, data any, only ...Condition) error {
	return r.act(ctx, setCall(r.id, protocol.ScopeMember, data, only))
}

// SetPrivate is like Set for data of the user as a member that only the user, by whatever session, and admins are
// shown: [Room.Private], and Private of the user in the View.
func (r *Room) SetPrivate(ctx context.Context, data any, only ...Condition) error {
	return r.act(ctx, setCall(r.id, protocol.ScopePrivate, data, only))
}

// Update replaces the data of the room by what change makes of it. If somebody else has changed
// the data at the same time, Update calls change again, with the new data, until nobody has: so no
// change is lost, and of several clients that want to make the same change one is first. It does
// nothing if change returns an error, and returns that. Other errors are as for Set.
func (r *Room) Update(ctx context.Context, change func(old protocol.JSON) (any, error)) error {
	v := r.View()
	for {
		data, err := change(v.Data)
		if err != nil {
			return err
		}
		err = r.Set(ctx, data, Expect(v.Epoch, v.Version))
		var conflict *ConflictError
		if !errors.As(err, &conflict) {
			return err
		}
		v.Epoch, v.Version, v.Data = conflict.Epoch, conflict.Version, conflict.Data
	}
}

// SetTimer sets one of the room's timers, which fires once after that time, in the place of one of that name. A
// name is 1 to 32 of A-Z a-z 0-9 . _ -; a room has at most 8 timers, and the time is at most 24 hours. Who may
// set the room's data may set its timers. With a condition made by [Expect] it is done only if neither the data nor a
// timer has changed since. Errors are as for Set.
//
// Everybody hears of it by a [protocol.ChangeCountdown], and when it fires by a [protocol.ChangeTimer].
func (r *Room) SetTimer(ctx context.Context, name string, in time.Duration, then Then, only ...Condition) error {
	return r.act(ctx, timerCall(r.id, name, &in, then, only))
}

// StopTimer cancels one of the room's timers. It is no error if there is none of that name. Errors are as for Set.
func (r *Room) StopTimer(ctx context.Context, name string, only ...Condition) error {
	return r.act(ctx, timerCall(r.id, name, nil, Then{}, only))
}

// Say sends a message to all who get the room's events. Errors are as for Set.
func (r *Room) Say(ctx context.Context, m Message) error {
	return r.act(ctx, sayCall(r.id, m))
}

// SayTo is like Say, but only these users get the message, and the user, at most [protocol.MaxTo] different ones. A
// message to nobody is for the admins who watch: see Propose.
func (r *Room) SayTo(ctx context.Context, users []string, m Message) error {
	return r.act(ctx, sayToCall(r.id, users, m))
}

// Propose sends a move to a referee: a message with the JSON form of move, as [json.Marshal] makes it, which only the
// admins who watch get, and not the user either. Errors are as for Set.
func (r *Room) Propose(ctx context.Context, move any) error {
	return r.SayTo(ctx, nil, Message{Data: move})
}

// act sends a request that changes the room, and returns when the room shows what it has done.
func (r *Room) act(ctx context.Context, k *call) error {
	reply, err := r.do(ctx, k)
	if err == nil {
		r.awaitShown(ctx, reply)
	}
	return err
}

// do sends a request about the room, as soon as the present connection has the room back.
func (r *Room) do(ctx context.Context, k *call) (*protocol.Reply, error) {
	k.room = r
	return r.client.do(ctx, k)
}
