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

// members compares the replies that users got with the list that they read for their
// next request, and with the list at the end. It finds each wrong outcome once.
func members(h History) []Finding {
	w := witness{believed: make(map[string]belief), twice: make(map[string]bool)}
	asked := make(map[string]Event) // and got no reply yet
	for _, user := range h.Initial {
		w.believed[user] = in
	}
	for _, e := range h.Events {
		switch e.Kind {
		case Asked:
			asked[e.Caller] = e
			w.hear(e.Caller)
		case Read:
			w.look(e.Caller, e.Users, e.At)
		case ToldOK:
			w.believed[e.Caller] = in
			if asked[e.Caller].Leave {
				w.believed[e.Caller] = out
			}
			delete(asked, e.Caller)
		case ToldFailed:
			delete(asked, e.Caller)
		case ToldUnknown, Crashed:
			w.believed[e.Caller] = open
			delete(asked, e.Caller)
		}
	}
	for user := range asked { // the history ends before their reply
		w.believed[user] = open
	}
	w.hear(h.Final...)
	var end time.Duration
	if n := len(h.Events); n > 0 {
		end = h.Events[n-1].At
	}
	for _, user := range slices.Sorted(maps.Keys(w.believed)) {
		w.look(user, h.Final, end)
	}
	return w.found
}

// witness remembers what users believe, and finds where a list says otherwise.
type witness struct {
	found    []Finding
	believed map[string]belief
	twice    map[string]bool // was found in a list more than once, and has not left
}

// hear adds users to look for at the end.
func (w *witness) hear(users ...string) {
	for _, user := range users {
		w.believed[user] = max(w.believed[user], out)
	}
}

// look compares what a user believes with a list.
func (w *witness) look(user string, list []string, at time.Duration) {
	if f, wrong := compare(user, w.believed[user], list); wrong {
		f.At = at
		w.found = append(w.found, f)
		w.believed[user] = f.seen()
	}
	first := slices.Index(list, user)
	twice := first >= 0 && slices.Contains(list[first+1:], user)
	if twice && !w.twice[user] {
		w.found = append(w.found, Finding{What: Duplicate, At: at, Subject: user})
	}
	w.twice[user] = twice
}

// compare compares what a user believes with a list.
func compare(user string, b belief, list []string) (Finding, bool) {
	switch there := slices.Contains(list, user); {
	case b == in && !there:
		return Finding{What: Lost, Subject: user}, true
	case b == out && there:
		return Finding{What: Phantom, Subject: user}, true
	}
	return Finding{}, false
}

// seen returns what the user must believe after the finding.
func (f Finding) seen() belief {
	if f.What == Lost {
		return out
	}
	return in
}
