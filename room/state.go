package room

import (
	"maps"
	"strings"
)

// state is what a room has besides members. It does not change: each update makes another one.
type state struct {
	settings Settings
	settled  bool // the room has settings of its own
	data     *Value
	bans     map[string]int64 // by user: until when, in ms since 1970
	gone     *goneList
	timers   *Timers
	host     string // a member; "" for none
}

// heed returns the state behind an update that belongs to a version, of a member or of the room.
func (s *state) heed(u *Update, ofMember bool, version uint64) *state {
	gone := s.gone.after(u, version)
	if !ofMember {
		s = s.after(u, version)
	}
	if gone == s.gone {
		return s
	}
	next := *s
	next.gone = gone
	return &next
}

// after returns the state behind an update that belongs to a version. What it keeps shares no
// memory with the update.
func (s *state) after(u *Update, version uint64) *state {
	next := *s
	switch d := u.detail(); u.Type {
	case KindSettings, KindDefaults:
		if d.Settings != nil { // nobody else writes events, but what comes from Redis is not trusted
			next.settings, next.settled = *d.Settings, true
		}
	case KindData:
		next.data = s.data.after(d.Data, version)
	case KindTimer, KindCountdown:
		if d.Timer != nil {
			next.timers = s.timers.after(d.Timer, version)
		}
	case KindHost:
		next.host = strings.Clone(u.User)
	case KindBan:
		next.bans = make(map[string]int64, len(s.bans)+1)
		maps.Copy(next.bans, s.bans)
		if d.Until == 0 {
			delete(next.bans, u.User)
		} else {
			next.bans[strings.Clone(u.User)] = d.Until
		}
	default:
		return s // a message changes nothing
	}
	return &next
}

// Restored is what a room that was read has besides members. The zero value is a room that has
// nothing.
type Restored struct {
	Settings *Settings        // nil for none
	Data     *Value           // nil for none
	Bans     map[string]int64 // by user: until when, in ms since 1970
	Gone     map[string]Gone  // by user, "" for everybody
	Timers   *Timers          // nil for none
	Host     string           // a user; "" for none
}

// Restore gives a room that was read what came with it, and takes that over.
func (r *Room) Restore(from Restored) {
	next := state{data: from.Data, bans: from.Bans, timers: from.Timers, host: from.Host}
	if from.Settings != nil {
		next.settings, next.settled = *from.Settings, true
	}
	if from.Gone != nil {
		next.gone = &goneList{from.Gone}
	}
	r.state = &next
	r.pending.clear(r.Count(), r.state.gone)
}

// Data returns the room's data; nil for a room that never had any.
func (r *Room) Data() *Value { return r.state.data }

// Bans returns until when users may not come in, in ms since 1970. The map is the room's own: do
// not change it.
func (r *Room) Bans() map[string]int64 { return r.state.bans }
