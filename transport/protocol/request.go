package protocol

import (
	"encoding/json"
	"reflect"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"roomd/room"
)

// Scopes of a set: whose data it replaces.
const (
	ScopeRoom    = "room"
	ScopeMember  = "member"
	ScopePrivate = "private" // a member's data that only the member and admins see
)

// Limits of a request, all inclusive.
const (
	MaxID      = 1<<53 - 1 // the largest whole number that every JSON reader holds exactly
	MaxVersion = MaxID
	MaxSeat    = 1<<16 - 1
	MaxTo      = 64            // recipients of a message
	MaxTxn     = room.MaxTxn   // actions of a txn
	MaxBan     = 315360000     // seconds, ten years
	MaxHistory = 100           // messages for a join or a watch
	MaxTimer   = room.MaxTimer // ms
)

// Request is one frame from a client. The zero value is not valid: it has no action.
type Request struct {
	// ID is chosen by the client, from 0 to MaxID, and comes back in the reply. Unique ones tell replies apart.
	ID int64
	// Action is one of the Action constants.
	Action string
	// Room is the room's id as written, unchecked. ActionMatch, ActionAuth and ActionPing have none.
	Room string
	// Token goes with ActionAuth only. It is not checked here.
	Token string
	// Seat is the seat that a join asks for, from 0 to MaxSeat. Nil means any free seat.
	Seat *int
	// Brief asks for a reply without the list. Only with ActionJoin and ActionMatch.
	Brief bool
	// History is how many of the room's last messages a join or a watch asks for, at most MaxHistory; with Expect, of
	// those after that version. Nil means none or, with Expect, all of those.
	History *int
	// Value says whether the user is ready. Only with ActionReady.
	Value bool
	// User is the user whom a kick removes, or whose private data a set with ScopePrivate replaces: empty in a set
	// means the client's own. It is not checked here.
	User string
	// Scope says whose data a set replaces: ScopeRoom, ScopeMember or ScopePrivate. Empty means ScopeRoom.
	Scope string
	// Settings replace all settings of the room. Only with ActionConfigure, where they are never nil, and with
	// ActionMatch, for a room that it creates.
	Settings *room.Settings
	// Labels are the labels of the rooms that a match looks for. They are not checked here.
	Labels room.Labels
	// Key identifies a match: repeated with the same key, it finds the same room. Empty means that it is not repeated.
	Key string
	// Party is the room whose members Users a match moves, once they have agreed. It is not checked here.
	Party string
	// Text is the text of a message, or the reason of a kick; empty means none.
	Text string
	// Data is the data of a message, which has no Text then, or the new data of a set, where null removes the old.
	Data JSON
	// To are the only users beside the sender who get a message, at most MaxTo different ones. Empty but not nil means
	// only admins, nil everybody who gets the room's events.
	To []string
	// Users are the two different users who exchange their seats by ActionSwap, or the party that ActionMatch moves, at
	// most room.MaxGroup different ones.
	Users []string
	// Name is the name of a timer. It is not checked here.
	Name string
	// In is the time until a timer fires, in ms, at most MaxTimer. Nil cancels it. Only with ActionTimer.
	In *int64
	// Then is the effect of a timer that fires; nil means none. Only with ActionTimer.
	Then *room.Effect
	// Actions are the parts of a txn, in order, 1 to MaxTxn, without id, room, expect and epoch. Only with ActionTxn.
	Actions []Request
	// Ban is for how long a kick keeps the user out, in seconds, at most MaxBan. 0 means not at all.
	Ban int
	// Expect is the version, from 0 to MaxVersion, that a set, a timer, a txn or a configure builds on, or that the
	// client had before a join or a watch. Nil sets no condition.
	Expect *uint64
	// Epoch is the room's life in which Expect counts. Empty means the current one, and is not sent.
	Epoch string
}

// JSON is a JSON text as it was sent, such as the data of a room. Empty means none. Its own JSON form is that text.
type JSON string

// MarshalJSON returns the text, or null if there is none.
func (j JSON) MarshalJSON() ([]byte, error) { return appendJSON(nil, j), nil }

// UnmarshalJSON keeps the text.
func (j *JSON) UnmarshalJSON(text []byte) error {
	*j = JSON(text)
	return nil
}

// Decode stores the value of the text in v, as [json.Unmarshal] does. An empty text is null.
func (j JSON) Decode(v any) error { return json.Unmarshal(appendJSON(nil, j), v) }

// AppendRequest appends r to dst as one JSON object and returns the longer slice. It writes the action's required
// fields and those that are set, unchecked: [DecodeRequest] checks them. Data must be JSON; empty stands for null. In
// other fields bytes that are not UTF-8 become U+FFFD.
func AppendRequest(dst []byte, r *Request) []byte {
	return appendRest(append(appendInt(dst, `{"id":`, r.ID), ','), r, 0)
}

// appendRest writes a request's object after its id, except the fields in without.
func appendRest(dst []byte, r *Request, without fieldSet) []byte {
	dst = appendString(append(dst, `"action":`...), r.Action)
	var required fieldSet
	if action := ActionNamed(r.Action); action != nil {
		required = action.required
	}
	for f := fieldRoom; f < fieldUnknown; f++ {
		in := fieldTable[f].in(r)
		if without.has(f) || !required.has(f) && reflect.ValueOf(in).Elem().IsZero() {
			continue
		}
		dst = append(append(append(dst, `,"`...), f.name()...), `":`...)
		switch v := in.(type) {
		case *string:
			dst = appendString(dst, *v)
		case *JSON:
			dst = appendJSON(dst, *v)
		case *[]Request:
			dst = append(dst, '[')
			for i := range *v {
				dst = appendRest(append(comma(dst), '{'), &(*v)[i], ofWhole)
			}
			dst = append(dst, ']')
		case **room.Effect:
			dst = appendEffect(dst, *v)
		default:
			text, _ := jsonv2.Marshal(v, jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true))
			dst = append(dst, text...)
		}
	}
	return append(dst, '}')
}

// appendEffect writes the effect of a timer, whose data stay as they are.
func appendEffect(dst []byte, then *room.Effect) []byte {
	switch {
	case then.Close:
		return append(dst, `{"close":true}`...)
	case then.Data != nil:
		return append(append(append(dst, `{"data":`...), then.Data...), '}')
	}
	return append(appendString(append(dst, `{"kick":`...), then.Kick), '}')
}
