package anomaly

import (
	"maps"
	"slices"
)

// belief is what a user must be able to rely on.
type belief int

const (
	out belief = iota // was told to have left, or never to have come in
	in
	open // may be either
)

// members compares what users were told with what they found later, when they
// read the list for their next request, and with the list in the end. Each wrong
// outcome is found once.
func members(h History) []Finding {
	var found []Finding
	believed := make(map[string]belief)
	asked := make(map[string]Event)  // and not told yet
	known := func(users ...string) { // to be looked for in the end
		for _, user := range users {
			believed[user] = max(believed[user], out)
		}
	}
	for _, user := range h.Initial {
		believed[user] = in
	}
	for _, e := range h.Events {
		switch e.Kind {
		case Asked:
			asked[e.Caller] = e
			known(e.Caller)
		case Read:
			if f, wrong := compare(e.Caller, believed[e.Caller], e.Users); wrong {
				f.At = e.At
				found = append(found, f)
				believed[e.Caller] = f.seen()
			}
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
	for user := range asked { // the history ends before they were told
		believed[user] = open
	}
	known(h.Final...)
	for _, user := range slices.Sorted(maps.Keys(believed)) {
		if f, wrong := compare(user, believed[user], h.Final); wrong {
			if n := len(h.Events); n > 0 {
				f.At = h.Events[n-1].At
			}
			found = append(found, f)
		}
	}
	return found
}

// compare holds what a user believes against a list.
func compare(user string, b belief, list []string) (Finding, bool) {
	switch there := slices.Contains(list, user); {
	case b == in && !there:
		return Finding{What: Lost, Subject: user}, true
	case b == out && there:
		return Finding{What: Phantom, Subject: user}, true
	}
	return Finding{}, false
}

// seen is what the user knows now.
func (f Finding) seen() belief {
	if f.What == Lost {
		return out
	}
	return in
}
