package protocol

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The actions a request may ask for.
const (
	ActionJoin  = "join"  // become a member of a room, and get its events
	ActionLeave = "leave" // stop being a member
	ActionUsers = "users" // read who is in a room, without joining

	ActionWatch   = "watch"   // read who is in a room, and get its events, without joining
	ActionUnwatch = "unwatch" // stop watching; a member goes on getting events

	ActionAuth = "auth" // say with a token who the user is, or show a newer token
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
	ID int64 `json:"id"`
	// Action is one of the Action constants.
	Action string `json:"action"`
	// Room is the room's id as the client wrote it. Its length and characters are not checked, and
	// it may be empty. It goes with every action but ActionAuth.
	Room string `json:"room"`
	// Seat is the seat that a join asks for, from 0 to MaxSeat. Nil means any free seat, and is
	// the only value that goes with other actions.
	Seat *int `json:"seat,omitzero"`
	// Token goes with ActionAuth only. It is not checked here.
	Token string `json:"token,omitzero"`
}

// authRequest is a Request with ActionAuth, which has no room.
type authRequest struct {
	ID     int64  `json:"id"`
	Action string `json:"action"`
	Token  string `json:"token"`
}

// AppendRequest appends r to dst as one JSON object and returns the longer slice. It does not
// check r: [DecodeRequest] does. Bytes that are not UTF-8 are written as U+FFFD.
func AppendRequest(dst []byte, r *Request) []byte {
	var value any = r
	if r.Action == ActionAuth {
		value = authRequest{r.ID, r.Action, r.Token}
	}
	// The only possible error, bad UTF-8, is allowed.
	frame, _ := json.Marshal(value, jsontext.AllowInvalidUTF8(true))
	return append(dst, frame...)
}
