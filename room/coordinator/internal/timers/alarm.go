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

// alarm fires a timer that this node has set or adopted.
type alarm struct {
	entry
	name  string
	clock *time.Timer
}

// setLocked sets the alarm of a timer, replacing an earlier one of that name. due 0 removes the alarm.
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

// adopt sets an alarm for another node's timer, unless one exists. If the other node lives, both nodes try to fire.
func (t *Timers) adopt(e entry, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.alarms[e.room][name]; a == nil || a.entry != e {
		t.setLocked(e.room, name, e.due)
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

// ring fires a timer, and tries again later if that fails.
func (t *Timers) ring(a *alarm) {
	again := t.left(a) // the clock may have been measured more exactly since
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
		t.setLocked(a.room, a.name, 0)
	}
}
