package anomaly

import (
	"maps"
	"slices"
	"time"
)

// belief is where a user must be, by the replies so far.
type belief int

const (
	out belief = iota // left, or never came in
	in
	open // may be either
)

// members compares the replies that users got with the list that they read for their next request, and with the list at the
// end. It finds each wrong outcome once: afterwards the user believes the list.
func members(h History) (found []Finding) {
	believed := make(map[string]belief)
	twice := make(map[string]bool)  // was found in a list more than once, and has not left
	asked := make(map[string]Event) // and got no reply yet
	look := func(user string, list []string, at time.Duration) {
		first := slices.Index(list, user)
		switch b := believed[user]; {
		case b == in && first < 0:
			found, believed[user] = append(found, Finding{What: Lost, At: at, Subject: user}), out
		case b == out && first >= 0:
			found, believed[user] = append(found, Finding{What: Phantom, At: at, Subject: user}), in
		}
		again := first >= 0 && slices.Contains(list[first+1:], user)
		if again && !twice[user] {
			found = append(found, Finding{What: Duplicate, At: at, Subject: user})
		}
		twice[user] = again
	}
	for _, user := range h.Initial {
		believed[user] = in
	}
	var end time.Duration
	for _, e := range h.Events {
		end = e.At
		switch e.Kind {
		case Asked:
			asked[e.Caller] = e
		case Read:
			look(e.Caller, e.Users, e.At)
		case ToldOK:
			believed[e.Caller] = in
			if asked[e.Caller].Leave {
				believed[e.Caller] = out
			}
			delete(asked, e.Caller)
		case ToldFailed:
			delete(asked, e.Caller)
		case ToldUnknown, Crashed:
			believed[e.Caller] = open
			delete(asked, e.Caller)
		}
	}
	for user := range asked { // the history ends before their reply
		believed[user] = open
	}
	users := slices.AppendSeq(slices.Clone(h.Final), maps.Keys(believed))
	slices.Sort(users)
	for _, user := range slices.Compact(users) {
		look(user, h.Final, end)
	}
	return found
}
