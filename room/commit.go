package room

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

	Settings *Settings `json:"settings,omitzero"` // of the room, now
}

// Change is what a committed action did, as everyone may know it.
type Change struct {
	Type   Kind   // any but KindReplace
	User   string // whom it is about; empty if that is the room
	Seat   int    // taken by a join, freed by a leave, else kept
	Reason Reason // of a leave

	Settings *Settings // of the room, now
}

// Event returns what the watchers of the room of that id hear of the commit.
func (c *Commit) Event(id string) *Event {
	e := &Event{Room: id, Epoch: c.Epoch, Version: c.Version, From: c.Version - 1, commit: c}
	e.Changes = make([]Change, 0, len(c.Updates))
	for i := range c.Updates {
		switch u := &c.Updates[i]; u.Type {
		case KindReplace, kindDefaults:
		case KindSettings:
			e.Changes = append(e.Changes, Change{Type: u.Type, Settings: u.Settings})
		default:
			e.Changes = append(e.Changes, Change{Type: u.Type, User: u.User, Seat: u.Seat, Reason: u.Reason})
		}
	}
	return e
}
