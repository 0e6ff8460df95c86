package room

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Reason says why a member has left.
type Reason string

// The reasons of a KindLeave.
const (
	ReasonLeft    Reason = "left"    // the user wanted to
	ReasonTimeout Reason = "timeout" // the user was away for longer than the grace
	reasonNode    Reason = "node"    // so was the user's node
	reasonKicked  Reason = "kicked"  // who has authority over the room threw the user out
	reasonClosed  Reason = "closed"  // the room was closed
	ReasonMoved   Reason = "moved"   // the user was taken to another room
)

// Commit is what one commit did to a room: enough to bring a copy of the room from the
// version before to this one. Nodes send it to each other as JSON.
type Commit struct {
	Position
	Prev    string   `json:"prev"`    // the id of the commit before, which this one builds on; empty for the first
	Node    string   `json:"node"`    // of the sessions that Updates name
	Updates []Update `json:"changes"` // in order
}

// Update is what became of one user, or of the room.
type Update struct {
	Type    Kind   `json:"type"`
	User    string `json:"user"` // empty if the update is of the room
	Seat    int    `json:"seat"`
	Session string `json:"session,omitzero"` // the user's active one now
	At      int64  `json:"at,omitzero"`      // of a join, and where the user or everybody was taken out: when, in ms since 1970
	Old     string `json:"old,omitzero"`     // the session that was replaced
	Reason  Reason `json:"reason,omitzero"`  // of a leave

	*Detail `json:",inline"` // nil for most
}

// Detail is what few updates have. It does not change once it is part of one.
type Detail struct {
	Settings *Settings      `json:"settings,omitzero"` // of the room, now
	Shut     bool           `json:"shut,omitzero"`     // of settings: the room was closed for good, and everybody has left
	Ready    *bool          `json:"ready,omitzero"`    // of a member, now; nil is as before
	Data     jsontext.Value `json:"data,omitzero"`     // of a member, or its private ones, now: nil is as before, null is none. Of the room, now, or of a message: nil is none
	Text     string         `json:"text,omitzero"`     // of a message, or why a user was kicked
	To       []string       `json:"to,omitzero"`       // the members whom a message is for; nil is everybody
	Target   string         `json:"target,omitzero"`   // the room to which a user was moved
	Until    int64          `json:"until,omitzero"`    // of a ban, in ms since 1970; 0 lifts it
	Timer    *Countdown     `json:"timer,omitzero"`    // of a timer, or countdown
	Again    bool           `json:"again,omitzero"`    // it was so before Redis lost it; or, of a join into a closed room, a session that had lost its place in a failure is back
	Node     string         `json:"of,omitzero"`       // of a join that brings a member back: the node of the session; empty: that of the commit
}

// Countdown is what an update says of one of the room's timers.
type Countdown struct {
	Name string  `json:"name"`
	Due  int64   `json:"due,omitzero"`  // of one that is set: see Timer. 0 if it was cancelled, or has fired
	Was  int64   `json:"was,omitzero"`  // the Due of the one that it takes the place of, or that is gone; 0 if there was none
	Then *Effect `json:"then,omitzero"` // of one that is set: see Timer
}

func (u *Update) detail() Detail {
	if u.Detail == nil {
		return Detail{}
	}
	return *u.Detail
}

// Change is what a committed action did. [Change.IsFor] says who may know of it: most are for everybody.
type Change struct {
	Type   Kind   // any but kindReplace
	User   string // whom it is about, or who did it; empty if that is nobody in particular
	Seat   int    // taken by a join or by kindSeat, freed by a leave, else kept
	Reason Reason // of a leave
	Away   bool   // of a join: the seat is reserved for a user who has not come yet

	*Detail // nil for most
}

