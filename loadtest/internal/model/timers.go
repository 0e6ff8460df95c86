package model

import (
	"maps"
	"slices"
)

// setTimer is a timer in the journal.
type setTimer struct {
	Due     int64  `json:"due"` // 0 if it is not set
	Version uint64 `json:"version"`
}

// countdown replays that a timer was set or cancelled, or has fired. Only a timer that is set fires, and only
// once.
func (r *Room) countdown(e *Entry, c *Change) {
	if c.Timer == nil {
		r.report(RuleEntry, e.Version, says(theEntry, "%s of no timer", c.Type),
			says("this program", "cannot read that"))
		return
	}
	t := *c.Timer
	says1 := says(theEntry, "%s of %s, due at %d before and now at %d (0: none)", c.Type, quoted(t.Name), t.Was, t.Due)
	was, known := r.timers[t.Name]
	switch {
	case (known || r.complete) && !r.Told && was.Due != t.Was:
		r.report(RuleTimer, e.Version, says1, says(before, "it was due at %d", was.Due))
	case t.Was == 0 && t.Due == 0 && (!r.Told || was.Due == 0 && (known || r.complete)), c.Type == typeTimer &&
		t.Due != 0:
		r.report(RuleTimer, e.Version, says1, says("the rules", "what is set can fire or be cancelled, once"))
	}
	r.timers[t.Name] = setTimer{t.Due, e.Version}
}

// compareTimers judges the timers in Redis.
func (o *ending) compareTimers() {
	has, there, ok := read[struct {
		Version uint64              `json:"version"`
		Timers  map[string]setTimer `json:"timers"`
	}](o, RuleTimers, "timers")
	if !ok {
		return
	}
	last := uint64(0)
	for _, name := range slices.Sorted(maps.Keys(o.timers)) {
		made := o.timers[name]
		last = max(last, made.Version)
		if is := has.Timers[name]; is.Due != made.Due || made.Due != 0 && is.Version != made.Version {
			o.find(RuleTimers, o.version, says(theJournal, "%s is due at %d (0: none), set at version %d",
				quoted(name), made.Due, made.Version), there)
		}
	}
	if last > 0 && has.Version != last {
		o.find(RuleTimers, o.version, says(theJournal, "they were last changed at version %d", last), there)
	}
	for _, name := range slices.Sorted(maps.Keys(has.Timers)) {
		if _, mentioned := o.timers[name]; o.complete && !mentioned {
			o.find(RuleTimers, o.version, says(theJournal, "%s was never set", quoted(name)), there)
		}
	}
}
