package client

import (
	"context"

	"roomd/transport/protocol"
)

// Ready says whether the user, who must be a member of the room, is ready. Replies and errors are
// as for Join; the reply has no list.
func (c *Conn) Ready(ctx context.Context, room string, ready bool) (*protocol.Reply, error) {
	return send(ctx, c, draftReady(room, ready))
}

// Set replaces the data of the room by the JSON form of data, as [json.Marshal] makes it; nil
// removes it. With a condition made by [Expect], data that has been changed since stays as it is,
// and the error is a [*ConflictError], which has that data. Other errors are as for Join, and so
// is the reply, which has no list.
func (c *Conn) Set(ctx context.Context, room string, data any, only ...Condition) (*protocol.Reply, error) {
	return send(ctx, c, draftSet(room, "", data, only))
}

// SetMember is like Set for the user's own data as a member of the room.
func (c *Conn) SetMember(ctx context.Context, room string, data any, only ...Condition) (*protocol.Reply, error) {
	return send(ctx, c, draftSet(room, protocol.ScopeMember, data, only))
}

// Message is what a user says: Text or Data, not both.
type Message struct {
	Text string
	Data any // sent in its JSON form, as [json.Marshal] makes it
}

// Say sends a message to all who get the room's events. Replies and errors are
// as for Join; the reply has no list.
func (c *Conn) Say(ctx context.Context, room string, m Message) (*protocol.Reply, error) {
	return send(ctx, c, draftSay(room, nil, m))
}

// SayTo is like Say, but only these users get the message: at least one, and at most
// [protocol.MaxTo] different ones. The others see that the room's version has changed.
func (c *Conn) SayTo(ctx context.Context, room string, users []string, m Message) (*protocol.Reply, error) {
	return send(ctx, c, draftSay(room, notNil(users), m))
}
