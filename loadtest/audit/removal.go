package audit

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

// takeOut replays that a user was taken out. The oldest one makes room; of several, the first by name.
func (s *state) takeOut(user string, r removal) {
	s.removals[user] = r
	if len(s.removals) <= maxRemovals {
		return
	}
	oldest := user
	for other, is := range s.removals {
		if first := s.removals[oldest].Version; is.Version < first || is.Version == first && other < oldest {
			oldest = other
		}
	}
	delete(s.removals, oldest)
}

// reopen replays that a room was closed for good, which takes everybody out, or is open.
func (o *oracle) reopen(e *entry, c *change) {
	switch {
	case c.Shut:
		o.takeOut(everybody, removal{Version: e.Version, Reason: reasonClosed})
	case o.settings != nil && !o.settings.Closed:
		delete(o.removals, everybody)
		o.reopened = true
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
		switch member := o.members[user] != nil; {
		case known && was != is:
			o.find(RuleGone, o.version, says(theJournal, "%s was taken out: %+v", quoted(user), was), says(inRedis, "%+v", is))
		case !known && (member || came || o.complete || is.Version >= o.since):
			o.find(RuleGone, o.version, says(theJournal, "nobody has taken %s out, or the user has come back", quoted(user)), says(inRedis, "%+v", is))
		}
	}
	for _, user := range slices.Sorted(maps.Keys(o.removals)) {
		if _, ok := there[user]; !ok {
			o.find(RuleGone, o.version, says(theJournal, "%s was taken out: %+v", quoted(user), o.removals[user]), says(inRedis, "nothing of that"))
		}
	}
}
