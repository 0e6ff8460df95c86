package room

import (
	"maps"
	"strings"
)

// maxGone is how many users a room remembers who were taken out of it.
const maxGone = 128

// Gone is why a user was taken out of a room, for nodes that have missed the event. The room keeps
// it until the user comes back, of the last users of whom that is so.
type Gone struct {
	Version uint64 `json:"version"`         // of the room when it happened
	Reason  Reason `json:"reason"`          // ReasonKicked, ReasonClosed or ReasonMoved
	Text    string `json:"text,omitzero"`   // why the user was kicked
	Target  string `json:"target,omitzero"` // the room to which the user was moved
	At      int64  `json:"at,omitzero"`     // when, in ms since 1970: not later than the At of the user's next join
}

// gone returns why the user was taken out, as the room remembers it. Of a KindLeave.
func (u *Update) gone(version uint64) Gone {
	d := u.detail()
	return Gone{version, u.Reason, d.Text, d.Target, u.At}
}

// GoneError is an [ErrConflict]: since the version that a join expects, somebody with authority has
// taken the user out of the room.
type GoneError struct {
	Gone
	text string
}

func (e *GoneError) Error() string { return e.text }

// Unwrap returns ErrConflict.
func (e *GoneError) Unwrap() error { return ErrConflict }

// everybody is the user of the Gone of a room that was shut.
const everybody = ""

// goneList does not change: each update makes another one. Nil is empty.
type goneList struct{ byUser map[string]Gone }

// of returns why a user who is not in the room was taken out of it.
func (l *goneList) of(user string) (g Gone, found bool) {
	if l == nil {
		return g, false
	}
	if g, found = l.byUser[user]; !found {
		g, found = l.byUser[everybody]
	}
	return g, found
}

// with returns the list with one more, without the oldest one if there are too many: of several that
// are as old, the first by name, so that all who follow the room agree.
func (l *goneList) with(user string, g Gone) *goneList {
	next := &goneList{make(map[string]Gone)}
	if l != nil {
		maps.Copy(next.byUser, l.byUser)
	}
	g.Text, g.Target = strings.Clone(g.Text), strings.Clone(g.Target)
	next.byUser[strings.Clone(user)] = g
	if len(next.byUser) > maxGone {
		oldest := user
		for other, o := range next.byUser {
			if first := next.byUser[oldest].Version; o.Version < first || o.Version == first && other < oldest {
				oldest = other
			}
		}
		delete(next.byUser, oldest)
	}
	return next
}

// without returns the list without a user.
func (l *goneList) without(user string) *goneList {
	if l == nil {
		return nil
	}
	if _, found := l.byUser[user]; !found {
		return l
	}
	next := &goneList{maps.Clone(l.byUser)}
	delete(next.byUser, user)
	return next
}

// after returns the list behind an update that belongs to a version.
func (l *goneList) after(u *Update, version uint64) *goneList {
	d := u.detail()
	switch {
	case u.Type == KindJoin:
		return l.without(u.User)
	case u.Type == KindLeave && (u.Reason == ReasonKicked || u.Reason == ReasonMoved):
		return l.with(u.User, u.gone(version))
	case u.Type == KindLeave && u.Reason == ReasonClosed:
		return l.without(u.User)
	case u.Type == KindSettings && d.Shut:
		return l.with(everybody, Gone{Version: version, Reason: ReasonClosed, At: u.At})
	case u.Type == KindSettings && d.Settings != nil && !d.Settings.Closed:
		return l.without(everybody)
	}
	return l
}

// Gone returns why users were taken out of the room. The map is the room's own: do not change it.
func (r *Room) Gone() map[string]Gone {
	if r.state.gone == nil {
		return nil
	}
	return r.state.gone.byUser
}

// GoneChanged reports whether what Gone returns is another one than at the last Commit or Revert.
func (r *Room) GoneChanged() bool { return r.state.gone != r.pending.gone }
