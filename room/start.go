package room

import "fmt"

// Starter decides when the game of a room begins. Start is called in each commit that changes who
// is in the room or who is ready, and returns the data that the room gets in that same commit, as
// JSON; or false while the game has not to begin. So a game begins exactly once, if Start heeds
// what the room's data say already. [AllReady] is one.
//
// Start must be pure, as a [Seating] must.
type Starter interface {
	Start(in View) (data string, begins bool)
}

// AllReady is the Starter of games that begin when at least so many members are there and all of
// them are ready. The room's data become {"started":true}, if there are none before.
type AllReady int

// Start implements [Starter].
func (n AllReady) Start(in View) (data string, begins bool) {
	if in.Count() < max(int(n), 1) || in.Data() != "" {
		return "", false
	}
	for _, o := range in.Users() {
		if !o.Ready {
			return "", false
		}
	}
	return `{"started":true}`, true
}

// start asks the Starter after the updates of an action, which begin at first.
func start(r *Room, rules Rules, first int) (err error) {
	changed := false
	for i := first; i < len(r.updates); i++ {
		switch r.updates[i].Type {
		case KindJoin, KindLeave, KindMember:
			changed = true
		}
	}
	if !changed {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: Start panicked in room %s: %v", ErrSeating, r.ID, p)
		}
	}()
	data, begins := rules.Starter.Start(View{r})
	if !begins || data == r.state.data.String() {
		return nil
	}
	if data, err = ParseData("data", data, rules.Limits.roomData()); err != nil {
		return fmt.Errorf("%w: Start in room %s: %w", ErrSeating, r.ID, err)
	}
	r.updateState(Update{Type: KindData, Detail: &Detail{Data: jsonOf(data)}})
	return nil
}
