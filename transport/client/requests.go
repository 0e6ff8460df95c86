package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"roomd/room"
	"roomd/transport/protocol"
)

// Do sends a request, whose ID it sets, and waits for the reply, which is shared with OnReply and must not be changed.
//
// The error holds a [*protocol.Error] if the server refused, as a [*ConflictError] if what was expected is not so any
// more; a [*CloseError], which is [ErrClosed], if the connection has ended; or ctx.Err(). After the last two the
// request may or may not have been carried out, unless the text says that it was not sent, or the code is
// [protocol.CloseRestart], before which a server answers all that it has begun. A reply that comes after ctx has
// ended goes to OnReply only.
//
// With [protocol.ActionAuth] it shows the server a newer token of the same user, which lets the connection live until
// that one expires; a client that was dialed without [Options.Token] sends it first. The error is [ErrUnauthorized]
// if the server does not accept the token; the older one counts on.
func (c *Conn) Do(ctx context.Context, r protocol.Request) (*protocol.Reply, error) {
	return c.do(ctx, &call{req: &r})
}

// Message is what a user says: Text or Data, not both.
type Message struct {
	Text string
	Data any // sent in its JSON form, as [json.Marshal] makes it
}

func (c *Conn) do(ctx context.Context, k *call) (*protocol.Reply, error) {
	reply, _, err := c.roundTrip(ctx, k)
	return reply, k.failed(err)
}

// plainCall names a room and nothing else.
func plainCall(action, room string) *call {
	return &call{req: &protocol.Request{Action: action, Room: room}}
}

// joinCall asks for a seat, or for any if seat is nil.
func joinCall(room string, seat *int) *call {
	return &call{req: &protocol.Request{Action: protocol.ActionJoin, Room: room, Seat: seat}}
}

// historyCall asks for any seat, and for messages.
func historyCall(action, room string, n int) *call {
	k := plainCall(action, room)
	if k.req.History = &n; n < 0 || n > protocol.MaxHistory {
		k.err = fmt.Errorf("history: must be from 0 to %d, not %d", protocol.MaxHistory, n)
	}
	return k
}

// matchCall has a key, so that it finds the same room when it is sent again.
func matchCall(labels map[string]string, begin room.Settings) *call {
	begin.Labels = ""
	return &call{req: &protocol.Request{Action: protocol.ActionMatch, Labels: room.MakeLabels(labels),
		Settings: &begin, Key: uuid.NewString()}}
}

func readyCall(room string, ready bool) *call {
	return &call{req: &protocol.Request{Action: protocol.ActionReady, Room: room, Value: ready}}
}

func setCall(room, scope string, data any, only []Condition) *call {
	k := plainCall(protocol.ActionSet, room)
	k.req.Scope = scope
	k.restrict(only)
	k.encode(data)
	return k
}

func setPrivateCall(room, user string, data any, only []Condition) *call {
	k := setCall(room, protocol.ScopePrivate, data, only)
	if k.req.User = user; user == "" && k.err == nil {
		k.err = errors.New("user: must not be empty")
	}
	return k
}

// sayToCall is a message for some, or for the admins alone if users is empty.
func sayToCall(room string, users []string, m Message) *call {
	k := sayCall(room, m)
	k.req.To = append([]string{}, users...)
	return k
}

func sayCall(room string, m Message) *call {
	k := plainCall(protocol.ActionSay, room)
	k.req.Text = m.Text
	if m.Data != nil {
		k.encode(m.Data)
	}
	return k
}

// Then is what a timer does when it fires: one of these things, or nothing.
type Then struct {
	Close bool   // it closes the room, as CloseRoom does. Only admins may
	Kick  string // it throws a user out, if the user is there. Only admins may

	// Data, in its JSON form as [json.Marshal] makes it, becomes the room's, unless somebody has changed that since
	// the timer was set: a turn that passes. Nil changes nothing; json.RawMessage("null") removes the data.
	Data any
}

// timerCall rounds the time up to ms. A nil time cancels the timer.
func timerCall(room, name string, in *time.Duration, then Then, only []Condition) *call {
	k := plainCall(protocol.ActionTimer, room)
	k.req.Name = name
	k.restrict(only)
	if in == nil {
		return k
	}
	if *in < 0 || *in > protocol.MaxTimer*time.Millisecond {
		k.err = fmt.Errorf("in: must be from 0 to %v, not %v", protocol.MaxTimer*time.Millisecond, *in)
		return k
	}
	k.req.In = new(int64((*in + time.Millisecond - 1) / time.Millisecond))
	k.req.Then = k.effect(then)
	return k
}

// kickCall rounds the ban up to seconds.
func kickCall(room, user, why string, ban time.Duration) *call {
	k := plainCall(protocol.ActionKick, room)
	k.req.User, k.req.Text = user, why
	if ban < 0 || ban > protocol.MaxBan*time.Second {
		k.err = fmt.Errorf("ban: must be from 0 to %v, not %v", protocol.MaxBan*time.Second, ban)
		return k
	}
	k.req.Ban = int((ban + time.Second - 1) / time.Second)
	return k
}

func swapCall(room, one, other string) *call {
	k := plainCall(protocol.ActionSwap, room)
	k.req.Users = []string{one, other}
	return k
}

func txnCall(room string, actions []protocol.Request, only []Condition) *call {
	k := plainCall(protocol.ActionTxn, room)
	k.req.Actions = actions
	k.restrict(only)
	return k
}

func configureCall(room string, s room.Settings, only []Condition) *call {
	k := plainCall(protocol.ActionConfigure, room)
	k.req.Settings = &s
	k.restrict(only)
	return k
}

// Condition makes a request conditional; it takes one at most. [Expect] returns one.
type Condition struct {
	epoch   string
	version uint64
}

// Expect makes a request conditional on what its sender knew: the epoch and version of a reply, an
// event or a [ConflictError]. Set, SetMember and SetPrivate are done only if the data has not been changed
// since that version, SetTimer and StopTimer only if neither the room's data nor a timer has, and Configure only if the
// room still has exactly that version. With an
// epoch, the room must still be in it; "" stands for any.
func Expect(epoch string, version uint64) Condition { return Condition{epoch, version} }

// restrict puts the condition, if there is one, into the request.
func (k *call) restrict(only []Condition) {
	switch len(only) {
	case 0:
	case 1:
		k.req.Epoch, k.req.Expect = only[0].epoch, &only[0].version
	default:
		k.err = errors.New("expect: more than one condition")
	}
}

// effect returns what a timer does, nil for nothing.
func (k *call) effect(then Then) *room.Effect {
	n := 0
	for _, given := range []bool{then.Close, then.Kick != "", then.Data != nil} {
		if given {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	if n > 1 {
		k.err = errors.New("then: must be one of Close, Kick and Data")
	}
	e := &room.Effect{Close: then.Close, Kick: then.Kick}
	if then.Data != nil {
		e.Data = jsontext.Value(k.jsonOf(then.Data))
	}
	return e
}

// encode puts the JSON form of data into the request.
func (k *call) encode(data any) { k.req.Data = k.jsonOf(data) }

// jsonOf returns the JSON form of data without escapes for HTML, which would make it longer.
func (k *call) jsonOf(data any) protocol.JSON {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(data); err != nil && k.err == nil {
		k.err = fmt.Errorf("data: %w", err)
	}
	return protocol.JSON(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
}
