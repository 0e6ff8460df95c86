package room

import (
	"errors"
	"fmt"
)

// MaxTxn is how many actions a [Txn] may have.
const MaxTxn = 32

// Txn (etcd's name) runs actions in one commit, all or none: a game's move that sets data, deals, and starts a clock.
type Txn struct {
	// Actions run in order, 1 to MaxTxn: SetData, Deal, SetTimer, Say, Kick, Swap, Shuffle, Configure and Close.
	Actions []Action

	// Expect makes it fail with [ErrConflict] if since that version the room's data has changed or a timer was set,
	// cancelled or fired, or if the room is in another epoch.
	Expect Expect
}

func (Txn) kind() Kind              { return kindTxn }
func (Txn) subject() (string, bool) { return "", true }

func (a Txn) check(rules Rules) (Action, error) {
	if n := len(a.Actions); n < 1 || n > MaxTxn {
		return nil, &InvalidError{"actions", fmt.Sprintf("must be 1 to %d, not %d", MaxTxn, n)}
	}
	actions := make([]Action, len(a.Actions))
	for i, part := range a.Actions {
		switch part.(type) {
		case SetData, Deal, SetTimer, Say, Kick, Swap, Shuffle, Configure, Close:
		default:
			return nil, &InvalidError{fmt.Sprintf("actions[%d]", i), fmt.Sprintf("is a %q, which is no part of a txn", KindOf(part))}
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

// checkPlay fails with ErrConflict if the room's data or a timer has changed since the expected version.
func (e Expect) checkPlay(r *Room) error {
	if err := e.checkData(r, r.state.data.since(), "the data of room "+r.ID); err != nil {
		return err
	}
	return e.checkData(r, r.state.timers.since(), "a timer of room "+r.ID)
}

// Timed returns a with the times at which the timers it sets fire; see [SetTimer.DueAt]. due returns the time for a
// delay in ms. Timed fails as due does.
func Timed(a Action, due func(in int64) (int64, error)) (Action, error) {
	switch a := a.(type) {
	case SetTimer:
		if a.Stop {
			return a, nil
		}
		at, err := due(a.In)
		a.due = at
		return a, err
	case Txn:
		parts := make([]Action, len(a.Actions))
		for i, part := range a.Actions {
			var err error
			if parts[i], err = Timed(part, due); err != nil {
				return nil, err
			}
		}
		a.Actions = parts
		return a, nil
	}
	return a, nil
}
