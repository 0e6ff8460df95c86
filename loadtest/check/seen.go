package check

import (
	"fmt"

	"roomd/loadtest/internal/model"
)

// seen applies a list that somebody saw. It returns why the list is impossible, or "".
func (r *room) seen(l *List) string {
	if wrong := r.seenData(l.Data); wrong != "" {
		return wrong
	}
	switch {
	case !r.knowsSettings || r.maySettings:
		r.settings, r.knowsSettings = l.Settings, true
	case r.settings != l.Settings:
		return fmt.Sprintf("the settings are %+v, and were %+v", l.Settings, r.settings)
	}
	seats, members := model.NewSeats(), make(map[string]status, len(l.Users))
	for _, m := range l.Users {
		if _, twice := seats.Of[m.User]; twice || seats.At[m.Seat] != "" {
			return fmt.Sprintf("%q is there twice, or has the seat of %q", m.User, seats.At[m.Seat])
		}
		seats.Put(m.User, m.Seat)
		was, known := r.members[m.User]
		switch {
		case r.vague(m.User):
			continue
		case known && was.out, !known && !r.wild:
			return fmt.Sprintf("%q is there, who was not", m.User)
		case known && was.seat >= 0 && was.seat != m.Seat && !was.loose:
			return fmt.Sprintf("%q is on seat %d, and was on %d", m.User, m.Seat, was.seat)
		}
		if r.unseated {
			m.Seat = -1
		}
		members[m.User] = status{seat: m.Seat, loose: !known || was.loose, since: was.since}
	}
	for user := range r.members {
		if _, there := seats.Of[user]; !there && r.certain(user) {
			return fmt.Sprintf("%q is not there, who was on seat %d", user, r.members[user].seat)
		}
	}
	for user := range r.halves { // a half move is not seen here
		if was, known := r.members[user]; known {
			members[user] = was
		} else if r.wild && !r.lost(user) {
			members[user] = status{seat: -1, loose: true}
		}
	}
	if r.storms == 0 {
		r.members, r.wild = members, false
	}
	return ""
}

// seenData applies data of the room that somebody saw, likewise.
func (r *room) seenData(data string) string {
	switch {
	case !r.knowsData:
		r.data, r.knowsData, r.dataAt = data, true, 0
	case data == r.data:
		r.also = nil
	case r.also[data]:
		r.data, r.also = data, nil
	case r.mayData[data]:
		r.mayData = without(r.mayData, data)
		r.data, r.dataAt = data, 0 // its version is unknown
	default:
		return fmt.Sprintf("the data are %q, and were %q", data, r.data)
	}
	return ""
}
