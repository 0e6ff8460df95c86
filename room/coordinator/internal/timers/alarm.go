package timers

import (
	"context"
	"maps"
	"slices"
	"time"

	"roomd/room"
)

// retryPause is the pause before a timer that could not fire is tried again.
const retryPause = 500 * time.Millisecond

// alarm is for a timer that this node has set, or adopted.
type alarm struct {
	entry
	name  string
	clock *time.Timer
}

// setLocked sets the alarm of a timer in the place of an earlier one of that name. due is 0 if there is none any
// more.
func (t *Timers) setLocked(id, name string, due int64) {
	named := t.alarms[id]
	if old := named[name]; old != nil {
		t.stopLocked(old)
		delete(named, name)
	}
	if due != 0 && !t.closed {
		if named == nil {
			named = make(map[string]*alarm)
			t.alarms[id] = named
		}
		a := &alarm{entry: entry{id, due}, name: name}
		named[name] = a
		t.runLocked(a, t.left(a))
	}
	if len(named) == 0 {
		delete(t.alarms, id)
	}
}

// adopt sets an alarm for a timer that another node has set, unless there is one. If that node lives after all,
// both try.
func (t *Timers) adopt(e entry, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.alarms[e.room][name]; a == nil || a.entry != e {
		t.setLocked(e.room, name, e.due)
	}
}

// rooms returns the rooms of all alarms.
func (t *Timers) rooms() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.alarms))
}

// review ends the alarms of a room whose timers are gone: another node has cancelled them, or Redis has forgotten
// the room with them. Entries of the others are written again, should Redis have lost some. An alarm is set only
// when the commit that sets its timer is done, so one whose timer is not there is over.
func (t *Timers) review(ctx context.Context, id string) error {
	t.mu.Lock()
	before := slices.Collect(maps.Values(t.alarms[id])) // the room is read later: a timer of an alarm that is set meanwhile may not be in it
	t.mu.Unlock()
	reading, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	timers, err := t.store.Timers(reading, id)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range before {
		if t.alarms[id][a.name] != a {
			continue
		} else if _, set := dueAt(timers, a.due); set {
			t.missing = append(t.missing, a.entry)
		} else {
			t.over = append(t.over, a.entry)
			t.setLocked(id, a.name, 0)
		}
	}
	return nil
}

// left returns how long it is until a timer is due.
func (t *Timers) left(a *alarm) time.Duration {
	return time.Duration(a.due-t.clock.now()) * time.Millisecond
}

func (t *Timers) runLocked(a *alarm, in time.Duration) {
	t.busy.Add(1)
	a.clock = time.AfterFunc(in, func() {
		defer t.busy.Done()
		t.ring(a)
	})
}

func (t *Timers) stopLocked(a *alarm) {
	if a.clock.Stop() {
		t.busy.Done()
	}
}

// ring has a timer fire, and tries again later if that fails.
func (t *Timers) ring(a *alarm) {
	again := t.left(a) // the clock may have been measured more exactly since
	if again <= 0 && t.open.Err() == nil {
		_, err := t.actions.Run(t.open, a.room, room.Fire{Now: t.clock.now()})
		again = retryPause
		if err == nil {
			again = 0
		} else if t.open.Err() == nil {
			t.failed.Happened(err, "room", a.room)
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed || t.alarms[a.room][a.name] != a:
	case again > 0:
		t.runLocked(a, again)
	default: // another node has had it fire, or has set or cancelled it
		t.setLocked(a.room, a.name, 0)
	}
}
