package protocol

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"roomd/room"
)

// Kinds of an [Event].
const (
	EventChanges  = "changes"  // the changes since version From
	EventSnapshot = "snapshot" // the whole room, in place of the changes before it
	EventLost     = "lost"     // this session has no seat in the room any more
	EventNode     = "node"     // the node cannot reach Redis, or reaches it again; has no room

	// EventUnwatched: this session no longer watches the room, because that is forbidden now. Reason is an error
	// code. If the session was a member, too, EventLost comes first.
	EventUnwatched = "unwatched"
)

// Frame is a frame from a server: a [*Reply] or an [*Event].
type Frame interface{ frame() }

func (*Reply) frame() {}
func (*Event) frame() {}

// Reply answers one request. With Error set it is a refusal, which has only ID, Room and Error. If its code is
// CodeConflict, it also has the current Epoch, Version and Data and, for a join, Reason, Text and To. [AppendReply]
// writes a Reply and [DecodeFrame] reads it; it has no JSON form of its own.
type Reply struct {
	// ID is the request's id. It is nil only in the refusal of a frame whose id could not be read.
	ID *int64
	// Room is the room's id; in a refusal, the one that the request named, perhaps empty.
	Room string
	// Epoch is the room's life in which Version counts: versions of two epochs cannot be compared.
	Epoch string
	// Version is the version of the room after the action. It counts the room's commits from 1.
	Version uint64
	// Seat is the joined user's seat, from 0; nil in answers to other actions.
	Seat *int
	// State is set in answers to join, match, users and watch. Without the list (see Request.Brief), and in answers
	// to other actions, only Count is set. With CodeConflict, Data is the room's or, for a set, what it would replace.
	State
	// Said are the room's last kept messages, oldest first, in the answer to a join or a watch.
	Said []Said
	// User is the user that the token names. Only in answers to auth, which have an ID, User and Expires.
	User string
	// Expires is when the token expires, in seconds since 1970. Only in answers to auth.
	Expires int64
	// Time is the server's clock, in ms since 1970. Only in answers to ping, which have an ID and a Time.
	Time int64
	// Reason is why the user was removed, in the conflict of a join: ReasonKicked, ReasonMoved or ReasonClosed. Text
	// explains a kick in words, To is the target of a move. All are as in EventLost, and empty in other replies.
	Reason, Text, To string
	// Error is nil if the action was done.
	Error *Error
}

// State is a room as the user may see it at one version.
type State struct {
	// Count is the number of members.
	Count int `json:"count"`
	// Settings are nil if all are zero.
	Settings *room.Settings `json:"settings"`
	// Data is the data of the room; empty if there is none.
	Data JSON `json:"data"`
	// Private are the private data that the client may see, by user: its own, or all for admins.
	Private map[string]JSON `json:"private"`
	// Timers are nil if there are none.
	Timers Timers `json:"timers"`
	// Host is the member who is the host; empty if there is none.
	Host string `json:"host"`
	// Users are the members. A reply leaves out a nil list; the list of an empty room is empty but not nil.
	Users []Seated `json:"users"`
	// List, if not nil, is the result of AppendUsers for Users, and is written instead.
	List []byte `json:"-"`
}

// Said is an earlier message that a room has kept.
type Said struct {
	// Epoch is the room's life in which Version counts; empty if it is the Epoch of the reply.
	Epoch string `json:"epoch,omitzero"`
	// Version is the version of the room in which the message was sent.
	Version uint64 `json:"version"`
	// User is the sender; empty for an admin who is no member.
	User string `json:"user,omitzero"`
	// Text is the message, if it is a text; otherwise Data is.
	Text string `json:"text,omitzero"`
	Data JSON   `json:"data,omitzero"`
	// To are the only recipients. Nil means all.
	To []string `json:"to,omitzero"`
}

// Change returns the message as a change of an event.
func (s *Said) Change() Change {
	return Change{Type: ChangeMessage, User: s.User, Text: s.Text, Data: s.Data, To: Target{Users: s.To}}
}

// Event is news about a room or, in EventNode, the node. [AppendEvent] writes it and [DecodeFrame] reads it.
type Event struct {
	// Degraded says that the node cannot reach Redis: rooms stand still until the next EventNode. Only in EventNode.
	Degraded bool
	// Event is one of the Event constants. A newer server may send others: ignore those.
	Event string
	// Room is the room's id; empty in EventNode.
	Room string
	// Epoch is the room's life in which Version and From count.
	Epoch string
	// Version is the version of the room after the event.
	Version uint64
	// From is the version that Changes build on. A client whose copy has another version or epoch has missed
	// something, and asks for users. Unused in a snapshot.
	From uint64
	// Changes are in order. Unused in a snapshot.
	Changes []Change
	// State is the room's state in a snapshot. Nil Users mean that there are none.
	State
	// Reason is why the seat is lost: an error code, ReasonKicked, ReasonClosed, ReasonMoved, ReasonLeft or
	// LostReplaced; in EventUnwatched, an error code. Empty in other events. EventLost has no epoch or version. It
	// follows the session's last event as a member; only a session that also watches the room gets further ones.
	Reason string
	// Text explains ReasonKicked in words, if not empty. Only in EventLost.
	Text string
	// To is the room to which ReasonMoved has moved the session; its snapshot follows. Only in EventLost.
	To string
}

