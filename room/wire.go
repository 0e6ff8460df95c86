package room

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// wireEvent is what a commit did, as it travels on the channel Room:<id>:Events:
// enough to bring a copy of the room from the version before to this one.
type wireEvent struct {
	Epoch   string       `json:"epoch"`
	Version uint64       `json:"version"`
	Mark    string       `json:"mark"` // of this one commit
	Node    string       `json:"node"` // of the sessions that changes name
	Changes []wireChange `json:"changes"`
}

// wireChange is what became of one user.
type wireChange struct {
	Type    Kind   `json:"type"` // join, leave, or replace
	User    string `json:"user"`
	Seat    int    `json:"seat"`
	Session string `json:"session,omitzero"` // that speaks for the user now
	At      int64  `json:"at,omitzero"`      // of a join
	Old     string `json:"old,omitzero"`     // the session that was replaced
}

// kindReplace is the change by which a newer session speaks for a member. Players
// see nothing of it.
const kindReplace Kind = "replace"

func parseEvent(id, payload string) (*Event, error) {
	w := new(wireEvent)
	if s := (scanner{rest: payload}); !s.event(w) {
		*w = wireEvent{}
		if err := json.Unmarshal([]byte(payload), w); err != nil {
			return nil, err
		}
	}
	if w.Version == 0 {
		return nil, fmt.Errorf("version is 0")
	}
	return w.toldIn(id), nil
}

// toldIn returns what the watchers of the room of that id are told.
func (w *wireEvent) toldIn(id string) *Event {
	e := &Event{Room: id, Epoch: w.Epoch, Version: w.Version, From: w.Version - 1, wire: w}
	e.Changes = make([]Change, 0, len(w.Changes))
	for i := range w.Changes {
		if c := &w.Changes[i]; c.Type != kindReplace {
			e.Changes = append(e.Changes, Change{c.Type, c.User, c.Seat})
		}
	}
	return e
}

// The encoders below write what json.Marshal would, without reflection: they run
// for every action.

func (w *wireEvent) append(dst []byte) []byte {
	dst = append(dst, `{"epoch":`...)
	dst = appendString(dst, w.Epoch)
	dst = append(dst, `,"version":`...)
	dst = strconv.AppendUint(dst, w.Version, 10)
	dst = append(dst, `,"mark":`...)
	dst = appendString(dst, w.Mark)
	dst = append(dst, `,"node":`...)
	dst = appendString(dst, w.Node)
	dst = append(dst, `,"changes":[`...)
	for i := range w.Changes {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = w.Changes[i].append(dst)
	}
	return append(dst, `]}`...)
}

func (c *wireChange) append(dst []byte) []byte {
	dst = append(dst, `{"type":"`...)
	dst = append(dst, c.Type...)
	dst = append(dst, `","user":`...)
	dst = appendString(dst, c.User)
	dst = append(dst, `,"seat":`...)
	dst = strconv.AppendInt(dst, int64(c.Seat), 10)
	if c.Session != "" {
		dst = append(dst, `,"session":`...)
		dst = appendString(dst, c.Session)
	}
	if c.At != 0 {
		dst = append(dst, `,"at":`...)
		dst = strconv.AppendInt(dst, c.At, 10)
	}
	if c.Old != "" {
		dst = append(dst, `,"old":`...)
		dst = appendString(dst, c.Old)
	}
	return append(dst, '}')
}

// append writes a member in the form in which Redis holds it.
func (m *Member) append(dst []byte) []byte {
	dst = append(dst, `{"seat":`...)
	dst = strconv.AppendInt(dst, int64(m.Seat), 10)
	dst = append(dst, `,"session":`...)
	dst = appendString(dst, m.Session)
	dst = append(dst, `,"node":`...)
	dst = appendString(dst, m.Node)
	dst = append(dst, `,"at":`...)
	dst = strconv.AppendInt(dst, m.At, 10)
	return append(dst, '}')
}

func parseMember(text string) (m Member, err error) {
	if err = json.Unmarshal([]byte(text), &m); err == nil && (m.Seat < 0 || m.Seat >= MaxSeats) {
		err = fmt.Errorf("seat %d", m.Seat)
	}
	return m, err
}

// appendString writes s as a JSON string. Names and ids are valid UTF-8 by the
// time they get here; what is not becomes U+FFFD.
func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s)
	return dst
}
