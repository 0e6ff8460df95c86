package room

import "slices"

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

// Renewed reports whether Renew was called, or Recall had something to give back, since the last Commit, Revert or Advance.
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
