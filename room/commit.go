package room

// Commit is what one commit did to a room: enough to bring a copy of the room from the
// version before to this one. Nodes send it to each other as JSON.
type Commit struct {
	Position
	Node    string   `json:"node"`    // of the sessions that Updates name
	Updates []Update `json:"changes"` // in order
}

// Update is what became of one user.
type Update struct {
	Type    Kind   `json:"type"` // KindJoin, KindLeave or KindReplace
	User    string `json:"user"`
	Seat    int    `json:"seat"`
	Session string `json:"session,omitzero"` // that speaks for the user now
	At      int64  `json:"at,omitzero"`      // of a join: when, in ms since 1970
	Old     string `json:"old,omitzero"`     // the session that was replaced
}

// Change is what a committed action did, as everyone may know it.
type Change struct {
	Type Kind   `json:"type"` // KindJoin or KindLeave
	User string `json:"user"`
	Seat int    `json:"seat"` // taken by a join, freed by a leave
}

// Event returns what the watchers of the room of that id hear of the commit.
func (c *Commit) Event(id string) *Event {
	e := &Event{Room: id, Epoch: c.Epoch, Version: c.Version, From: c.Version - 1, commit: c}
	e.Changes = make([]Change, 0, len(c.Updates))
	for i := range c.Updates {
		if u := &c.Updates[i]; u.Type != KindReplace {
			e.Changes = append(e.Changes, Change{u.Type, u.User, u.Seat})
		}
	}
	return e
}
