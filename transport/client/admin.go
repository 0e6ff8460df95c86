package client

import (
	"context"
	"fmt"
	"time"

	"roomd/transport/protocol"
)

// Kick makes a user leave the room and tells them why, if why is not empty. A ban keeps the user
// out for that time, also one who is not in the room; it is rounded up to seconds, and 0 means
// that the user may come back at once. The error is [protocol.ErrForbidden] unless the client's
// token is an admin's. Other errors are as for Join, and so is the reply, which has no list.
func (c *Client) Kick(ctx context.Context, room, user, why string, ban time.Duration) (*protocol.Reply, error) {
	req := &protocol.Request{Action: protocol.ActionKick, Room: room, User: user, Text: why}
	if ban < 0 || ban > protocol.MaxBan*time.Second {
		return nil, failed(req, fmt.Errorf("not sent: ban: must be from 0 to %v, not %v", protocol.MaxBan*time.Second, ban))
	}
	req.Ban = int((ban + time.Second - 1) / time.Second)
	return c.request(ctx, req)
}

// CloseRoom makes everybody leave the room, and lets nobody in. Only admins may, as for Kick. The
// reply has no list.
func (c *Client) CloseRoom(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.request(ctx, &protocol.Request{Action: protocol.ActionClose, Room: room})
}

// Configure replaces the room's settings: what is zero in s is so from then on. With a condition
// made by [Expect] it does so only at exactly that version; otherwise the error is a
// [*ConflictError]. Only admins may, as for Kick. The reply has no list.
func (c *Client) Configure(ctx context.Context, room string, s protocol.Settings, only ...Condition) (*protocol.Reply, error) {
	req := &protocol.Request{Action: protocol.ActionConfigure, Room: room, Settings: &s}
	if err := restrict(req, only); err != nil {
		return nil, failed(req, err)
	}
	return c.request(ctx, req)
}
