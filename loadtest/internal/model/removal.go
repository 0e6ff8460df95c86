package model

import (
	"maps"
	"slices"
)

// removal is the reason why somebody removed a user. Meta keeps it for the last removed users, until they come
// back.
type removal struct {
	Version uint64 `json:"version"`
	Reason  string `json:"reason"`
	Text    string `json:"text"`
	Target  string `json:"target"`
}

// Reasons that Meta keeps.
const (
	reasonKicked = "kicked"
	reasonMoved  = "moved"
	reasonClosed = "closed"
)

// maxRemovals is how many users Meta keeps. everybody is the user for a removal of all.
const (
	maxRemovals = 128
	everybody   = ""
)

// removals are by user.
type removals map[string]removal

// add replays a removal. If there are too many, it drops the oldest one, and of several oldest the first by
// name.
func (all removals) add(user string, why removal) {
	all[user] = why
	if len(all) <= maxRemovals {
		return
	}
	oldest := user
	for other, is := range all {
		if first := all[oldest].Version; is.Version < first || is.Version == first && other < oldest {
			oldest = other
		}
	}
	delete(all, oldest)
}

// reopen replays that a room was closed for good, which removes everybody, or opened.
func (r *Room) reopen(e *Entry, c *Change) {
	switch {
	case c.Shut:
		r.removals.add(everybody, removal{Version: e.Version, Reason: reasonClosed})
	case r.settings != nil && !r.settings.Closed:
		delete(r.removals, everybody)
		r.reopened = true
	}
}

// compareRemovals judges the removals in Meta. Those from before the journal are unknown, but users who joined
// since have none.
func (o *ending) compareRemovals() {
	there, _, ok := read[map[string]removal](o, RuleGone, "gone")
	if !ok {
		return
	}
	for _, user := range slices.Sorted(maps.Keys(there)) {
		is, came := there[user], false
		was, known := o.removals[user]
		if _, came = o.came[user]; user == everybody {
			came = o.reopened
		}
		switch member := o.Members[user] != nil; {
		case known && was != is:
			o.find(RuleGone, o.version, says(theJournal, "%s was taken out: %+v", quoted(user), was),
				says(inRedis, "%+v", is))
		case !known && (member || came || o.complete || is.Version >= o.since):
			o.find(RuleGone, o.version, says(theJournal, "nobody has taken %s out, or the user has come back",
				quoted(user)), says(inRedis, "%+v", is))
		}
	}
	for _, user := range slices.Sorted(maps.Keys(o.removals)) {
		if _, ok := there[user]; !ok {
			o.find(RuleGone, o.version, says(theJournal, "%s was taken out: %+v", quoted(user), o.removals[user]),
				says(inRedis, "nothing of that"))
		}
	}
}
