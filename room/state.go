package room

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// state has all of a room except the members. It is immutable: each update makes another one.
type state struct {
	settings Settings
	settled  bool // the room has settings of its own
	data     *Value
	bans     map[string]int64 // until when, in ms since 1970, by user
	gone     *goneList
	timers   *Timers
	host     string // a member; "" for none
}

// after returns the state after an update at that version. field names the field that the update changes, "" for none.
// The new state shares no memory with the update.
func (s *state) after(u *Update, field string, version uint64) *state {
	gone := s.gone.after(u, version)
	if field == "" && gone == s.gone {
		return s
	}
	next := *s
	next.gone = gone
	switch d := u.detail(); field {
	case "settings":
		if d.Settings != nil { // only nodes write events, but data from Redis is not trusted
			next.settings, next.settled = *d.Settings, true
		}
	case "data":
		next.data = s.data.after(d.Data, version)
	case "timers":
		if d.Timer != nil {
			next.timers = s.timers.after(d.Timer, version)
		}
	case "host":
		next.host = strings.Clone(u.User)
	case "bans":
		next.bans = make(map[string]int64, len(s.bans)+1)
		maps.Copy(next.bans, s.bans)
		next.bans[strings.Clone(u.User)] = d.Until
		if d.Until == 0 {
			delete(next.bans, u.User)
		}
	}
	return &next
}

// State has all of a room except the members. The zero value describes a room without commits.
type State struct {
	Settings *Settings        // nil for none of its own
	Data     *Value           // nil for none
	Bans     map[string]int64 // until when, in ms since 1970, by user
	Gone     map[string]Gone  // by user, "" for everybody
	Timers   *Timers          // nil for none
	Host     string           // a member; "" for none
}

// State returns all of the room except the members. It shares the room's memory: do not change it.
func (r *Room) State() State {
	s := State{Data: r.state.data, Bans: r.state.bans, Timers: r.state.timers, Host: r.state.host}
	if r.state.settled {
		s.Settings = &r.state.settings
	}
	if r.state.gone != nil {
		s.Gone = r.state.gone.byUser
	}
	return s
}

// Restore sets the state of a room that was read, and takes ownership of from.
func (r *Room) Restore(from State) {
	next := state{data: from.Data, bans: from.Bans, timers: from.Timers, host: from.Host}
	if from.Settings != nil {
		next.settings, next.settled = *from.Settings, true
	}
	if from.Gone != nil {
		next.gone = &goneList{from.Gone}
	}
	r.state = &next
	r.pending.clear(r)
}

// maxGone is how many removed users a room remembers.
const maxGone = 128

// Gone records why a user was taken out of a room, for nodes that have missed the event. A room keeps the latest
// records, each until the user comes back.
type Gone struct {
	Version uint64 `json:"version"`         // the room's version after the removal
	Reason  Reason `json:"reason"`          // reasonKicked, reasonClosed or ReasonMoved
	Text    string `json:"text,omitzero"`   // why the user was kicked
	Target  string `json:"target,omitzero"` // the room to which the user was moved
	At      int64  `json:"at,omitzero"`     // when, in ms since 1970; not later than the At of the user's next join
	Labels  Labels `json:"labels,omitzero"` // to which the user's party agreed; empty if another moved the user
}

// gone returns the record of a KindLeave for [State].Gone.
func (u *Update) gone(version uint64) Gone {
	d := u.detail()
	return Gone{version, u.Reason, d.Text, d.Target, u.At, d.Labels}
}

// everybody stands for all users in [State].Gone: the room was closed for good.
const everybody = ""

// goneList is immutable: each update makes another one. Nil is empty.
type goneList struct{ byUser map[string]Gone }

// of returns why a user who is not in the room was taken out.
func (l *goneList) of(user string) (g Gone, found bool) {
	if l == nil {
		return g, false
	}
	if g, found = l.byUser[user]; !found {
		g, found = l.byUser[everybody]
	}
	return g, found
}

