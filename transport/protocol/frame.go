package protocol

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"roomd/room"
)

// Kinds of an [Event].
const (
	EventChanges  = "changes"  // what was committed since version From
	EventSnapshot = "snapshot" // the whole list, in place of the changes before it
	EventLost     = "lost"     // this session has no seat in the room any more
	EventNode     = "node"     // whether the node can reach Redis: it is of no room

	// EventUnwatched: this session watches the room no more, because it may not. Reason is the code of
	// an error. It comes behind EventLost if the session was a member, too.
	EventUnwatched = "unwatched"
)

// Frame is what a server sends: a [*Reply] or an [*Event].
type Frame interface{ frame() }

func (*Reply) frame() {}
func (*Event) frame() {}

// Reply answers one request. With Error set it is a refusal, and only ID, Room and Error count;
// if the code is CodeConflict, Epoch, Version and Data, too, which are what there is now, or of a
// join Reason, Text and To. The answer to a ping has only an ID.
// [AppendReply] writes it and [DecodeFrame] reads it; it has no JSON form of its own.
type Reply struct {
	// ID is the request's. It is nil only in the refusal of a frame whose id could not be read.
	ID *int64
	// Room is the room's id. In a refusal it is what the request named, and may be empty.
	Room string
	// Epoch is the room's life in which Version counts: versions of two epochs cannot be compared.
	Epoch string
	// Version is the room's after the action. It counts the room's commits from 1.
	Version uint64
	// Seat is the joined user's seat, counted from 0; nil in answers to other actions.
	Seat *int
	// Count is the number of members after the action.
	Count int
	// Settings are the room's, where Users are listed; nil if all of them are zero.
	Settings *room.Settings
	// Data is the room's, where Users are listed; empty if there is none. In a refusal with
	// CodeConflict it is that which the request would have replaced, also if that is a member's.
	Data JSON
	// Private are, where Users are listed, the private data that the client may see, by user: its own, and
	// everybody's if it is an admin.
	Private map[string]JSON
	// Said are, in the answer to a join, the last messages that the room has kept, oldest first.
	Said []Said
	// Timers are the room's, where Users are listed; nil if there are none.
	Timers Timers
	// Host is who is the host of the room, where Users are listed; empty if nobody is.
	Host string
	// Users are the members, for join, users and watch. Nil leaves the list out, as the answers to
	// leave and unwatch do; the list of an empty room must be empty but not nil.
	Users []Seated
	// List, if not nil, is what AppendUsers made of Users, and is written instead.
	List []byte
	// User is who the client is by its token. Only in answers to auth, which have no room; it is empty in others.
	User string
	// Expires is when the token expires, in seconds since 1970. Only in answers to auth.
	Expires int64
	// Time is what the server's clock says, in ms since 1970. Only in answers to ping.
	Time int64
	// Reason says in the conflict of a join why the user was taken out of the room: ReasonKicked,
	// ReasonMoved or ReasonClosed. Text says of a kick why, in words, and To of a move whereto. They
	// are as in an EventLost, and empty in other replies.
	Reason, Text, To string
	// Error is nil if the action was done.
	Error *Error
}

// Said is a message of before, which a room has kept.
type Said struct {
	// Epoch is the room's life in which Version counts; empty if it is the reply's.
	Epoch string `json:"epoch,omitzero"`
	// Version is the room's when it was said.
	Version uint64 `json:"version"`
	// User is who said it; empty if that was an admin who is no member.
	User string `json:"user,omitzero"`
	// Text is what was said, or Data is.
	Text string `json:"text,omitzero"`
	Data JSON   `json:"data,omitzero"`
	// To are those to whom alone it went. Nil means all.
	To []string `json:"to,omitzero"`
}

// Change returns the message as an event had it.
func (s *Said) Change() Change {
	return Change{Type: ChangeMessage, User: s.User, Text: s.Text, Data: s.Data, To: Target{Users: s.To}}
}

