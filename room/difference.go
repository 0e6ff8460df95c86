package room

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxDifferences is how many differences are told one by one.
const maxDifferences = 3

// Differences says in what r, which is what somebody knows of a room, differs from the room as it is.
// Positions do not count. It returns "" for none.
func (r *Room) Differences(is *Room) string {
	found := r.memberDifferences(is)
	if r.state.settled != is.state.settled || r.state.settings != is.state.settings {
		found = append(found, fmt.Sprintf("the settings are %+v instead of %+v", is.state.settings, r.state.settings))
	}
	if !r.state.data.equals(is.state.data) {
		found = append(found, fmt.Sprintf("the data is %.60q of version %d instead of %.60q of version %d",
			is.state.data.String(), is.state.data.since(), r.state.data.String(), r.state.data.since()))
	}
	if r.state.timers.differ(is.state.timers) {
		found = append(found, fmt.Sprintf("%d timers are set instead of %d, or others, or for another time", is.state.timers.Len(), r.state.timers.Len()))
	}
	if r.state.host != is.state.host {
		found = append(found, fmt.Sprintf("the host is %q instead of %q", is.state.host, r.state.host))
	}
	if !maps.Equal(r.state.bans, is.state.bans) {
		found = append(found, fmt.Sprintf("%d users are banned instead of %d, or for another time", len(is.state.bans), len(r.state.bans)))
	}
	if !maps.Equal(r.Gone(), is.Gone()) {
		found = append(found, fmt.Sprintf("%d users were taken out instead of %d, or for another reason", len(is.Gone()), len(r.Gone())))
	}
	if more := len(found) - maxDifferences; more > 0 {
		found = append(found[:maxDifferences], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(found, "; ")
}

// memberDifferences returns in what the members differ, by user.
func (r *Room) memberDifferences(is *Room) (found []string) {
	for user, known := range r.members.byUser {
		switch m, there := is.members.byUser[user]; {
		case !there:
			found = append(found, fmt.Sprintf("%q is missing on seat %d", user, known.Seat))
		case m.Seat != known.Seat:
			found = append(found, fmt.Sprintf("%q is on seat %d instead of %d", user, m.Seat, known.Seat))
		case m.Session != known.Session || m.Node != known.Node || m.At != known.At:
			found = append(found, fmt.Sprintf("%q has another session", user))
		case !m.Private.equals(known.Private):
			found = append(found, fmt.Sprintf("%q has other private data", user))
		case !m.equals(known):
			found = append(found, fmt.Sprintf("%q has other data, or is ready or not", user))
		}
	}
	for user, m := range is.members.byUser {
		if _, known := r.members.byUser[user]; !known {
			found = append(found, fmt.Sprintf("%q is too many, on seat %d", user, m.Seat))
		}
	}
	slices.Sort(found)
	return found
}

// Clash says which seat two members have, "" if none is taken twice.
func (r *Room) Clash() string {
	users := make(map[int]string, len(r.members.byUser))
	for user, m := range r.members.byUser {
		if other, taken := users[m.Seat]; taken {
			return fmt.Sprintf("%q and %q are on seat %d", min(user, other), max(user, other), m.Seat)
		}
		users[m.Seat] = user
	}
	return ""
}

// Overfull says how the room has more members, or a higher seat, than its settings allow; "" if it
// does not. A room without settings is not.
func (r *Room) Overfull() string {
	seats := r.state.settings.Seats()
	if !r.state.settled {
		return ""
	}
	if r.Count() > seats {
		return fmt.Sprintf("%d members are on %d seats", r.Count(), seats)
	}
	for user, m := range r.members.byUser {
		if m.Seat >= seats {
			return fmt.Sprintf("%q is on seat %d, and the last one is %d", user, m.Seat, seats-1)
		}
	}
	return ""
}
