package client

import (
	"context"
	"errors"

	"roomd/transport/protocol"
)

// Room is a client's copy of a room of which it is a member, or which it watches, or both. It
// follows the server, also across reconnects, until it ends: when the client has left and watches no
// more, has lost its seat, or has ended itself. There is one for each id and client at a time. It is
// safe for concurrent use.
type Room struct {
	id     string
	client *Client
	rooms  *rooms
	done   chan struct{} // closed when err is set

	// The mutex of rooms guards the rest.
	replica   replica
	synced    bool // replica has what the server listed on the present connection, and what came behind that
	restored  bool // the present connection has the membership and the watch back
	rejoined  bool // restoring: it has the membership back
	rewatched bool // restoring: it has the watch back
	asking    bool // somebody asks for the list, because events were missed
	feeds     map[*feed]struct{}
	awaited   []*shown // versions for which requests wait
	err       error
}

// ID returns the room's id.
func (r *Room) ID() string { return r.id }

// View returns the room as it is now. After the room has ended, it is as it was last.
func (r *Room) View() View {
	r.rooms.mu.Lock()
	defer r.rooms.mu.Unlock()
	return r.replica.share()
}

// Users returns the members in the order of their seats. The list must not be changed.
func (r *Room) Users() []protocol.Seated { return r.View().Users }

// User returns the member with that name. It is false if there is none.
func (r *Room) User(name string) (protocol.Seated, bool) { return r.View().User(name) }

// Seat returns the client's own seat, counted from 0. It is false if the client is no member.
func (r *Room) Seat() (seat int, member bool) {
	v := r.View()
	return v.Seat, v.Member && v.Seat != noSeat
}

// Data returns the data of the room, which is empty if there is none.
func (r *Room) Data() protocol.JSON { return r.View().Data }

// Done returns a channel that is closed when the room has ended.
func (r *Room) Done() <-chan struct{} { return r.done }

// Err returns nil as long as Done is open, and then why the room ended: [ErrLeft], [ErrUnwatched],
// a [*LostError], or the client's error.
func (r *Room) Err() error {
	r.rooms.mu.Lock()
	defer r.rooms.mu.Unlock()
	return r.err
}

// Leave ends the membership and frees the seat. The room goes on if the client watches it. The error
// is as for Set; a [*LostError] says that there was no membership any more.
func (r *Room) Leave(ctx context.Context) error {
	_, member := r.Seat()
	_, err := r.send(ctx, draftPlain(protocol.ActionLeave, r.id))
	if member && errors.Is(err, protocol.ErrNotMember) {
		return nil // a failure had removed the user, whom the server now does not bring back
	}
	return err
}

// Unwatch ends the watching. The room goes on if the client is a member. It is no error if the client
// does not watch. Errors are as for Set.
func (r *Room) Unwatch(ctx context.Context) error {
	_, err := r.send(ctx, draftPlain(protocol.ActionUnwatch, r.id))
	return err
}

// act sends a request that changes the room, and returns when the room shows what it has done.
func (r *Room) act(ctx context.Context, d draft) error {
	reply, err := r.send(ctx, d)
	if err == nil {
		r.awaitShown(ctx, reply)
	}
	return err
}

// send sends a request about the room, as soon as the present connection has the room back.
func (r *Room) send(ctx context.Context, d draft) (*protocol.Reply, error) {
	return send(ctx, roomSender{r}, d)
}

type roomSender struct{ room *Room }

func (s roomSender) request(ctx context.Context, req *protocol.Request) (*protocol.Reply, error) {
	return s.room.client.do(ctx, req, s.room)
}
