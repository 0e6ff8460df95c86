package room

import (
	"maps"
	"slices"
	"strings"
)

// Memory is what a node knows of a room but for who its members are, for when Redis has forgotten it: [Room.Recall] puts it
// back. The zero value knows nothing. It does not change, and costs little.
type Memory struct {
	Position
	members int
	state   *state // nil only if Version is 0
}

// Memory returns what the room has at its last Commit. Nothing may have been applied since.
func (r *Room) Memory() Memory { return Memory{r.Position, r.Count(), r.state} }

// After returns what is known after an event. If something is missing before that, it is what was known before.
func (m Memory) After(e *Event) Memory {
	switch {
	case e.commit == nil, e.From != m.Version, m.Version > 0 && (e.Epoch != m.Epoch || e.Forks(m.Position)):
		return m
	case m.Version == 0:
		m = Memory{Position: Position{Epoch: strings.Clone(e.Epoch)}, state: new(state)}
	}
	for i := range e.commit.Updates {
		u := &e.commit.Updates[i]
		m.state = m.state.heed(u, e.Version)
		switch u.Type {
		case KindJoin:
			m.members++
		case KindLeave:
			m.members--
		}
	}
	m.Version, m.CommitID = e.Version, strings.Clone(e.commit.CommitID)
	return m
}

// Seen returns what is known after the room was read.
func (m Memory) Seen(now Memory) Memory {
	if m.outlives(now.Epoch, now.state) {
		return m
	}
	return now
}

// outlives reports whether Redis has forgotten the room: a room with members does not expire. It has not begun anew,
// or somebody who did not know it has begun it, and nobody has configured it since.
func (m Memory) outlives(epoch string, now *state) bool {
	if m.members <= 0 || m.Epoch == epoch {
		return false
	}
	return epoch == "" || m.state.configured() && !now.configured()
}

func (s *state) configured() bool { return s.settled && !s.settings.Default }

// Recall gives a room that Redis has forgotten its settings and bans back, as the next Commit's first changes: nobody
// comes in before them. Where nothing was forgotten it does nothing. Data and timers do not come back: each of their
// changes happens once, and the game goes on from what its referee knows.
func (r *Room) Recall(m Memory) {
	if !m.outlives(r.Epoch, r.state) {
		return
	}
	if s := m.state.settings; m.state.settled {
		kind := KindSettings
		if s.Default {
			kind = KindDefaults
		}
		r.updateState(Update{Type: kind, Detail: &Detail{Settings: &s}})
	}
	for _, user := range slices.Sorted(maps.Keys(m.state.bans)) {
		if until := m.state.bans[user]; until > r.state.bans[user] {
			r.updateState(Update{Type: KindBan, User: user, Detail: &Detail{Until: until}})
		}
	}
}
