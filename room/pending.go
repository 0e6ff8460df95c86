package room

import "slices"

// pending is what was applied to a room since its last Commit or Revert.
type pending struct {
	updates  []Update
	before   []former // by which Revert undoes them, in order
	unsettle func()   // by which Revert gives the room its settings back; nil if they are the same
	base     int      // how many members there were
	renew    bool     // the next Commit begins a new epoch
	confirm  bool     // the next Commit counts a version although nothing has changed
}

// former is a user's place before an update.
type former struct {
	user   string
	member Member
	was    bool
}

func (p *pending) clear(members int) {
	p.updates, p.before, p.base = p.updates[:0], p.before[:0], members
	p.unsettle, p.renew, p.confirm = nil, false, false
}

// update carries out what becomes of one user, and remembers it. node is that of the
// user's session.
func (r *Room) update(node string, u Update) {
	m, was := r.members.byUser[u.User]
	r.pending.updates = append(r.pending.updates, u)
	r.pending.before = append(r.pending.before, former{u.User, m, was})
	r.members.update(node, u)
}

// Changed reports whether there is something to commit.
func (r *Room) Changed() bool {
	return len(r.pending.updates) > 0 || r.pending.renew || r.pending.confirm
}

// Base returns how many members there were at the last Commit or Revert.
func (r *Room) Base() int { return r.pending.base }

// Renew makes the next Commit begin a new epoch.
func (r *Room) Renew() { r.pending.renew = true }

// Renewed reports whether Renew was called since the last Commit or Revert.
func (r *Room) Renewed() bool { return r.pending.renew }

// Confirm makes the next Commit count a version, although nothing may have changed.
func (r *Room) Confirm() { r.pending.confirm = true }

// Pending returns what Commit with that epoch and mark will do, on behalf of a node. Its
// Updates are the room's own memory: the next action after Commit or Revert overwrites
// them.
func (r *Room) Pending(epoch, mark, node string) *Commit {
	return &Commit{Position{epoch, r.Version + 1, mark}, node, r.pending.updates}
}

// Commit keeps what was applied, as the next version of that epoch, which the mark
// identifies. Without changes it does nothing.
func (r *Room) Commit(epoch, mark string) {
	if r.Changed() {
		r.Position = Position{epoch, r.Version + 1, mark}
	}
	r.pending.clear(r.Count())
}

// Revert makes the room what it was at the last Commit.
func (r *Room) Revert() {
	if r.pending.unsettle != nil {
		r.pending.unsettle()
	}
	for _, f := range slices.Backward(r.pending.before) {
		r.members.remove(f.user)
		if f.was {
			r.members.put(f.user, f.member)
		}
	}
	r.pending.clear(r.Count())
}
