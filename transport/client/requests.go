package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"roomd/room"
	"roomd/transport/protocol"

	"github.com/google/uuid"
)

// Join makes the user a member of the room, in any free seat. The reply lists the members, and the
// room's events follow. A member who joins again keeps the seat.
//
// For this and the other requests: the reply is shared with OnReply and must not be changed. The
// error holds a [*protocol.Error] if the server refused; a [*CloseError], which is [ErrClosed], if
// the connection has ended; or ctx.Err(). After the last two the request may or may not have been
// carried out, unless the text says that it was not sent, or the code is [protocol.CloseRestart], before which a
// server answers all that it has begun. A reply that comes after ctx has ended
// goes to OnReply only.
func (c *Conn) Join(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.do(ctx, joinCall(room, nil))
}

// JoinSeat is like Join, but asks for one seat, counted from 0.
func (c *Conn) JoinSeat(ctx context.Context, room string, seat int) (*protocol.Reply, error) {
	return c.do(ctx, joinCall(room, &seat))
}

// JoinHistory is like Join, and asks for up to n of the last messages that the room has kept, as its settings say: the
// reply has them.
func (c *Conn) JoinHistory(ctx context.Context, room string, n int) (*protocol.Reply, error) {
	return c.do(ctx, historyCall(protocol.ActionJoin, room, n))
}

// Match is like Join for a room that has the labels, perhaps among others, and a free seat: the fullest there is; or, if there
// is none, for a new one with these settings, whose labels are those that are looked for. The reply has the room.
func (c *Conn) Match(ctx context.Context, labels map[string]string, begin room.Settings) (*protocol.Reply, error) {
	return c.do(ctx, matchCall(labels, begin))
}

// Leave ends the user's membership in the room and frees the seat. The reply has no list.
func (c *Conn) Leave(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.do(ctx, plainCall(protocol.ActionLeave, room))
}

// Users lists the members of the room, without joining it.
func (c *Conn) Users(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.do(ctx, plainCall(protocol.ActionUsers, room))
}

// Watch is like Users, and the room's events follow, without joining it.
func (c *Conn) Watch(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.do(ctx, plainCall(protocol.ActionWatch, room))
}

// WatchHistory is like Watch, and asks for up to n of the last messages, as JoinHistory does.
func (c *Conn) WatchHistory(ctx context.Context, room string, n int) (*protocol.Reply, error) {
	return c.do(ctx, historyCall(protocol.ActionWatch, room, n))
}

// Unwatch ends Watch; it is no error if the user does not watch. A member goes on getting the
// room's events. The reply has no list.
func (c *Conn) Unwatch(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.do(ctx, plainCall(protocol.ActionUnwatch, room))
}

// Auth shows the server a newer token of the same user, which lets the connection live until that
// one expires. It is also the first request of a client that was dialed without [Options.Token].
// The reply has the user, and when the token expires. The error is [ErrUnauthorized] if the server
// does not accept the token; the older one counts on.
func (c *Conn) Auth(ctx context.Context, token string) (*protocol.Reply, error) {
	return c.do(ctx, &call{req: &protocol.Request{Action: protocol.ActionAuth, Token: token}})
}

// Ready says whether the user, who must be a member of the room, is ready. The reply has no list.
func (c *Conn) Ready(ctx context.Context, room string, ready bool) (*protocol.Reply, error) {
	return c.do(ctx, readyCall(room, ready))
}

// Set replaces the data of the room by the JSON form of data, as [json.Marshal] makes it; nil
// removes it. With a condition made by [Expect], data that has been changed since stays as it is,
// and the error is a [*ConflictError], which has that data. The reply has no list. (The server refuses
// numbers that a double cannot hold, such as an int64 above 2⁵³: make those strings.)
func (c *Conn) Set(ctx context.Context, room string, data any, only ...Condition) (*protocol.Reply, error) {
	return c.do(ctx, setCall(room, "", data, only))
}

