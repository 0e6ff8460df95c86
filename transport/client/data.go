package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"roomd/transport/protocol"
)

// Ready says whether the user, who must be a member of the room, is ready. Replies and errors are
// as for Join; the reply has no list.
func (c *Client) Ready(ctx context.Context, room string, ready bool) (*protocol.Reply, error) {
	return c.request(ctx, &protocol.Request{Action: protocol.ActionReady, Room: room, Value: ready})
}

// Set replaces the data of the room by the JSON form of data, as [json.Marshal] makes it; nil
// removes it. With a condition made by [Expect], data that has been changed since stays as it is,
// and the error is a [*ConflictError], which has that data. Other errors are as for Join, and so
// is the reply, which has no list.
func (c *Client) Set(ctx context.Context, room string, data any, only ...Condition) (*protocol.Reply, error) {
	return c.set(ctx, &protocol.Request{Room: room}, data, only)
}

// SetMember is like Set for the user's own data as a member of the room.
func (c *Client) SetMember(ctx context.Context, room string, data any, only ...Condition) (*protocol.Reply, error) {
	return c.set(ctx, &protocol.Request{Room: room, Scope: protocol.ScopeMember}, data, only)
}

func (c *Client) set(ctx context.Context, req *protocol.Request, data any, only []Condition) (*protocol.Reply, error) {
	req.Action = protocol.ActionSet
	err := restrict(req, only)
	if err == nil {
		req.Data, err = encode(data)
	}
	if err != nil {
		return nil, failed(req, err)
	}
	return c.request(ctx, req)
}

// Message is what a user says: Text or Data, not both.
type Message struct {
	Text string
	Data any // sent in its JSON form, as [json.Marshal] makes it
}

// Say sends a message to all who get the room's events. Replies and errors are
// as for Join; the reply has no list.
func (c *Client) Say(ctx context.Context, room string, m Message) (*protocol.Reply, error) {
	return c.say(ctx, &protocol.Request{Room: room}, m)
}

// SayTo is like Say, but only these users get the message: at least one, and at most
// [protocol.MaxTo] different ones. The others see that the room's version has changed.
func (c *Client) SayTo(ctx context.Context, room string, users []string, m Message) (*protocol.Reply, error) {
	if users == nil {
		users = []string{} // which the server refuses; nil would mean all
	}
	return c.say(ctx, &protocol.Request{Room: room, To: users}, m)
}

func (c *Client) say(ctx context.Context, req *protocol.Request, m Message) (*protocol.Reply, error) {
	req.Action, req.Text = protocol.ActionSay, m.Text
	if m.Data != nil {
		data, err := encode(m.Data)
		if err != nil {
			return nil, failed(req, err)
		}
		req.Data = data
	}
	return c.request(ctx, req)
}

// encode is json.Marshal without escapes for HTML, which would make data longer.
func encode(data any) (protocol.JSON, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(data); err != nil {
		return "", fmt.Errorf("not sent: data: %w", err)
	}
	return protocol.JSON(bytes.TrimSuffix(text.Bytes(), []byte("\n"))), nil
}
