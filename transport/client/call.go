package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"roomd/room"
	"roomd/transport/protocol"
)

// call is a request, and where its reply goes.
type call struct {
	req    *protocol.Request
	err    error                 // why it cannot be sent; nil if it can
	room   *Room                 // the call waits until room is restored, and fails if room has ended; may be nil
	enters bool                  // a join or watch: waits until its room is restored, if the client is in that room
	apply  func(*protocol.Reply) // called with the reply by the reading goroutine, before it reads on; may be nil
	answer chan *protocol.Reply  // buffers the reply on the current connection
}

// newCall returns a call of a request. only has its condition, if any; more than one set its err.
func newCall(req protocol.Request, only ...Condition) *call {
	k := &call{req: &req}
	switch len(only) {
	case 0:
	case 1:
		req.Epoch, req.Expect = only[0].epoch, &only[0].version
	default:
		k.err = errors.New("expect: more than one condition")
	}
	return k
}

// units returns d as a number of units, rounded up. It sets k.err if d is negative or longer than most units.
func (k *call) units(field string, d, unit time.Duration, most int64) int64 {
	if limit := time.Duration(most) * unit; d < 0 || d > limit {
		k.err = fmt.Errorf("%s: must be from 0 to %v, not %v", field, limit, d)
	}
	return int64((d + unit - 1) / unit)
}

// frame returns the request's frame. It returns an error for text that is not valid UTF-8, which would be changed on
// the way, and for a frame that is so long that the server would end the connection.
func (k *call) frame() ([]byte, error) {
	type part struct{ field, text string }
	req := k.req
	parts := []part{
		{"room", req.Room}, {"token", req.Token}, {"user", req.User}, {"text", req.Text},
		{"data", string(req.Data)}, {"name", req.Name}, {"to", strings.Join(req.To, ",")},
		{"users", strings.Join(req.Users, ",")}, {"epoch", req.Epoch}, {"party", req.Party},
	}
	for _, p := range parts {
		if !utf8.ValidString(p.text) {
			return nil, errors.New(p.field + ": not valid UTF-8")
		}
	}
	frame := protocol.AppendRequest(nil, req)
	if len(frame) > protocol.MaxFrame {
		longest := slices.MaxFunc(parts, func(a, b part) int { return len(a.text) - len(b.text) })
		return nil, fmt.Errorf("%s: makes a frame of %d bytes, the limit is %d", longest.field, len(frame),
			protocol.MaxFrame)
	}
	return frame, nil
}

// failed returns err with the name of the request, or nil if err is nil.
func (k *call) failed(err error) error {
	switch {
	case err == nil:
		return nil
	case k.req.Room == "":
		return fmt.Errorf("client: %s: %w", k.req.Action, err)
	}
	return fmt.Errorf("client: %s of room %q: %w", k.req.Action, k.req.Room, err)
}

// Message has what a user says: either Text or Data.
type Message struct {
	Text string
	Data any // sent as JSON, by [json.Marshal]
}

// plainCall returns a call of a request that needs only a room.
func plainCall(action, room string) *call {
	return newCall(protocol.Request{Action: action, Room: room})
}

// historyCall is like plainCall, and asks for up to n of the last messages.
func historyCall(action, room string, n int) *call {
	k := plainCall(action, room)
	if k.req.History = &n; n < 0 || n > protocol.MaxHistory {
		k.err = fmt.Errorf("history: must be from 0 to %d, not %d", protocol.MaxHistory, n)
	}
	return k
}

func setCall(room, scope string, data any, only []Condition) *call {
	k := newCall(protocol.Request{Action: protocol.ActionSet, Room: room, Scope: scope}, only...)
	k.req.Data = k.jsonOf(data)
	return k
}

func sayCall(room string, m Message) *call {
	k := newCall(protocol.Request{Action: protocol.ActionSay, Room: room, Text: m.Text})
	if m.Data != nil {
		k.req.Data = k.jsonOf(m.Data)
	}
	return k
}

// Then is the effect of a timer. Set at most one field.
type Then struct {
	Close bool   // closes the room, as CloseRoom does; only for admins
	Kick  string // removes that user from the room, if present; only for admins

	// Data replaces the room's data by its JSON form, made by [json.Marshal], unless the data have changed since the
	// timer was set: for example, to pass the turn. Nil changes nothing; json.RawMessage("null") removes the data.
	Data any
}

// Condition makes a request conditional. A request accepts at most one. [Expect] returns one.
type Condition struct {
	epoch   string
	version uint64
}

// Expect makes a request depend on the epoch and version that its sender knew, from a reply, an event or a
// [ConflictError]. Set, SetMember, SetPrivate and SetPrivateOf then require that the data has not changed since that
// version; SetTimer, StopTimer and Txn that neither the room's data nor a timer has; Configure that the room still
// has exactly that version. The epoch must be the room's; "" stands for any.
func Expect(epoch string, version uint64) Condition { return Condition{epoch, version} }

// effect converts a Then to a room.Effect, nil if it is empty. It sets k.err if the Then cannot be used.
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

// jsonOf returns the JSON form of data without escapes for HTML, which would make it longer, or sets k.err.
func (k *call) jsonOf(data any) protocol.JSON {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(data); err != nil && k.err == nil {
		k.err = fmt.Errorf("data: %w", err)
	}
	return protocol.JSON(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
}