// SetMember is like Set for the user's own data as a member of the room.
func (c *Conn) SetMember(ctx context.Context, room string, data any, only ...Condition) (*protocol.Reply, error) {
	return c.do(ctx, setCall(room, protocol.ScopeMember, data, only))
}

// SetPrivate is like Set for data of the user as a member of the room that only the user, by whatever session, and
// admins are shown.
func (c *Conn) SetPrivate(ctx context.Context, room string, data any, only ...Condition) (*protocol.Reply, error) {
	return c.do(ctx, setCall(room, protocol.ScopePrivate, data, only))
}

// SetPrivateOf is SetPrivate for another member. Only admins may, and need not be members.
func (c *Conn) SetPrivateOf(ctx context.Context, room, user string, data any, only ...Condition) (*protocol.Reply, error) {
	return c.do(ctx, setPrivateCall(room, user, data, only))
}

// Message is what a user says: Text or Data, not both.
type Message struct {
	Text string
	Data any // sent in its JSON form, as [json.Marshal] makes it
}

// Say sends a message to all who get the room's events. The reply has no list.
func (c *Conn) Say(ctx context.Context, room string, m Message) (*protocol.Reply, error) {
	return c.do(ctx, sayCall(room, nil, m))
}

// SayTo is like Say, but only these users get the message, and the user, at most [protocol.MaxTo] different ones. The others see that the room's
// version has changed. A message to nobody is for the admins who watch, and the user does not get it.
func (c *Conn) SayTo(ctx context.Context, room string, users []string, m Message) (*protocol.Reply, error) {
	return c.do(ctx, sayCall(room, append([]string{}, users...), m))
}

// SetTimer sets one of the room's timers, as [Room.SetTimer] does. The reply has no list.
func (c *Conn) SetTimer(ctx context.Context, room, name string, in time.Duration, then Then, only ...Condition) (*protocol.Reply, error) {
	return c.do(ctx, timerCall(room, name, &in, then, only))
}

// StopTimer cancels one of the room's timers, as [Room.StopTimer] does. The reply has no list.
func (c *Conn) StopTimer(ctx context.Context, room, name string, only ...Condition) (*protocol.Reply, error) {
	return c.do(ctx, timerCall(room, name, nil, Then{}, only))
}

// Txn does several things in one version, as [Client.Txn] does. The reply has no list.
func (c *Conn) Txn(ctx context.Context, room string, actions []protocol.Request, only ...Condition) (*protocol.Reply, error) {
	return c.do(ctx, txnCall(room, actions, only))
}

// Kick makes a user leave the room, as [Client.Kick] does. The reply has no list.
func (c *Conn) Kick(ctx context.Context, room, user, why string, ban time.Duration) (*protocol.Reply, error) {
	return c.do(ctx, kickCall(room, user, why, ban))
}

// Swap has two members exchange their seats, as [Client.Swap] does. The reply has no list.
func (c *Conn) Swap(ctx context.Context, room, one, other string) (*protocol.Reply, error) {
	return c.do(ctx, swapCall(room, one, other))
}

// Shuffle gives each member the seat of another one, as [Client.Shuffle] does. The reply has no list.
func (c *Conn) Shuffle(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.do(ctx, plainCall(protocol.ActionShuffle, room))
}

// CloseRoom makes everybody leave the room, and lets nobody in. Only admins may, and the host.
func (c *Conn) CloseRoom(ctx context.Context, room string) (*protocol.Reply, error) {
	return c.do(ctx, plainCall(protocol.ActionClose, room))
}

// Configure replaces the room's settings, as [Client.Configure] does.
func (c *Conn) Configure(ctx context.Context, room string, s room.Settings, only ...Condition) (*protocol.Reply, error) {
	return c.do(ctx, configureCall(room, s, only))
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
	return &call{req: &protocol.Request{Action: protocol.ActionMatch, Labels: room.MakeLabels(labels), Settings: &begin, Key: uuid.NewString()}}
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

// sayCall is a message for all, or, if to is not nil, for those.
func sayCall(room string, to []string, m Message) *call {
	k := plainCall(protocol.ActionSay, room)
	k.req.To, k.req.Text = to, m.Text
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
