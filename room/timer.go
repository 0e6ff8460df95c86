package room

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of timers.
const (
	maxTimers    = 8                   // of a room
	maxTimerName = 32                  // bytes
	MaxTimer     = 90 * 24 * 3_600_000 // ms until it fires: 90 days
)

// SetTimer sets a timer, replacing one of that name, or cancels it. Cancelling a timer that does not exist succeeds.
// SetTimer fails with [ErrNoRoom] if the room has not begun, and with [ErrInvalid] if it has 8 others already.
type SetTimer struct {
	User, Session string // as in SetData
	Authority     bool   // as in SetData; the effects Close and Kick need authority

	Name string // 1 to 32 of A-Z a-z 0-9 . _ -
	In   int64  // ms from now, at most MaxTimer
	Then Effect // the zero value does nothing
	Stop bool   // cancels the timer, and ignores In and Then

	Expect Expect // as in SetData, for the room's data and all its timers

	due int64 // when it fires; see Timed
}

// Timed returns the action with the time at which the timer fires, or the error of due. due turns a delay in ms into a
// time that is unique in the room, in ms since 1970 by the clock of all nodes.
func (a SetTimer) Timed(due func(in int64) (int64, error)) (_ Action, err error) {
	if !a.Stop {
		a.due, err = due(a.In)
	}
	return a, err
}

func (a SetTimer) about() (Kind, string, bool) { return kindTimer, a.User, false }

func (a SetTimer) check(rules Rules) (_ Action, err error) {
	if a.User, err = checkActor(a.User, a.Session); err != nil {
		return nil, err
	}
	switch {
	case CheckID(a.Name) != nil || len(a.Name) > maxTimerName:
		return nil, invalid("name", "must be 1 to %d of A-Z a-z 0-9 . _ -", maxTimerName)
	case a.In < 0 || a.In > MaxTimer:
		return nil, invalid("in", "must be from 0 to %d ms, not %d", MaxTimer, a.In)
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
		return 0, invalid("name", "is that of one timer more than the %d that room %s has", maxTimers, r.ID)
	}
	set := &Countdown{Name: a.Name, Due: a.due, Was: was.Due}
	if a.Then.Close || a.Then.Kick != "" || a.Then.Data != nil {
		set.Then = &a.Then
	}
	r.update(Update{Type: KindCountdown, User: a.User, Detail: &Detail{Timer: set}})
	return 0, nil
}

// endTimer cancels (KindCountdown) or fires (kindTimer) an existing timer.
func (r *Room) endTimer(kind Kind, by, name string) {
	was, _ := r.state.timers.Named(name)
	r.update(Update{Type: kind, User: by, Detail: &Detail{Timer: &Countdown{Name: name, Was: was.Due}}})
}

// MaxTxn is how many actions a [Txn] may have.
const MaxTxn = 32

// Txn (etcd's name) runs actions in one commit, all or none: a game's move that sets data, deals, and starts a clock.
// It fails with an action's error, or with [ErrNoRoom] if the room has not begun.
type Txn struct {
	// Actions run in order, 1 to MaxTxn: SetData, Deal, SetTimer, Say, Kick, Swap, Shuffle, Configure and Close.
	Actions []Action

	Expect Expect // as in SetTimer
}

func (Txn) about() (Kind, string, bool) { return kindTxn, "", true }

func (a Txn) check(rules Rules) (Action, error) {
	if n := len(a.Actions); n < 1 || n > MaxTxn {
		return nil, invalid("actions", "must be 1 to %d, not %d", MaxTxn, n)
	}
	actions := make([]Action, len(a.Actions))
	for i, part := range a.Actions {
		switch part.(type) {
		case SetData, Deal, SetTimer, Say, Kick, Swap, Shuffle, Configure, Close:
		default:
			return nil, invalid(fmt.Sprintf("actions[%d]", i), "is a %q, which is no part of a txn", KindOf(part))
		}
		normal, err := Check(part, rules)
		if invalid, is := errors.AsType[*InvalidError](err); is {
			err = &InvalidError{fmt.Sprintf("actions[%d].%s", i, invalid.Field), invalid.Problem}
		}
		if err != nil {
			return nil, err
		}
		actions[i] = normal
	}
	a.Actions = actions
	return a, nil
}

func (a Txn) apply(r *Room, rules Rules, by Origin) (int, error) {
	if !r.begun() {
		return 0, Refuse(ErrNoRoom, "room %s has not begun", r.ID)
	}
	if err := a.Expect.checkPlay(r); err != nil {
		return 0, err
	}
	for _, part := range a.Actions {
		if _, err := part.apply(r, rules, by); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

// Timed returns the txn with the times at which its timers fire; see [SetTimer.Timed].
func (a Txn) Timed(due func(in int64) (int64, error)) (Action, error) {
	parts := slices.Clone(a.Actions)
	for i, part := range parts {
		timer, is := part.(SetTimer)
		if !is {
			continue
		}
		var err error
		if parts[i], err = timer.Timed(due); err != nil {
			return nil, err
		}
	}
	a.Actions = parts
	return a, nil
}
