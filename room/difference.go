package room

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// maxDifferences is how many differences are described one by one.
const maxDifferences = 3

// Differences describes how r, a copy, differs from is, the stored room, except for positions; "" for no difference.
func (r *Room) Differences(is *Room) string {
	found := r.members.differences(&is.members)
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
	if !maps.Equal(r.State().Gone, is.State().Gone) {
		found = append(found, fmt.Sprintf("%d users were taken out instead of %d, or for another reason", len(is.State().Gone), len(r.State().Gone)))
	}
	if more := len(found) - maxDifferences; more > 0 {
		found = append(found[:maxDifferences], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(found, "; ")
}

func (m *roster) differences(is *roster) (found []string) {
	for user, known := range m.byUser {
		switch m, there := is.byUser[user]; {
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
	for user, extra := range is.byUser {
		if !m.has(user) {
			found = append(found, fmt.Sprintf("%q is too many, on seat %d", user, extra.Seat))
		}
	}
	slices.Sort(found)
	return found
}
