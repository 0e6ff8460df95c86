package protocol

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// The actions a request may ask for.
const (
	ActionJoin  = "join"  // become a member of a room, and get its events
	ActionLeave = "leave" // stop being one
	ActionUsers = "users" // read who is in a room, without joining

	ActionWatch   = "watch"   // get a room's events without joining, from the list in the reply on
	ActionUnwatch = "unwatch" // stop that; a member goes on getting them
)

// Bounds of a request's numbers, both inclusive.
const (
	MaxID   = 1<<53 - 1 // the largest whole number that every JSON reader holds exactly
	MaxSeat = 1<<16 - 1
)

// Request is one frame from a client. The zero value is not a valid request: it has no action.
type Request struct {
	// ID is chosen by the client, from 0 to MaxID, and comes back in the reply. Using one twice
	// is allowed, but then the client cannot tell the replies apart.
	ID int64
	// Action is one of the Action constants.
	Action string
	// Room is the room's id, as the client wrote it: not checked for length or characters, and
	// possibly empty.
	Room string
	// Seat is the seat that a join asks for, from 0 to MaxSeat. Nil means any free seat, and is
	// the only value that goes with other actions.
	Seat *int
}

// AppendRequest appends r to dst as one JSON object and returns the longer slice. It writes what
// it is given: [DecodeRequest] is where requests are checked. Bytes that are not UTF-8 are written
// as U+FFFD.
func AppendRequest(dst []byte, r *Request) []byte {
	dst = append(dst, `{"id":`...)
	dst = strconv.AppendInt(dst, r.ID, 10)
	dst = append(dst, `,"action":`...)
	dst = appendString(dst, r.Action)
	dst = append(dst, `,"room":`...)
	dst = appendString(dst, r.Room)
	if r.Seat != nil {
		dst = append(dst, `,"seat":`...)
		dst = strconv.AppendInt(dst, int64(*r.Seat), 10)
	}
	return append(dst, '}')
}

// appendString quotes s with the fewest escapes JSON allows: Chinese and emoji stay as they are.
func appendString(dst []byte, s string) []byte {
	// The error only says that bad UTF-8 was replaced, and a valid frame must go out all the same.
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}
