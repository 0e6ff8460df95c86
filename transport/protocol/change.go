package protocol

import (
	"errors"

	"github.com/go-json-experiment/json"

	"roomd/room"
)

// Reasons of a ChangeLeave. A newer server may send others.
const (
	ReasonLeft    = "left"    // the user chose to
	ReasonTimeout = "timeout" // the user was away for longer than the grace
	ReasonNode    = "node"    // the node was away for longer than the grace
	ReasonKicked  = "kicked"  // an admin, or the host, removed the user
	ReasonClosed  = "closed"  // an admin closed the room
	ReasonMoved   = "moved"   // an admin moved the user to another room
)

// LostReplaced is the reason of an [EventLost] that others do not see: a newer session of the user has the seat.
const LostReplaced = "replaced"

// Change is a change of a room.
type Change struct {
	// Type is one of the Change constants. Ignore unknown ones of a newer server, but not the event's version.
	Type string `json:"type"`
	// User is the user whom the change is about: also the one who set the room's data or a timer, sent the message,
	// or is the host now. It is empty for the room, an admin, or nobody.
	User string `json:"user"`
	// Seat is the seat taken, freed or kept, from 0. Only in changes of a member.
	Seat int `json:"seat"`
	// Away says in a ChangeJoin that the seat is reserved for a user without a connection.
	Away bool `json:"away"`
	// Ready says in a ChangeMember whether the user is ready; nil if unchanged.
	Ready *bool `json:"ready"`
	// Reason is one of the Reason constants. Only in a ChangeLeave.
	Reason string `json:"reason"`
	// Text is the text of a message, or the reason of a kick in words.
	Text string `json:"text"`
	// Data is the new data: of the member in a ChangeMember or (private) ChangePrivate, where empty means unchanged
	// and null removed; of the room in a ChangeData, where empty means none; of the message in a ChangeMessage.
	Data JSON `json:"data"`
	// To is where a member was moved, or the recipients of a message.
	To Target `json:"to"`
	// Name is the timer's, in ChangeCountdown and ChangeTimer.
	Name string `json:"name"`
	// In is, in a ChangeCountdown, the time until the timer fires, in ms since the server sent it; nil if cancelled.
	In *int64 `json:"in"`
	// Version is the version of a ChangeMessage if it is not the event's; otherwise 0.
	Version uint64 `json:"version"`
	// Settings are the room's new ones. Only in ChangeSettings.
	Settings *room.Settings `json:"settings"`
}

// Target is a room's id or users. In JSON, it is a string, or an array of users.
type Target struct {
	// Room is the room to which a member was moved.
	Room string
	// Users are the only recipients of a message. Nil means all.
	Users []string
}

// MarshalJSON returns an array if there are users.
func (t Target) MarshalJSON() ([]byte, error) { return t.append(nil), nil }

// UnmarshalJSON takes a string or an array of strings.
func (t *Target) UnmarshalJSON(text []byte) error {
	switch {
	case len(text) > 0 && text[0] == '"':
		return json.Unmarshal(text, &t.Room)
	case len(text) > 0 && text[0] == '[':
		return json.Unmarshal(text, &t.Users)
	}
	return errors.New("neither a room nor users")
}

func (t *Target) append(dst []byte) []byte {
	if t.Users != nil {
		return appendStrings(dst, t.Users)
	}
	return appendString(dst, t.Room)
}

// Seated is a user in a seat, counted from 0.
type Seated struct {
	User string `json:"user"`
	Seat int    `json:"seat"`
	// Away says that the user has no connection, and keeps the seat for a while.
	Away bool `json:"away"`
	// Ready says whether the user declared to be ready.
	Ready bool `json:"ready"`
	// Data is the member's; empty if there is none.
	Data JSON `json:"data"`
	// Private is the member's private data, for the user and admins; empty for others, and if there is none. Frames
	// have it in [Reply.Private] instead; package client puts it here.
	Private JSON `json:"-"`
}

// Change applies a ChangeMember or a ChangePrivate: what it leaves out stays as it is.
func (s *Seated) Change(c *Change) {
	if c.Type == ChangePrivate {
		if s.Private = c.Data; c.Data == "null" {
			s.Private = ""
		}
		return
	}
	if c.Ready != nil {
		s.Ready = *c.Ready
	}
	switch c.Data {
	case "":
	case "null":
		s.Data = ""
	default:
		s.Data = c.Data
	}
}
