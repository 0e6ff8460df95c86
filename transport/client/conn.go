package client

import (
	"context"
	"time"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

// Conn is one connection of one user, made by [Dial]. It is safe for concurrent use. Methods
// that wait must not be called from the callbacks in [Options].
type Conn struct {
	link *link
}

// start returns a client on conn, which belongs to it from then on.
func start(conn *websocket.Conn, opts Options) *Conn {
	return &Conn{startLink(conn, opts)}
}

// Join makes the user a member of the room, in any free seat. The reply lists the members, and the
// room's events follow. A member who joins again keeps the seat.
//
// For this and the other requests: the reply is shared with OnReply and must not be changed. The
// error holds a [*protocol.Error] if the server refused; a [*CloseError], which is [ErrClosed], if
// the connection has ended; or ctx.Err(). After the last two the request may or may not have been
// carried out, unless the text says that it was not sent. A reply that comes after ctx has ended
// goes to OnReply only.
func (c *Conn) Join(ctx context.Context, room string) (*protocol.Reply, error) {
	return send(ctx, c, draftJoin(room, nil))
}

// JoinSeat is like Join, but asks for one seat, counted from 0.
func (c *Conn) JoinSeat(ctx context.Context, room string, seat int) (*protocol.Reply, error) {
	return send(ctx, c, draftJoin(room, &seat))
}

// Leave ends the user's membership in the room and frees the seat. Replies and errors are as for
// Join; the reply has no list.
func (c *Conn) Leave(ctx context.Context, room string) (*protocol.Reply, error) {
	return send(ctx, c, draftPlain(protocol.ActionLeave, room))
}

// Users lists the members of the room, without joining it. Replies and errors are as for Join.
func (c *Conn) Users(ctx context.Context, room string) (*protocol.Reply, error) {
	return send(ctx, c, draftPlain(protocol.ActionUsers, room))
}

// Watch is like Users, and the room's events follow, without joining it.
func (c *Conn) Watch(ctx context.Context, room string) (*protocol.Reply, error) {
	return send(ctx, c, draftPlain(protocol.ActionWatch, room))
}

// Unwatch ends Watch; it is no error if the user does not watch. A member goes on getting the
// room's events. Replies and errors are as for Join; the reply has no list.
func (c *Conn) Unwatch(ctx context.Context, room string) (*protocol.Reply, error) {
	return send(ctx, c, draftPlain(protocol.ActionUnwatch, room))
}

// Auth shows the server a newer token of the same user, which lets the connection live until that
// one expires. It is also the first request of a client that was dialed without [Options.Token].
// The reply has the user, and when the token expires. The error is [ErrUnauthorized] if the server
// does not accept the token; the older one counts on. Other errors are as for Join.
func (c *Conn) Auth(ctx context.Context, token string) (*protocol.Reply, error) {
	return send(ctx, c, draftAuth(token))
}

func (c *Conn) request(ctx context.Context, req *protocol.Request) (*protocol.Reply, error) {
	reply, _, err := c.link.roundTrip(ctx, req, nil)
	if err != nil {
		return nil, failed(req, err)
	}
	return reply, nil
}

// Done returns a channel that is closed when the connection has ended, for whatever reason.
func (c *Conn) Done() <-chan struct{} { return c.link.calls.done }

// Err returns nil as long as Done is open, and then the [*CloseError] that says why the connection
// ended.
func (c *Conn) Err() error { return c.link.calls.cause() }

// Close ends the connection: it sends a close frame, waits up to two seconds for the server's, and
// closes the socket. It returns when the client's goroutines have ended. Until then the callbacks
// may still be called, so they must not call Close. Requests that wait get a [*CloseError].
// Closing again, or after the connection has ended, does nothing.
func (c *Conn) Close() {
	l := c.link
	l.closeOnce.Do(func() {
		message := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
		// If this fails the server will not answer either, and hangUp ends the connection.
		_ = l.conn.WriteControl(websocket.CloseMessage, message, time.Now().Add(closeWait))
		l.hangUp(errNoAnswer)
	})
	l.goroutines.Wait()
}
