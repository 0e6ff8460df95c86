package protocol

import (
	"errors"

	"github.com/go-json-experiment/json"

	"roomd/room"
)

// Why a member has left: the Reason of a ChangeLeave. A newer server may send others.
const (
	ReasonLeft    = "left"    // the user wanted to
	ReasonTimeout = "timeout" // the user was away for longer than the grace
	ReasonNode    = "node"    // so was the user's node
	ReasonKicked  = "kicked"  // an admin did not want the user there
	ReasonClosed  = "closed"  // an admin closed the room
	ReasonMoved   = "moved"   // an admin moved the user to another room
)

// LostReplaced is the Reason of an [EventLost] of which the others hear nothing: a newer session of the user has
// taken the seat over.
const LostReplaced = "replaced"

// Change is one thing that was done to a room.
type Change struct {
	// Type is one of the Change constants. A newer server may send others: ignore those, the
	// room has the event's version all the same.
	Type string `json:"type"`
	// User is whom the change is about, or who set the room's data or a timer, or said something, or who is the
	// host now. It is empty if that is the room, an admin, or nobody.
	User string `json:"user"`
	// Seat is the seat taken, freed or kept, counted from 0. Only in changes of a member.
	Seat int `json:"seat"`
	// Away says of a ChangeJoin that the seat is reserved for a user without a connection.
	Away bool `json:"away"`
	// Ready says of a ChangeMember whether the user is ready; nil if that is as before.
	Ready *bool `json:"ready"`
	// Reason says why a member has left.
	Reason string `json:"reason"`
	// Text is what was said, or why the member was kicked, in words.
	Text string `json:"text"`
	// Data is of a ChangeMember the user's from now on: empty if that is as before, null if there is none any more;
	// so are the private ones of a ChangePrivate. Of a ChangeData it is the room's, empty if there is none; of a
	// message, what was said.
	Data JSON `json:"data"`
	// To says where a member was moved, or to whom a message goes.
	To Target `json:"to"`
	// Name is the timer's, in ChangeCountdown and ChangeTimer.
	Name string `json:"name"`
	// In is of a ChangeCountdown in how many ms the timer fires, from when the server sent it. Nil says that the
	// timer was cancelled.
	In *int64 `json:"in"`
	// Version is of a ChangeMessage that at which it was said. It is 0 if that is the event's.
	Version uint64 `json:"version"`
	// Settings are the room's now. Only in ChangeSettings.
	Settings *room.Settings `json:"settings"`
}

// Target is where a change leads: to a room, or to users. In JSON, it is the room's id, or an array of users.
type Target struct {
	// Room is the room that a member was moved to.
	Room string
	// Users are those to whom alone a message goes. Nil means all.
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
	// Away says that the user has no connection, and that the seat is kept for a while.
	Away bool `json:"away"`
	// Ready says that the user said so.
	Ready bool `json:"ready"`
	// Data is the user's, as a member of the room; empty if there is none.
	Data JSON `json:"data"`
	// Private is what only the user and admins are shown; empty for others, and if there is none. Frames have it
	// beside the list: see [Reply.Private]. Package client puts it here.
	Private JSON `json:"-"`
}

// Change does what a ChangeMember or a ChangePrivate says: what that leaves out stays as it is.
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
