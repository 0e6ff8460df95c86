package client

import (
	"context"
	"errors"
	"time"

	"roomd/transport/protocol"
)

// Room is a client's copy of a room that it is a member of, or watches, or both. It follows the server, also across
// reconnects, until it ends: when the client is no member any more and does not watch, or has ended itself. A client
// has one Room for each id at a time. It is safe for concurrent use.
type Room struct{ membership }

// ID returns the room's id.
func (r *Room) ID() string { return r.id }

// View returns the room now, or its last state after it has ended.
func (r *Room) View() View {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	return r.replica.share()
}

// Seat returns the client's own seat, counted from 0, and whether the client is a member with a known seat: after a
// move the seat is known from the first snapshot on.
func (r *Room) Seat() (seat int, member bool) {
	v := r.View()
	return v.Seat, v.Member && v.Seat != noSeat
}

// Data returns the room's data, or empty.
func (r *Room) Data() protocol.JSON { return r.View().Data }

// Private returns the user's private data as a member, or empty.
func (r *Room) Private() protocol.JSON {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	u, _ := r.replica.view.User(r.link.user)
	return u.Private
}

// Host returns the member who is the host, or "".
func (r *Room) Host() string { return r.View().Host }

// Done returns a channel that is closed when the room has ended.
func (r *Room) Done() <-chan struct{} { return r.done }

// Err returns nil as long as Done is open, and then the reason for the end: [ErrLeft], [ErrUnwatched], a
// [*LostError], or the client's error.
func (r *Room) Err() error {
	r.link.mu.Lock()
	defer r.link.mu.Unlock()
	return r.err
}

// Leave ends the membership and frees the seat. The room goes on if the client watches it. Errors are as for Set.
// After [protocol.ErrUnknown], too, the membership has ended, but the seat may not be free before the connection
// ends. A [*LostError] says that the membership had ended before. If that was by a move, the user keeps the seat in
// the other room, which the error names.
func (r *Room) Leave(ctx context.Context) error {
	var left error // set by the reading goroutine before the reply arrives
	k := plainCall(protocol.ActionLeave, r.id)
	k.apply = r.link.locked(func(reply *protocol.Reply) { left = r.leftLocked(reply) })
	_, err := r.do(ctx, k)
	if errors.Is(err, protocol.ErrNotMember) {
		return k.failed(left)
	}
	return err
}

// Unwatch stops watching. The room goes on if the client is a member. It is no error if the client does not watch.
// Errors are as for Set.
func (r *Room) Unwatch(ctx context.Context) error {
	k := plainCall(protocol.ActionUnwatch, r.id)
	k.apply = r.link.locked(func(reply *protocol.Reply) {
		if now := r.link.rooms[r.id]; now != nil && reply.Error == nil {
			now.unwatchedLocked(ErrUnwatched)
		}
	})
	_, err := r.do(ctx, k)
	return err
}

// Ready says whether the user is ready. Errors are as for Set.
func (r *Room) Ready(ctx context.Context, ready bool) error {
	return r.act(ctx, newCall(protocol.Request{Action: protocol.ActionReady, Room: r.id, Value: ready}))
}

// Set replaces the room's data by the JSON form of data, made by [json.Marshal]; nil removes it. With a condition
// made by [Expect], Set leaves data that has changed since as it is, and returns a [*ConflictError] with that data.
// When Set returns nil, the room shows the new data or something newer, unless ctx has ended meanwhile. The server
// refuses numbers that a double cannot hold, such as an int64 above 2⁵³: make those strings.
//
// This holds for Set and the other requests: while the client reconnects, or has no snapshot of the room yet after a
// move, a request waits, at most until ctx ends. The error is [protocol.ErrUnknown] if the connection broke after the
// request was sent, so that the server may have carried it out; a restart of the node does not cause that. The error
// holds a [*protocol.Error] if the server refused, ctx.Err(), or the error of Err if the room or the client has
// ended; otherwise it names a field that cannot be sent.
func (r *Room) Set(ctx context.Context, data any, only ...Condition) error {
	return r.act(ctx, setCall(r.id, "", data, only))
}

// SetMember is like Set for the user's own data as a member.
func (r *Room) SetMember(ctx context.Context, data any, only ...Condition) error {
	return r.act(ctx, setCall(r.id, protocol.ScopeMember, data, only))
}

// SetPrivate is like Set for data of the member that only the user's own sessions and admins get. [Room.Private] and
// the user's Seated.Private in the View show it.
func (r *Room) SetPrivate(ctx context.Context, data any, only ...Condition) error {
	return r.act(ctx, setCall(r.id, protocol.ScopePrivate, data, only))
}

// Update replaces the room's data by the result of change. If somebody else changes the data meanwhile, Update calls
// change again with the new data. So no change is lost, and if several clients want to make the same change, one is
// first. If change returns an error, Update does nothing and returns that error. Other errors are as for Set.
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

// SetTimer sets a timer of the room, which fires once, after that time, with the effect of then. It replaces the timer
// of the same name. A name is 1 to 32 of A-Z a-z 0-9 . _ -; a room has at most 8 timers, of at most 90 days. Users
// who may set the room's data may set its timers. With a condition made by [Expect], SetTimer requires that neither
// the data nor a timer has changed since. Errors are as for Set.
//
// All readers get a [protocol.ChangeCountdown], and a [protocol.ChangeTimer] when the timer fires.
func (r *Room) SetTimer(ctx context.Context, name string, in time.Duration, then Then, only ...Condition) error {
	k := newCall(protocol.Request{Action: protocol.ActionTimer, Room: r.id, Name: name}, only...)
	k.req.In, k.req.Then = new(k.units("in", in, time.Millisecond, protocol.MaxTimer)), k.effect(then)
	return r.act(ctx, k)
}

// StopTimer cancels a timer of the room, if it is set. Errors are as for Set.
func (r *Room) StopTimer(ctx context.Context, name string, only ...Condition) error {
	return r.act(ctx, newCall(protocol.Request{Action: protocol.ActionTimer, Room: r.id, Name: name}, only...))
}

// Say sends a message to all users who get the room's events. Errors are as for Set.
func (r *Room) Say(ctx context.Context, m Message) error {
	return r.act(ctx, sayCall(r.id, m))
}

// SayTo is like Say, but only for these users and the sender, at most [protocol.MaxTo] different ones. Without users,
// the message is for admins who watch: see Propose.
func (r *Room) SayTo(ctx context.Context, users []string, m Message) error {
	k := sayCall(r.id, m)
	k.req.To = append([]string{}, users...)
	return r.act(ctx, k)
}

// Propose sends a move to a referee: a message with the JSON form of move, made by [json.Marshal]. Only admins who
// watch get it, not even the sender. Errors are as for Set.
func (r *Room) Propose(ctx context.Context, move any) error {
	return r.SayTo(ctx, nil, Message{Data: move})
}

// act sends a request that changes the room, and returns when the room shows the change or has ended, or ctx ends.
func (r *Room) act(ctx context.Context, k *call) error {
	reply, err := r.do(ctx, k)
	if err == nil { // the reply may have come before the event
		_ = r.replica.changed.await(ctx, &r.link.mu, func() bool {
			v := &r.replica.view
			return v.Epoch != reply.Epoch || v.Version >= reply.Version || r.err != nil
		})
	}
	return err
}

// do sends a request about the room, once the current connection has restored the room.
func (r *Room) do(ctx context.Context, k *call) (*protocol.Reply, error) {
	k.room = r
	return r.link.do(ctx, k)
}
