package room

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Reason is why a member has left.
type Reason string

// The reasons of a KindLeave.
const (
	ReasonLeft    Reason = "left"    // the user wanted to
	ReasonTimeout Reason = "timeout" // the user was away longer than the grace
	reasonNode    Reason = "node"    // the user's node died
	reasonKicked  Reason = "kicked"  // somebody with authority over the room removed the user
	reasonClosed  Reason = "closed"  // the room was closed
	ReasonMoved   Reason = "moved"   // the user was moved to another room
)

// Commit is one commit's changes: they bring a copy of the version before to this one. Nodes exchange it as JSON.
type Commit struct {
	Position
	Prev    string   `json:"prev"`    // id of the commit that this one builds on; empty for the first
	Node    string   `json:"node"`    // the node of the sessions in Updates
	Updates []Update `json:"changes"` // in order
}

// Update is a change of one user or of the room.
type Update struct {
	Type    Kind   `json:"type"`
	User    string `json:"user"` // empty if the update is of the room
	Seat    int    `json:"seat"`
	Session string `json:"session,omitzero"` // the user's active session after the update
	At      int64  `json:"at,omitzero"`      // time in ms since 1970 of a join, or of taking out a user or everybody
	Old     string `json:"old,omitzero"`     // the session that was replaced
	Reason  Reason `json:"reason,omitzero"`  // of a leave

	*Detail `json:",inline"` // nil for most
}

// Detail has the optional fields of an update, and does not change once it is part of an update.
type Detail struct {
	Settings *Settings `json:"settings,omitzero"` // the room's settings after the update
	Shut     bool      `json:"shut,omitzero"`     // of settings: everybody has left, the room is closed for good
	Ready    *bool     `json:"ready,omitzero"`    // the member's readiness after the update; nil: unchanged
	// Data of a member, public or private: nil is unchanged, null is none. Of the room or a message: nil is none.
	Data   jsontext.Value `json:"data,omitzero"`
	Text   string         `json:"text,omitzero"`   // of a message, or why a user was kicked
	To     []string       `json:"to,omitzero"`     // the members who get a message; nil for everybody
	Target string         `json:"target,omitzero"` // the room to which a user was moved
	Until  int64          `json:"until,omitzero"`  // the end of a ban, in ms since 1970; 0 lifts the ban
	Timer  *Countdown     `json:"timer,omitzero"`  // the timer that was set, was cancelled or has fired
	// Again marks an update that restores what Redis had lost or, in a closed room, a session that a failure removed.
	Again bool `json:"again,omitzero"`
	// Node is set in a join that restores a member, and names the session's node. Empty: the commit's node.
	Node string `json:"of,omitzero"`
}

// Countdown is an update of one of the room's timers.
type Countdown struct {
	Name string  `json:"name"`
	Due  int64   `json:"due,omitzero"`  // see Timer; 0 if it was cancelled or has fired
	Was  int64   `json:"was,omitzero"`  // Due of the timer that was replaced or is gone; 0 if there was none
	Then *Effect `json:"then,omitzero"` // see Timer
}

func (u *Update) detail() Detail {
	if u.Detail == nil {
		return Detail{}
	}
	return *u.Detail
}

// Change is a change of a committed action, as shown to users. Most are for everybody; see [Change.IsFor].
type Change struct {
	Type   Kind   // any but kindReplace
	User   string // whom it is about, or who did it; empty for nobody in particular
	Seat   int    // taken by a join or by kindSeat, freed by a leave, else kept
	Reason Reason // of a leave
	Away   bool   // of a join: the seat is reserved for a user who has not come yet

	*Detail // nil for most
}

// Event returns the event that watchers of room id get for c. Recipients still filter its changes by [Change.IsFor].
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
	before  []former // to undo each update
	base    int      // how many members there were at the last Commit or Revert
	gone    *goneList
	renew   bool   // the next Commit begins a new epoch
	confirm bool   // the next Commit counts a version although nothing has changed
	behind  uint64 // the last version that Redis has lost and a node knows, else 0; the next Commit's is higher
}

// former is the state before an update.
type former struct {
	state  *state // of the room; nil if unchanged
	user   string // whom the update is about; "" for nobody
	member Member
	was    bool  // user was a member
	newest int64 // as in roster
}

func (p *pending) clear(members int, gone *goneList) {
	p.updates, p.before, p.base, p.gone = p.updates[:0], p.before[:0], members, gone
	p.renew, p.confirm, p.behind = false, false, 0
}

// update applies and records an update of a user. node is the node of the user's session.
func (r *Room) update(node string, u Update) {
	m, was := r.members.byUser[u.User]
	r.updates = append(r.updates, u)
	r.before = append(r.before, former{r.state, u.User, m, was, r.members.newest})
	r.members.update(node, u, r.Next())
	r.state = r.state.heed(&u, true, r.Next())
}

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

// begun reports whether the room has ever had a commit, even one that Redis has lost.
func (r *Room) begun() bool { return r.Epoch != "" || r.behind > 0 }

// Renewed reports whether the next Commit begins a new epoch: Renew was called, or Recall restored something, since
// the last Commit, Revert or Advance.
func (p *pending) Renewed() bool { return p.renew }

// Confirm makes the next Commit count a version even if nothing has changed.
func (p *pending) Confirm() { p.confirm = true }

// Pending returns the commit that Commit with that epoch will make, without its commit id, for node. Its Updates
// share the room's memory: the next action after Commit or Revert overwrites them.
func (r *Room) Pending(epoch, node string) *Commit {
	return &Commit{Position{Epoch: epoch, Version: r.Next()}, r.CommitID, node, r.updates}
}

// Commit keeps the updates as the next version of that epoch, with that commit id. Without changes it does nothing.
func (r *Room) Commit(epoch, commitID string) {
	if r.Changed() {
		r.Position = Position{epoch, r.Next(), commitID}
	}
	r.pending.clear(r.Count(), r.state.gone)
}

// Revert undoes everything since the last Commit.
func (r *Room) Revert() {
	r.undo(0)
	r.pending.clear(r.Count(), r.state.gone)
}

// undo undoes all updates after the first n.
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
