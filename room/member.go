package room

import "strings"

// detached begins the session of a member who is disconnected and may come back.
const detached = "~"

// reserved begins that of a member who has not come yet; no session begins with a +.
const reserved = detached + "+"

// Member is a user's place in a room, in the form in which Redis holds it.
type Member struct {
	Seat    int    `json:"seat"`    // counted from 0
	Session string `json:"session"` // the user's active one; after a ~ if it is detached
	Node    string `json:"node"`    // the node of that session
	At      int64  `json:"at"`      // when it joined, in ms since 1970, by its node's clock; later than who joined before

	Ready bool   `json:"ready,omitzero"` // the user has said so
	Data  *Value `json:"data,omitzero"`  // what the user has set; nil for none

	Private *Value `json:"private,omitzero"` // what only the user is shown, and authority; nil for none
}

// SessionID returns the user's active session, detached or not, or the one by which the
// seat is reserved.
func (m Member) SessionID() string {
	if m.Reserved() {
		return m.Session[len(reserved):]
	}
	return strings.TrimPrefix(m.Session, detached)
}

// Reserved reports whether the seat is reserved for the user, who has not come yet.
func (m Member) Reserved() bool { return strings.HasPrefix(m.Session, reserved) }

// Detached reports whether the session is disconnected and may come back.
func (m Member) Detached() bool { return strings.HasPrefix(m.Session, detached) }

// equals reports whether both are the same in Redis.
func (m Member) equals(other Member) bool {
	return m.Seat == other.Seat && m.Session == other.Session && m.Node == other.Node && m.At == other.At &&
		m.Ready == other.Ready && m.Data.equals(other.Data) && m.Private.equals(other.Private)
}

// kept has a row for each kind of update that changes what a member keeps: set returns the member behind one, and all what
// one says that brings the whole back to a room that has lost it, nil for nothing.
var kept = [...]struct {
	kind Kind
	set  func(m Member, now Detail, version uint64) Member
	all  func(m Member) *Detail
}{
	{KindMember, func(m Member, now Detail, version uint64) Member {
		if now.Ready != nil {
			m.Ready = *now.Ready
		}
		if now.Data != nil {
			m.Data = m.Data.after(now.Data, version)
		}
		return m
	}, func(m Member) *Detail {
		if !m.Ready && m.Data == nil {
			return nil
		}
		all := &Detail{Data: jsonOf(m.Data.String())}
		if m.Ready {
			all.Ready = new(true)
		}
		return all
	}},
	{KindPrivate, func(m Member, now Detail, version uint64) Member {
		m.Private = m.Private.after(now.Data, version)
		return m
	}, func(m Member) *Detail {
		if m.Private == nil {
			return nil
		}
		return &Detail{Data: jsonOfMember(m.Private.String())}
	}},
}
