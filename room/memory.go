package room

import (
	"maps"
	"slices"
)

// Memory is what a node keeps of a room it has seen, for the case that Redis forgets the room: how many members there were,
// the settings and the bans. See [Room.Recall]. The zero value knows nothing. It costs little, and does not change.
type Memory struct {
	Position
	members int
	state   state // of it only settings, settled and bans
}

// Memory returns what is to be kept of the room as it was at its last Commit. Nothing may have been applied since.
func (r *Room) Memory() Memory {
	return Memory{r.Position, r.Count(), state{settings: r.state.settings, settled: r.state.settled, bans: r.state.bans}}
}

// After returns the memory brought up to date by an event. Events of other epochs, and those of what is known, change nothing.
func (m Memory) After(e *Event) Memory {
	if m.Version == 0 || e.commit == nil || m.Compare(e.Position()) != Later {
		return m
	}
	m.Position = e.Position()
	for i := range e.commit.Updates { // by index: they are large
		switch u := &e.commit.Updates[i]; u.Type {
		case KindJoin:
			m.members++
		case KindLeave:
			m.members--
		case KindSettings, KindDefaults, KindBan:
			m.state = *m.state.after(u, e.Version)
		}
	}
	return m
}

// Seen returns the memory after the room was read or written, as now says: that, unless it is what m has to come back to.
func (m Memory) Seen(now Memory) Memory {
	if order := m.Compare(now.Position); order == Earlier || order == OtherEpoch && m.Outlives(now) {
		return m
	}
	return now
}

// Outlives reports whether Redis has forgotten the room that m knows, and has none now, or one that somebody has begun who
// did not know it: a room with members does not expire, and one that was configured does not lose its settings.
func (m Memory) Outlives(now Memory) bool {
	if m.members <= 0 || m.Epoch == now.Epoch {
		return false
	}
	return now.Epoch == "" || now.state.plain() && !m.state.plain()
}

// plain reports whether the settings are none, or those of a room that began with a join.
func (s *state) plain() bool {
	return !s.settled || s.settings == Settings{Capacity: s.settings.Capacity, Default: true}
}

// Recall has the next Commit give the room back what m knows, if Redis has forgotten that. The actions applied before
// that Commit or a Revert already find the room so; actions that change nothing do not commit it.
func (r *Room) Recall(m Memory) {
	if m.Outlives(r.Memory()) {
		r.recall = &m.state
	}
}

// remember gives the room back what Recall has for it. Where nothing is missing it does nothing.
func (r *Room) remember() {
	was := r.recall
	if was == nil {
		return
	}
	if s := was.settings; was.settled && r.state.plain() && (!r.state.settled || !was.plain()) {
		kind := KindSettings
		if was.plain() {
			kind = KindDefaults
		}
		r.updateState(Update{Type: kind, Detail: &Detail{Settings: &s}})
	}
	for _, user := range slices.Sorted(maps.Keys(was.bans)) {
		if until := was.bans[user]; until > r.state.bans[user] {
			r.updateState(Update{Type: KindBan, User: user, Detail: &Detail{Until: until}})
		}
	}
}