// Event says what has changed in a room. [AppendEvent] writes it and [DecodeFrame] reads it; it
// has no JSON form of its own.
type Event struct {
	// Degraded says in an EventNode that the node cannot reach Redis: rooms stand still until another
	// one says that it can.
	Degraded bool
	// Event is one of the Event constants. A newer server may send others: ignore those.
	Event string
	// Room is the room's id.
	Room string
	// Epoch is the room's life in which Version and From count.
	Epoch string
	// Version is the room's after the event.
	Version uint64
	// From is the version that Changes build on. A client whose copy of the room has another
	// version, or another epoch, has missed something and asks for users. Unused in a snapshot.
	From uint64
	// Changes are in the order they were made. Unused in a snapshot.
	Changes []Change
	// Count is the number of members. Only in a snapshot.
	Count int
	// Settings are the room's. Only in a snapshot; nil if all of them are zero.
	Settings *room.Settings
	// Data is the room's. Only in a snapshot; empty if there is none.
	Data JSON
	// Private are the private data that the client may see, by user. Only in a snapshot.
	Private map[string]JSON
	// Timers are the room's. Only in a snapshot; nil if there are none.
	Timers Timers
	// Host is who is the host of the room, in a snapshot; empty if nobody is.
	Host string
	// Users are the members. Only in a snapshot, where nil means none.
	Users []Seated
	// List, if not nil, is what AppendUsers made of Users, and is written instead.
	List []byte
	// Reason says why the seat is lost: an error code, or ReasonKicked, ReasonClosed, ReasonMoved, ReasonLeft or
	// LostReplaced. In EventUnwatched it is the code of an error. Only in these, and EventLost has no epoch or
	// version: it comes after the session's last event as a member. A session that also watches the room gets
	// further events.
	Reason string
	// Text says with ReasonKicked why, in words. It may be empty. Only in EventLost.
	Text string
	// To is, with ReasonMoved, the room in which the session is now, of which a snapshot follows. Only in EventLost.
	To string
}

// received has the fields of both kinds of server frame.
type received struct {
	ID       *int64          `json:"id"`
	Error    *Error          `json:"error"`
	Event    *string         `json:"event"`
	Room     string          `json:"room"`
	Epoch    string          `json:"epoch"`
	Version  uint64          `json:"version"`
	From     uint64          `json:"from"`
	Seat     *int            `json:"seat"`
	Count    int             `json:"count"`
	Settings *room.Settings  `json:"settings"`
	Changes  []Change        `json:"changes"`
	Users    []Seated        `json:"users"`
	Data     JSON            `json:"data"`
	Private  map[string]JSON `json:"private"`
	Timers   Timers          `json:"timers"`
	Said     []Said          `json:"said"`
	Host     string          `json:"host"`
	Reason   string          `json:"reason"`
	Text     string          `json:"text"`
	To       Target          `json:"to"`
	Degraded bool            `json:"degraded"`
	User     string          `json:"user"`
	Expires  int64           `json:"expires"`
	Time     int64           `json:"time"`
}

var errNoFrame = errors.New("protocol: server frame has no id, no event and no error")

// DecodeFrame reads one frame from a server. It ignores unknown fields, and leaves missing ones
// zero. The error says what is wrong with the frame; a server that keeps to the protocol never
// causes one. The frame keeps no part of data.
func DecodeFrame(data []byte) (Frame, error) {
	var r received
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("protocol: server frame: %w", err)
	}
	switch {
	case r.Event != nil:
		return &Event{
			Event: *r.Event, Room: r.Room, Epoch: r.Epoch, Version: r.Version,
			From: r.From, Changes: r.Changes, Count: r.Count, Settings: r.Settings, Data: r.Data, Private: r.Private,
			Timers: r.Timers, Host: r.Host, Users: r.Users,
			Reason: r.Reason, Text: r.Text, To: r.To.Room, Degraded: r.Degraded,
		}, nil
	case r.ID != nil || r.Error != nil:
		return &Reply{
			ID: r.ID, Room: r.Room, Epoch: r.Epoch, Version: r.Version,
			Seat: r.Seat, Count: r.Count, Settings: r.Settings, Data: r.Data, Private: r.Private, Timers: r.Timers,
			Host: r.Host, Said: r.Said, Users: r.Users,
			User: r.User, Expires: r.Expires, Time: r.Time, Reason: r.Reason, Text: r.Text, To: r.To.Room,
			Error: r.Error,
		}, nil
	}
	return nil, errNoFrame
}
