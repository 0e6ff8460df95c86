package protocol

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The server's frames are written by hand, because one is written for each action and each event:
// a reply takes 56 ns where the JSON library takes 920, an event 79 instead of 560, and a list of
// 10,000 members 0.28 ms instead of 1.1 (BenchmarkAppendReply and the like).

// AppendReply appends r to dst as one JSON object and returns the longer slice. Of a refusal it
// writes the id, if there is one, and the error; of an answer to auth the id, User and Expires. Bytes that are not UTF-8 are written as U+FFFD.
func AppendReply(dst []byte, r *Reply) []byte {
	dst = append(dst, '{')
	if r.ID != nil {
		dst = append(dst, `"id":`...)
		dst = strconv.AppendInt(dst, *r.ID, 10)
		dst = append(dst, ',')
	}
	if r.Error != nil {
		dst = append(dst, `"error":`...)
		dst = appendError(dst, r.Error)
		return append(dst, '}')
	}
	if r.User != "" {
		dst = append(dst, `"user":`...)
		dst = appendString(dst, r.User)
		dst = append(dst, `,"expires":`...)
		dst = strconv.AppendInt(dst, r.Expires, 10)
		return append(dst, '}')
	}
	dst = append(dst, `"room":`...)
	dst = appendRoom(dst, r.Room, r.Epoch, r.Version)
	if r.Seat != nil {
		dst = append(dst, `,"seat":`...)
		dst = strconv.AppendInt(dst, int64(*r.Seat), 10)
	}
	dst = append(dst, `,"count":`...)
	dst = strconv.AppendInt(dst, int64(r.Count), 10)
	dst = appendSettings(dst, r.Settings)
	if r.List != nil {
		dst = append(dst, `,"users":`...)
		dst = append(dst, r.List...)
	} else if r.Users != nil {
		dst = append(dst, `,"users":`...)
		dst = AppendUsers(dst, r.Users)
	}
	return append(dst, '}')
}

// AppendEvent appends e to dst as one JSON object and returns the longer slice. It writes count
// and users of a snapshot, the reason of a lost seat, and from and changes of any other event.
// Bytes that are not UTF-8 are written as U+FFFD.
func AppendEvent(dst []byte, e *Event) []byte {
	dst = append(dst, `{"event":`...)
	dst = appendString(dst, e.Event)
	dst = append(dst, `,"room":`...)
	if e.Event == EventLost {
		dst = appendString(dst, e.Room)
		dst = append(dst, `,"reason":`...)
		dst = appendString(dst, e.Reason)
		return append(dst, '}')
	}
	dst = appendRoom(dst, e.Room, e.Epoch, e.Version)
	if e.Event == EventSnapshot {
		dst = append(dst, `,"count":`...)
		dst = strconv.AppendInt(dst, int64(e.Count), 10)
		dst = appendSettings(dst, e.Settings)
		dst = append(dst, `,"users":`...)
		dst = AppendUsers(dst, e.Users)
		return append(dst, '}')
	}
	dst = append(dst, `,"from":`...)
	dst = strconv.AppendUint(dst, e.From, 10)
	dst = append(dst, `,"changes":[`...)
	for i := range e.Changes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendChange(dst, &e.Changes[i])
	}
	return append(dst, `]}`...)
}

func appendChange(dst []byte, c *Change) []byte {
	dst = append(dst, `{"type":`...)
	dst = appendString(dst, c.Type)
	if c.User != "" {
		dst = append(dst, ',')
		dst = appendSeat(dst, c.User, c.Seat)
	}
	if c.Reason != "" {
		dst = append(dst, `,"reason":`...)
		dst = appendString(dst, c.Reason)
	}
	dst = appendSettings(dst, c.Settings)
	return append(dst, '}')
}

// appendSettings writes the settings of a room that has some. They are few and short.
func appendSettings(dst []byte, s *Settings) []byte {
	if s == nil {
		return dst
	}
	text, _ := json.Marshal(s) // numbers and truth values
	return append(append(dst, `,"settings":`...), text...)
}

// appendRoom writes a room's id, epoch and version.
func appendRoom(dst []byte, room, epoch string, version uint64) []byte {
	dst = appendString(dst, room)
	dst = append(dst, `,"epoch":`...)
	dst = appendString(dst, epoch)
	dst = append(dst, `,"version":`...)
	return strconv.AppendUint(dst, version, 10)
}

// seatedSize is about how many bytes a user and a seat take.
const seatedSize = 40

// AppendUsers appends the list of a room as a JSON array.
func AppendUsers(dst []byte, users []Seated) []byte {
	dst = append(slices.Grow(dst, 2+seatedSize*len(users)), '[')
	for i := range users {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '{')
		dst = appendSeat(dst, users[i].User, users[i].Seat)
		if users[i].Away {
			dst = append(dst, `,"away":true`...)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// appendSeat writes a user and a seat.
func appendSeat(dst []byte, user string, seat int) []byte {
	dst = append(dst, `"user":`...)
	dst = appendString(dst, user)
	dst = append(dst, `,"seat":`...)
	return strconv.AppendInt(dst, int64(seat), 10)
}

func appendError(dst []byte, e *Error) []byte {
	dst = append(dst, `{"code":`...)
	dst = appendString(dst, e.Code)
	dst = append(dst, `,"message":`...)
	dst = appendString(dst, e.Message)
	dst = append(dst, `,"retry":`...)
	dst = strconv.AppendBool(dst, e.Retry)
	return append(dst, '}')
}

// appendString quotes s with the fewest escapes JSON allows: Chinese and emoji stay as they are.
func appendString(dst []byte, s string) []byte {
	// The error only says that bad UTF-8 was replaced, and the frame is valid all the same.
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}
