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

// Do sets the ID of a request, sends it, and waits for the reply. OnReply gets the same reply, so do not change
// it.
//
// The error holds a [*protocol.Error] if the server refused, as a [*ConflictError] if a condition was not met;
// a [*CloseError], which is [ErrClosed], if the connection has ended; or ctx.Err(). After the last two, the
// server may have carried out the request, unless the text says that it was not sent, or the code is
// [protocol.CloseRestart], because a server answers all that it has started before it restarts. A reply after
// the end of ctx goes to OnReply only.
//
// With [protocol.ActionAuth], Do sends the server a newer token of the same user, which extends the life of the
// connection. A client that was dialed without [Options.Token] sends it first. The error is [ErrUnauthorized]
// if the server does not accept the token; the older one then stays valid.
func (c *Conn) Do(ctx context.Context, r protocol.Request) (*protocol.Reply, error) {
	return c.do(ctx, &call{req: &r})
}

// Message is what a user says: either Text or Data.
type Message struct {
	Text string
	Data any // sent as JSON, by [json.Marshal]
}

func (c *Conn) do(ctx context.Context, k *call) (*protocol.Reply, error) {
	reply, _, err := c.roundTrip(ctx, k)
	return reply, k.failed(err)
}

// plainCall is a request with only a room.
func plainCall(action, room string) *call {
	return &call{req: &protocol.Request{Action: action, Room: room}}
}

// joinCall asks for a seat, or for any seat if seat is nil.
func joinCall(room string, seat *int) *call {
	return &call{req: &protocol.Request{Action: protocol.ActionJoin, Room: room, Seat: seat}}
}

// historyCall asks for any seat and for messages.
func historyCall(action, room string, n int) *call {
	k := plainCall(action, room)
	if k.req.History = &n; n < 0 || n > protocol.MaxHistory {
		k.err = fmt.Errorf("history: must be from 0 to %d, not %d", protocol.MaxHistory, n)
	}
	return k
}

// matchCall asks for a seat in a room with these labels. Its key makes a repeated request find the same room.
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

// sayToCall sends a message to some users, or only to admins if users is empty.
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

// Then is the effect of a timer: one of these, or none.
type Then struct {
	Close bool   // closes the room, as CloseRoom does; only for admins
	Kick  string // removes that user from the room, if present; only for admins

	// Data replaces the room's data by its JSON form, made by [json.Marshal], unless the data have changed
	// since the timer was set: for example, to pass the turn. Nil changes nothing; json.RawMessage("null")
	// removes the data.
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

// Condition makes a request conditional. A request accepts at most one. [Expect] returns one.
type Condition struct {
	epoch   string
	version uint64
}

// Expect makes a request depend on the epoch and version that its sender knew, from a reply, an event or a
// [ConflictError]. Set, SetMember and SetPrivate then require that the data has not changed since that version;
// SetTimer and StopTimer that neither the room's data nor a timer has; Configure that the room still has
// exactly that version. The epoch must be the room's; "" stands for any.
func Expect(epoch string, version uint64) Condition { return Condition{epoch, version} }

// restrict adds the condition, if there is one, to the request.
func (k *call) restrict(only []Condition) {
	switch len(only) {
	case 0:
	case 1:
		k.req.Epoch, k.req.Expect = only[0].epoch, &only[0].version
	default:
		k.err = errors.New("expect: more than one condition")
	}
}

// effect returns the effect of a timer, or nil.
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