// Event returns what the watchers of the room of that id hear of the commit, each as far as it is for them.
func (c *Commit) Event(id string) *Event {
	e := &Event{Room: id, Epoch: c.Epoch, Version: c.Version, From: c.Version - 1, commit: c}
	e.Changes = make([]Change, 0, len(c.Updates))
	for i := range c.Updates {
		switch u := &c.Updates[i]; u.Type {
		case kindReplace, kindBan:
		case kindDefaults:
			if d := u.detail(); d.Settings != nil && *d.Settings != (Settings{Default: d.Settings.Default}) {
				e.Changes = append(e.Changes, Change{Type: kindSettings, Detail: u.Detail})
			}
		default:
			away := u.Type == KindJoin && strings.HasPrefix(u.Session, detached)
			e.Changes = append(e.Changes, Change{u.Type, u.User, u.Seat, u.Reason, away, u.Detail})
		}
	}
	return e
}

// pending is what was applied to a room since its last Commit or Revert.
type pending struct {
	updates []Update
	before  []former // by which Revert undoes each of them
	base    int      // how many members there were
	gone    *goneList
	renew   bool   // the next Commit begins a new epoch
	confirm bool   // the next Commit counts a version although nothing has changed
	behind  uint64 // the next Commit's version is behind this one, which a node knows and Redis has lost
}

// former is what there was before an update.
type former struct {
	state  *state // of the room; nil if it stays as it is
	user   string // whom the update is about; empty if nobody
	member Member
	was    bool
	newest int64 // as in roster
}

func (p *pending) clear(members int, gone *goneList) {
	p.updates, p.before, p.base, p.gone = p.updates[:0], p.before[:0], members, gone
	p.renew, p.confirm, p.behind = false, false, 0
}

// update carries out what becomes of one user, and remembers it. node is that of the
// user's session.
func (r *Room) update(node string, u Update) {
	m, was := r.members.byUser[u.User]
	r.updates = append(r.updates, u)
	r.before = append(r.before, former{r.state, u.User, m, was, r.members.newest})
	r.members.update(node, u, r.Next())
	r.state = r.state.heed(&u, true, r.Next())
}

// updateState carries out what becomes of the room, and remembers it.
func (r *Room) updateState(u Update) {
	r.updates = append(r.updates, u)
	r.before = append(r.before, former{state: r.state})
	r.state = r.state.heed(&u, false, r.Next())
}

// Changed reports whether there is something to commit.
func (p *pending) Changed() bool {
	return len(p.updates) > 0 || p.renew || p.confirm
}

// Base returns how many members there were at the last Commit or Revert.
func (p *pending) Base() int { return p.base }

// Next returns the version that the next Commit makes.
func (r *Room) Next() uint64 { return max(r.Version, r.behind) + 1 }

// begun reports whether somebody has joined the room, also if Redis has forgotten that.
func (r *Room) begun() bool { return r.Epoch != "" || r.behind > 0 }

// Renewed reports whether Renew was called, or Recall had something to give back, since the last Commit, Revert or
// Advance.
func (p *pending) Renewed() bool { return p.renew }

// Confirm makes the next Commit count a version, although nothing may have changed.
func (p *pending) Confirm() { p.confirm = true }

// Pending returns what Commit with that epoch will do, on behalf of a node, but for its commit id. Its
// Updates are the room's own memory: the next action after Commit or Revert overwrites
// them.
func (r *Room) Pending(epoch, node string) *Commit {
	return &Commit{Position{Epoch: epoch, Version: r.Next()}, r.CommitID, node, r.updates}
}

// Commit keeps what was applied, as the next version of that epoch, which the commit id
// identifies. Without changes it does nothing.
func (r *Room) Commit(epoch, commitID string) {
	if r.Changed() {
		r.Position = Position{epoch, r.Next(), commitID}
	}
	r.pending.clear(r.Count(), r.state.gone)
}

// Revert makes the room what it was at the last Commit.
func (r *Room) Revert() {
	r.undo(0)
	r.pending.clear(r.Count(), r.state.gone)
}

// undo takes back all updates but the first n.
func (r *Room) undo(n int) {
	for _, f := range slices.Backward(r.before[n:]) {
		if f.state != nil {
			r.state = f.state
		}
		if f.user != "" {
			r.members.newest = f.newest
			r.members.remove(f.user)
			if f.was {
				r.members.put(f.user, f.member)
			}
		}
	}
	r.updates, r.before = r.updates[:n], r.before[:n]
}
