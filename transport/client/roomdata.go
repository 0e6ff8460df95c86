package client

import (
	"context"
	"errors"

	"roomd/transport/protocol"
)

// Ready says whether the user is ready. Errors are as for Set.
func (r *Room) Ready(ctx context.Context, ready bool) error {
	return r.act(ctx, draftReady(r.id, ready))
}

// Set replaces the data of the room by the JSON form of data, as [json.Marshal] makes it; nil
// removes it. With a condition made by [Expect], data that has been changed since stays as it is,
// and the error is a [*ConflictError], which has that data. When Set returns nil, the room shows what
// it has done, or something newer, unless ctx has ended meanwhile.
//
// For this and the other requests: while the client connects again, a request waits, until ctx ends.
// The error is [protocol.ErrUnknown] if the connection broke after the request was sent, so that it
// may or may not have been done. It holds a [*protocol.Error] if the server refused, is ctx.Err(), or
// is that of Err if the room or the client has ended.
func (r *Room) Set(ctx context.Context, data any, only ...Condition) error {
	return r.act(ctx, draftSet(r.id, "", data, only))
}

// SetMember is like Set for the user's own data as a member.
func (r *Room) SetMember(ctx context.Context, data any, only ...Condition) error {
	return r.act(ctx, draftSet(r.id, protocol.ScopeMember, data, only))
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

// Say sends a message to all who get the room's events. Errors are as for Set.
func (r *Room) Say(ctx context.Context, m Message) error {
	return r.act(ctx, draftSay(r.id, nil, m))
}

// SayTo is like Say, but only these users get the message: at least one, and at most
// [protocol.MaxTo] different ones.
func (r *Room) SayTo(ctx context.Context, users []string, m Message) error {
	return r.act(ctx, draftSay(r.id, notNil(users), m))
}
