package room

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of timers.
const (
	maxTimers    = 8              // of a room
	maxTimerName = 32             // bytes
	MaxTimer     = 24 * 3_600_000 // ms until it fires: a day
)

// Timer is a deadline of a room, as stored in Redis. It does not change.
type Timer struct {
	Due     int64   `json:"due"`           // in ms since 1970 by the clock that all nodes share; unique in a room
	Version uint64  `json:"version"`       // of the room when it was set
	Then    *Effect `json:"then,omitzero"` // nil for nothing
}

// Effect is what a timer does when it fires. At most one field is set.
type Effect struct {
	Close bool           `json:"close,omitzero"` // closes the room, like Close
	Kick  string         `json:"kick,omitzero"`  // removes a user, like Kick, if the user is there
	Data  jsontext.Value `json:"data,omitzero"`  // sets the room's data, if unchanged since SetTimer; null removes it
}

// Timers are the timers of a room, nil for a room that never had any. They do not change.
type Timers struct {
	Version uint64           `json:"version"` // of the room when a timer was last set or cancelled, or fired
	ByName  map[string]Timer `json:"timers"`
}

// SetTimer sets a timer, replacing one of that name, or cancels it. Cancelling a timer that does not exist succeeds.
type SetTimer struct {
	// User is a member with the active session Session, who may set timers if the settings allow members to set data;
	// the effects Close and Kick need authority. Both are empty if somebody with authority over the room acts.
	User, Session string
	Authority     bool // the user has authority over the room: need not be a member, and no settings apply

	Name string // 1 to 32 of A-Z a-z 0-9 . _ -
	In   int64  // ms from now, at most MaxTimer
	Then Effect // the zero value does nothing
	Stop bool   // cancels the timer, and ignores In and Then

	// Expect makes it fail with [ErrConflict] if since that version the room's data has changed or a timer was set,
	// cancelled or fired, or if the room is in another epoch.
	Expect Expect

	due int64 // when it fires; see DueAt
}

// DueAt sets the time at which the timer fires: in ms since 1970 by the clock of all nodes, and unique in the room.
func (a SetTimer) DueAt(due int64) SetTimer {
	a.due = due
	return a
}

func (SetTimer) kind() Kind                { return kindTimer }
func (a SetTimer) subject() (string, bool) { return a.User, false }

func (a SetTimer) check(rules Rules) (_ Action, err error) {
	if a.User, err = checkActor(a.User, a.Session); err != nil {
		return nil, err
	}
	switch {
	case CheckID(a.Name) != nil || len(a.Name) > maxTimerName:
		return nil, &InvalidError{"name", fmt.Sprintf("must be 1 to %d of A-Z a-z 0-9 . _ -", maxTimerName)}
	case a.In < 0 || a.In > MaxTimer:
		return nil, &InvalidError{"in", fmt.Sprintf("must be from 0 to %d ms, not %d", MaxTimer, a.In)}
	}
	a.Then, err = a.Then.check(rules)
	return a, err
}

func (e Effect) check(rules Rules) (_ Effect, err error) {
	n := 0
	for _, given := range []bool{e.Close, e.Kick != "", e.Data != nil} {
		if given {
			n++
		}
	}
	if n > 1 {
		return e, &InvalidError{"then", "must be one of close, kick and data"}
	}
	if e.Kick != "" {
		if e.Kick, err = ParseUser(e.Kick); err != nil {
			return e, &InvalidError{"then.kick", err.(*InvalidError).Problem}
		}
	}
	if e.Data != nil {
		data, err := parseData("then.data", string(e.Data), rules.Limits.roomData())
		if err != nil {
			return e, err
		}
		e.Data = jsontext.Value(cmp.Or(data, "null"))
	}
	return e, nil
}

func (a SetTimer) apply(r *Room, _ Rules, by Origin) (int, error) {
	if a.User != "" && !a.Authority {
		if err := maySetData(r, a.User, a.Session, by, "its data and its timers"); err != nil {
			return 0, err
		}
		if a.Then.Close || a.Then.Kick != "" {
			return 0, Forbid("only admins may set a timer that closes the room, or throws somebody out")
		}
	}
	timers := r.state.timers
	if err := a.Expect.checkPlay(r); err != nil {
		return 0, err
	}
	was, there := timers.Named(a.Name)
	switch {
	case a.Stop && !there:
		return 0, nil
	case a.Stop:
		r.endTimer(KindCountdown, a.User, a.Name)
		return 0, nil
	case !r.begun():
		return 0, Refuse(ErrNoRoom, "room %s has not begun", r.ID)
	case !there && timers.Len() == maxTimers:
		return 0, &InvalidError{"name", fmt.Sprintf("is that of one timer more than the %d that room %s has", maxTimers, r.ID)}
	}
	set := &Countdown{Name: a.Name, Due: a.due, Was: was.Due}
	if a.Then.Close || a.Then.Kick != "" || a.Then.Data != nil {
		set.Then = &a.Then
	}
	r.updateState(Update{Type: KindCountdown, User: a.User, Detail: &Detail{Timer: set}})
	return 0, nil
}

// endTimer cancels (KindCountdown) or fires (kindTimer) an existing timer.
func (r *Room) endTimer(kind Kind, by, name string) {
	was, _ := r.state.timers.Named(name)
	r.updateState(Update{Type: kind, User: by, Detail: &Detail{Timer: &Countdown{Name: name, Was: was.Due}}})
}

// Fire fires all timers of a room that are due, in the order of their times. So each fires once, however many nodes
// try: later nodes find it gone, or set to another time. [Room.Apply] returns how many have fired in place of a seat.
type Fire struct {
	Now int64 // in ms since 1970, by the clock that all nodes share
}

func (Fire) kind() Kind                  { return kindFire }
func (Fire) subject() (string, bool)     { return "", true } // an effect may concern anybody
func (Fire) check(Rules) (Action, error) { return nil, errOfNodes }

func (a Fire) apply(r *Room, rules Rules, by Origin) (n int, err error) {
	for {
		name, t, found := r.state.timers.Next()
		if !found || t.Due > a.Now {
			return n, nil
		}
		n++
		r.endTimer(kindTimer, "", name)
		if t.Then == nil {
			continue
		}
		switch then := t.Then; {
		case then.Close:
			_, err = Close{}.apply(r, rules, by)
		case then.Kick != "":
			if _, there := r.Member(then.Kick); there {
				_, err = Kick{User: then.Kick}.apply(r, rules, by)
			}
		case then.Data != nil && r.state.data.since() <= t.Version:
			data := ""
			if then.Data.Kind() != jsontext.KindNull {
				data = string(then.Data)
			}
			_, err = SetData{Data: data}.apply(r, rules, by)
		}
		if err != nil {
			return n, err
		}
	}
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

// differ reports whether two rooms have different timers.
func (t *Timers) differ(other *Timers) bool {
	return t.since() != other.since() || t.Len() != other.Len() || slices.ContainsFunc(t.Names(), func(name string) bool {
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

// Timers returns the room's timers.
func (s Snapshot) Timers() *Timers {
	if s.state == nil {
		return nil
	}
	return s.state.timers
}
