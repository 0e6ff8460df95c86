package room

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Commit is what one commit did to a room: enough to bring a copy of the room from the
// version before to this one. Nodes send it to each other as JSON.
type Commit struct {
	Position
	Node    string   `json:"node"`    // of the sessions that Updates name
	Updates []Update `json:"changes"` // in order
}

// Update is what became of one user, or of the room.
type Update struct {
	Type    Kind   `json:"type"`
	User    string `json:"user"` // empty if the update is of the room
	Seat    int    `json:"seat"`
	Session string `json:"session,omitzero"` // that speaks for the user now
	At      int64  `json:"at,omitzero"`      // of a join: when, in ms since 1970
	Old     string `json:"old,omitzero"`     // the session that was replaced
	Reason  Reason `json:"reason,omitzero"`  // of a leave

	*Detail `json:",inline"` // nil for most
}

// Detail is what few updates have. It does not change once it is part of one.
type Detail struct {
	Settings *Settings      `json:"settings,omitzero"` // of the room, now
	Shut     bool           `json:"shut,omitzero"`     // of settings: the room was closed for good, and everybody has left
	Ready    bool           `json:"ready,omitzero"`    // of a member, now
	Data     jsontext.Value `json:"data,omitzero"`     // of a member or the room, now; or of a message. Nil is none
	Text     string         `json:"text,omitzero"`     // of a message, or why a user was kicked
	To       []string       `json:"to,omitzero"`       // the members whom a message is for; nil is everybody
	Target   string         `json:"target,omitzero"`   // the room to which a user was moved
	Until    int64          `json:"until,omitzero"`    // of a ban, in ms since 1970; 0 lifts it
}

// OfMember reports whether the update changes a member, or makes or removes one.
func (u *Update) OfMember() bool {
	switch u.Type {
	case KindJoin, KindLeave, KindReplace, KindAway, KindBack, KindMember:
		return true
	}
	return false
}

func (u *Update) detail() Detail {
	if u.Detail == nil {
		return Detail{}
	}
	return *u.Detail
}

// Change is what a committed action did, as everyone may know it.
type Change struct {
	Type   Kind   // any but KindReplace
	User   string // whom it is about, or who did it; empty if that is nobody in particular
	Seat   int    // taken by a join, freed by a leave, else kept
	Reason Reason // of a leave
	Away   bool   // of a join: the seat is reserved for a user who has not come yet

	*Detail // nil for most
}

// Event returns what the watchers of the room of that id hear of the commit.
func (c *Commit) Event(id string) *Event {
	e := &Event{Room: id, Epoch: c.Epoch, Version: c.Version, From: c.Version - 1, commit: c}
	e.Changes = make([]Change, 0, len(c.Updates))
	for i := range c.Updates {
		switch u := &c.Updates[i]; u.Type {
		case KindReplace, KindBan:
		case KindDefaults:
			if d := u.detail(); d.Settings != nil && *d.Settings != (Settings{}) {
				e.Changes = append(e.Changes, Change{Type: KindSettings, Detail: u.Detail})
			}
		default:
			away := u.Type == KindJoin && strings.HasPrefix(u.Session, detached)
			e.Changes = append(e.Changes, Change{u.Type, u.User, u.Seat, u.Reason, away, u.Detail})
		}
	}
	return e
}
