package client

import (
	"context"
	"time"

	"roomd/transport/protocol"
)

// Kick makes a user leave the room and tells them why, if why is not empty. A ban keeps the user
// out for that time, also one who is not in the room; it is rounded up to seconds, and 0 means
// that the user may come back at once. The error is [protocol.ErrForbidden] unless the client's
// token is an admin's. Other errors are as for Join, and so is the reply, which has no list.
func (c *Conn) Kick(ctx context.Context, room, user, why string, ban time.Duration) (*protocol.Reply, error) {
	return send(ctx, c, draftKick(room, user, why, ban))
}

// CloseRoom makes everybody leave the room, and lets nobody in. Only admins may, as for Kick. The
// reply has no list.
func (c *Conn) CloseRoom(ctx context.Context, room string) (*protocol.Reply, error) {
	return send(ctx, c, draftPlain(protocol.ActionClose, room))
}

// Configure replaces the room's settings: what is zero in s is so from then on. With a condition
// made by [Expect] it does so only at exactly that version; otherwise the error is a
// [*ConflictError]. Only admins may, as for Kick. The reply has no list.
func (c *Conn) Configure(ctx context.Context, room string, s protocol.Settings, only ...Condition) (*protocol.Reply, error) {
	return send(ctx, c, draftConfigure(room, s, only))
}