// received has the fields of both kinds of server frame.
type received struct {
	ID      *int64  `json:"id"`
	Error   *Error  `json:"error"`
	Event   *string `json:"event"`
	Room    string  `json:"room"`
	Epoch   string  `json:"epoch"`
	Version uint64  `json:"version"`
	From    uint64  `json:"from"`
	Seat    *int    `json:"seat"`
	State
	Changes  []Change `json:"changes"`
	Said     []Said   `json:"said"`
	Reason   string   `json:"reason"`
	Text     string   `json:"text"`
	To       Target   `json:"to"`
	Degraded bool     `json:"degraded"`
	User     string   `json:"user"`
	Expires  int64    `json:"expires"`
	Time     int64    `json:"time"`
}

var errNoFrame = errors.New("protocol: server frame has no id, no event and no error")

// DecodeFrame reads a frame from a server. It ignores unknown fields, and leaves missing ones zero. An error means
// that the server broke the protocol. The frame keeps no part of data.
func DecodeFrame(data []byte) (Frame, error) {
	var r received
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("protocol: server frame: %w", err)
	}
	switch {
	case r.Event != nil:
		return &Event{
			Event: *r.Event, Room: r.Room, Epoch: r.Epoch, Version: r.Version, From: r.From, Changes: r.Changes,
			State: r.State, Reason: r.Reason, Text: r.Text, To: r.To.Room, Degraded: r.Degraded,
		}, nil
	case r.ID != nil || r.Error != nil:
		return &Reply{
			ID: r.ID, Room: r.Room, Epoch: r.Epoch, Version: r.Version, Seat: r.Seat, State: r.State, Said: r.Said,
			User: r.User, Expires: r.Expires, Time: r.Time, Reason: r.Reason, Text: r.Text, To: r.To.Room,
			Error: r.Error,
		}, nil
	}
	return nil, errNoFrame
}

// Kinds of a [Change].
const (
	ChangeJoin     = "join"
	ChangeLeave    = "leave"
	ChangeAway     = "away"     // the member's connection is lost, and the seat is kept for a while
	ChangeBack     = "back"     // the member has a connection again
	ChangeSeat     = "seat"     // the member has another seat; its former owner has another one in the same version
	ChangeSettings = "settings" // the room has other settings
	ChangeMember   = "member"   // a member's ready flag or data: only what has changed
	ChangePrivate  = "private"  // a member's private data have changed; only that member and admins are told
	ChangeHost     = "host"     // another member is the host; without a user, nobody is
	ChangeData     = "data"     // the room has other data
	ChangeMessage  = "message"  // a message; the room is unchanged

	ChangeCountdown = "countdown" // one of the room's timers was set, or cancelled
	ChangeTimer     = "timer"     // one of the room's timers has fired
)

// Reasons of a ChangeLeave. A newer server may send others.
const (
	ReasonLeft    = "left"    // the user chose to
	ReasonTimeout = "timeout" // the user was away for longer than the grace
	ReasonNode    = "node"    // the user's node died, and the user did not come back
	ReasonKicked  = "kicked"  // an admin, the host or a timer removed the user
	ReasonClosed  = "closed"  // an admin, the host or a timer closed the room
	ReasonMoved   = "moved"   // an admin moved the user to another room
)

// LostReplaced is the reason of an [EventLost] that others do not see: a newer session of the user has the seat.
const LostReplaced = "replaced"

// Change is a change of a room.
type Change struct {
	// Type is one of the Change constants. Ignore unknown ones of a newer server, but not the event's version.
	Type string `json:"type"`
	// User is the member concerned, the new host, the sender of the message, or the user who set the room's data or a
	// timer. It is empty if there is no such user: a timer or a backend may act, too.
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
	// Data is the content of a message, or new data: the room's in a ChangeData, where empty means none; a member's in
	// a ChangeMember, where empty means unchanged, or ChangePrivate. In these two null means removed.
	Data JSON `json:"data"`
	// To is where a member was moved, or the recipients of a message.
	To Target `json:"to"`
	// Name is the name of the timer, in ChangeCountdown and ChangeTimer.
	Name string `json:"name"`
	// In is, in a ChangeCountdown, the time until the timer fires, in ms since the server sent it; nil if cancelled.
	In *int64 `json:"in"`
	// Version is the version of a ChangeMessage if it is not the event's; otherwise 0.
	Version uint64 `json:"version"`
	// Settings are the new settings of the room. Only in ChangeSettings.
	Settings *room.Settings `json:"settings"`
}

// Target is a room's id or users. In JSON, it is a string, or an array of users.
type Target struct {
	// Room is the room to which a member was moved.
	Room string
	// Users are the only recipients of a message. Nil means all.
	Users []string
}

// MarshalJSON returns an array if Users is not nil, otherwise a string.
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
	// Data is the data of the member; empty if there is none.
	Data JSON `json:"data"`
	// Private is the member's private data, for the user and admins; empty for others, and if there is none. Frames
	// have it in [Reply.Private] instead; package client puts it here.
	Private JSON `json:"-"`
}

// Change applies a ChangeMember, whose empty fields change nothing, or a ChangePrivate.
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
