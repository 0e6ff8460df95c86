package model

import (
	"maps"
	"slices"
)

// removal is why somebody with authority has taken a user out of the room, as Meta keeps it of the
// last users until they come back.
type removal struct {
	Version uint64 `json:"version"`
	Reason  string `json:"reason"`
	Text    string `json:"text"`
	Target  string `json:"target"`
}

// Reasons of a leave that are kept.
const (
	reasonKicked = "kicked"
	reasonMoved  = "moved"
	reasonClosed = "closed"
)

// maxRemovals is how many users Meta has, and everybody the user whose removal is that of all.
const (
	maxRemovals = 128
	everybody   = ""
)

// removals are by user.
type removals map[string]removal

// add replays that a user was taken out. The oldest one makes room; of several, the first by name.
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

// reopen replays that a room was closed for good, which takes everybody out, or is open.
func (r *Room) reopen(e *Entry, c *Change) {
	switch {
	case c.Shut:
		r.removals.add(everybody, removal{Version: e.Version, Reason: reasonClosed})
	case r.settings != nil && !r.settings.Closed:
		delete(r.removals, everybody)
		r.reopened = true
	}
}

// compareRemovals judges the removals that Meta has. Those of before the journal are not known, but
// who came in since has none.
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