// with returns the list with g for user. If it is too long it drops the oldest entry, and of several the first by name:
// all nodes drop the same.
func (l *goneList) with(user string, g Gone) *goneList {
	next := &goneList{make(map[string]Gone)}
	if l != nil {
		maps.Copy(next.byUser, l.byUser)
	}
	g.Text, g.Target, g.Labels = strings.Clone(g.Text), strings.Clone(g.Target), Labels(strings.Clone(string(g.Labels)))
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

// after returns the list after an update at that version.
func (l *goneList) after(u *Update, version uint64) *goneList {
	d := u.detail()
	switch {
	case u.Type == KindJoin:
		return l.without(u.User)
	case u.Type == KindLeave && (u.Reason == reasonKicked || u.Reason == ReasonMoved):
		return l.with(u.User, u.gone(version))
	case u.Type == KindLeave && u.Reason == reasonClosed:
		return l.without(u.User)
	case u.Type == kindSettings && d.Shut:
		return l.with(everybody, Gone{Version: version, Reason: reasonClosed, At: u.At})
	case u.Type == kindSettings && d.Settings != nil && !d.Settings.Closed:
		return l.without(everybody)
	}
	return l
}

// GoneChanged reports whether [State].Gone has changed since the last Commit or Revert.
func (r *Room) GoneChanged() bool { return r.state.gone != r.pending.gone }

// Value is JSON that users have set, as stored in Redis. It does not change. Nil is a value that was never set.
type Value struct {
	Version uint64         `json:"version"`        // of the room when it was set
	JSON    jsontext.Value `json:"value,omitzero"` // nil if it was removed
}

// String returns the JSON, "" for none.
func (v *Value) String() string {
	if v == nil {
		return ""
	}
	return string(v.JSON)
}

// equals reports whether v and other have the same JSON and version.
func (v *Value) equals(other *Value) bool {
	return v.String() == other.String() && v.since() == other.since()
}

// after returns v as set to now at that version; v itself if it has that JSON already. Nil and null remove the value.
func (v *Value) after(now jsontext.Value, version uint64) *Value {
	if now.Kind() == jsontext.KindNull {
		now = nil
	}
	if v == nil && now == nil || v != nil && bytes.Equal(v.JSON, now) {
		return v
	}
	return &Value{version, bytes.Clone(now)}
}

// since returns the version at which the value was last set, 0 for never.
func (v *Value) since() uint64 {
	if v == nil {
		return 0
	}
	return v.Version
}

// jsonOfMember returns JSON for an update of a member, in which null is none.
func jsonOfMember(text string) jsontext.Value { return jsontext.Value(cmp.Or(text, "null")) }

// jsonOf returns JSON for an update, nil for "".
func jsonOf(text string) jsontext.Value {
	if text == "" {
		return nil
	}
	return jsontext.Value(text)
}

func (s *state) checkBan(id, user string, now int64) error {
	return checkBan(id, user, s.bans[user], now)
}

// checkBan fails with ErrBanned if now is before until, the end of a ban; 0 is no ban.
func checkBan(id, user string, until, now int64) error {
	switch {
	case until <= now:
		return nil
	case until >= Forever:
		return Refuse(ErrBanned, "%s is banned from room %s", user, id)
	}
	// rounded to the nearest second: now is an estimate, and rounding up would show 61 s for a ban of 60 s
	return Refuse(ErrBanned, "%s is banned from room %s for another %d s", user, id, max(1, (until-now+500)/1000))
}

// settingsBy returns the room's settings, or those that the rules would give it.
func (s *state) settingsBy(rules Rules) Settings {
	if !s.settled {
		return rules.defaults()
	}
	return s.settings
}

// Timers are the timers of a room, nil for a room that never had any. They do not change.
type Timers struct {
	Version uint64           `json:"version"` // of the room when a timer was last set or cancelled, or fired
	ByName  map[string]Timer `json:"timers"`
}

// Timer is a deadline of a room, as stored in Redis. It does not change.
type Timer struct {
	Due     int64   `json:"due"`           // in ms since 1970 by the clock that all nodes share; unique in a room
	Version uint64  `json:"version"`       // of the room when it was set
	Then    *Effect `json:"then,omitzero"` // nil for nothing
}

// Effect says what a timer does when it fires. At most one field is set.
type Effect struct {
	Close bool           `json:"close,omitzero"` // closes the room, like Close
	Kick  string         `json:"kick,omitzero"`  // removes a user, like Kick, if the user is there
	Data  jsontext.Value `json:"data,omitzero"`  // sets the room's data, if unchanged since SetTimer; null removes it
}

// Named returns the timer of that name, if there is one.
func (t *Timers) Named(name string) (timer Timer, found bool) {
	if t == nil {
		return timer, false
	}
	timer, found = t.ByName[name]
	return timer, found
}

// Len returns how many timers there are.
func (t *Timers) Len() int {
	if t == nil {
		return 0
	}
	return len(t.ByName)
}

// Names returns the names of the timers, in order.
func (t *Timers) Names() []string {
	if t == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(t.ByName))
}

// Next returns the timer that is due first, if there is one.
func (t *Timers) Next() (name string, next Timer, found bool) {
	if t == nil {
		return "", next, false
	}
	for other, timer := range t.ByName {
		if !found || timer.Due < next.Due || timer.Due == next.Due && other < name {
			name, next, found = other, timer, true
		}
	}
	return name, next, found
}

func (t *Timers) since() uint64 {
	if t == nil {
		return 0
	}
	return t.Version
}

func (t *Timers) after(set *Countdown, version uint64) *Timers {
	next := &Timers{Version: version, ByName: make(map[string]Timer, t.Len()+1)}
	if t != nil {
		maps.Copy(next.ByName, t.ByName)
	}
	if set.Due == 0 {
		delete(next.ByName, set.Name)
		return next
	}
	timer := Timer{Due: set.Due, Version: version}
	if then := set.Then; then != nil {
		timer.Then = &Effect{then.Close, strings.Clone(then.Kick), slices.Clone(then.Data)}
	}
	next.ByName[strings.Clone(set.Name)] = timer
	return next
}

// differ reports whether t and other, timers of two copies of a room, differ.
func (t *Timers) differ(other *Timers) bool {
	return t.since() != other.since() || t.Len() != other.Len() ||
		slices.ContainsFunc(t.Names(), func(name string) bool {
			mine, _ := t.Named(name)
			its, there := other.Named(name)
			return !there || mine.Due != its.Due || mine.Version != its.Version || !mine.Then.equals(its.Then)
		})
}

func (e *Effect) equals(other *Effect) bool {
	if e == nil || other == nil {
		return e == other
	}
	return e.Close == other.Close && e.Kick == other.Kick && string(e.Data) == string(other.Data)
}
