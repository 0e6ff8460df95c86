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

// A timer that is due later than alarmAhead has an entry in the index, and no alarm; so has a member who leaves later
// than leaveAhead. When that little is left, the entry has a node look at it, which then sets the alarm.
const (
	alarmAhead = time.Hour
	leaveAhead = time.Minute
)

// ahead returns how long before an entry is due a node sets the alarm, in ms.
func (e entry) ahead() int64 {
	if e.user != "" {
		return leaveAhead.Milliseconds()
	}
	return alarmAhead.Milliseconds()
}

// look returns when a node has to look at an entry: early enough to set the alarm, or when it is due.
func (e entry) look(now int64) int64 {
	if e.due-now > e.ahead() {
		return e.due - e.ahead()
	}
	return e.due
}

// alarm fires a timer that this node has set or adopted, or ends the stay of a member.
type alarm struct {
	entry
	name  string
	clock *time.Timer
}

// setLocked sets the alarm of an entry, replacing an earlier one of that name, unless the entry is due much later. due
// 0 removes the alarm.
func (t *Timers) setLocked(e entry, name string) {
	named := t.alarms[e.room]
	if old := named[name]; old != nil {
		t.stopLocked(old)
		delete(named, name)
	}
	if e.due != 0 && !t.closed && e.due-t.clock.now() <= e.ahead() {
		if named == nil {
			named = make(map[string]*alarm)
			t.alarms[e.room] = named
		}
		a := &alarm{entry: e, name: name}
		named[name] = a
		t.runLocked(a, a.left(t.clock.now()))
	}
	if len(named) == 0 {
		delete(t.alarms, e.room)
	}
}

// adopt sets an alarm for another node's timer, unless one exists. If the other node lives, both nodes try to fire.
func (t *Timers) adopt(e entry, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.alarms[e.room][name]; a == nil || a.entry != e {
		t.setLocked(e, name)
	}
}

func (t *Timers) rooms() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.alarms))
}

// review ends those alarms of a room whose own timer is gone, because another node has cancelled it or Redis has lost
// the room. It has the entries of the others written again, in case Redis has lost some. An alarm is set only after
// its timer's commit, so an alarm without a timer is over.
func (t *Timers) review(ctx context.Context, id string) error {
	t.mu.Lock()
	before := slices.Collect(maps.Values(t.alarms[id])) // before the read, which may miss newer timers
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
		if t.alarms[id][a.name] != a || a.user != "" { // a member's alarm is over soon
			continue
		} else if _, set := dueAt(timers, a.due); set {
			t.missing = append(t.missing, a.entry)
		} else {
			t.over = append(t.over, a.entry)
			t.setLocked(entry{room: id}, a.name)
		}
	}
	return nil
}

// left returns in how long the alarm rings.
func (a *alarm) left(now int64) time.Duration { return time.Duration(a.due-now) * time.Millisecond }

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

// ring fires a timer, and tries again later if that fails.
func (t *Timers) ring(a *alarm) {
	again := a.left(t.clock.now()) // the clock may have been measured more exactly since
	if again <= 0 && t.open.Err() == nil {
		_, err := t.actions.Run(t.open, a.room, room.Upkeep{Due: t.clock.now()})
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
	default: // another node has fired, replaced or cancelled it
		t.setLocked(entry{room: a.room}, a.name)
	}
}
