package room

import (
	"fmt"
	"unicode/utf8"
)

// Say tells the room a message. It changes nothing in the room, but counts as a version: everybody hears
// messages and changes in one order.
type Say struct {
	// User is the member whose active session Session is. Both are empty if it is somebody with authority over the
	// room.
	User, Session string

	Text string   // or
	Data string   // JSON
	To   []string // members whom it is for; nil for everybody, and empty for who has authority over the room alone

	Authority bool // the user has authority over the room, and need not be a member
}

func (Say) kind() Kind                { return KindMessage }
func (a Say) subject() (string, bool) { return a.User, false }

func (a Say) check(rules Rules) (_ Action, err error) {
	if a.User, err = checkActor(a.User, a.Session); err != nil {
		return nil, err
	}
	limit := rules.Limits.message()
	switch {
	case (a.Text == "") == (a.Data == ""):
		return nil, &InvalidError{"text", "is what is said, or data is: one of both"}
	case !utf8.ValidString(a.Text):
		return nil, &InvalidError{"text", "is not valid UTF-8"}
	case len(a.Text) > limit:
		return nil, tooLong("text", len(a.Text), limit)
	}
	if a.Data, err = ParseData("data", a.Data, limit); err != nil {
		return nil, err
	}
	if a.Text == "" && a.Data == "" {
		a.Data = "null"
	}
	if len(a.To) > 0 {
		a.To, err = parseUsers("to", a.To)
	}
	return a, err
}

func (a Say) apply(r *Room, _ Rules, by Origin) (seat int, err error) {
	if a.User != "" {
		m, err := activeMember(r, a.User, a.Session, by)
		if err != nil && !a.Authority {
			return 0, err
		}
		seat = m.Seat
	}
	for _, user := range a.To {
		if _, ok := r.Member(user); !ok {
			return 0, absent(r, user)
		}
	}
	r.updateState(Update{
		Type: KindMessage, User: a.User, Seat: seat,
		Detail: &Detail{Text: a.Text, Data: jsonOf(a.Data), To: a.To},
	})
	return seat, nil
}

// parseUsers returns the names in their normal form. Each may be there once.
func parseUsers(field string, names []string) ([]string, error) {
	if len(names) < 1 || len(names) > MaxGroup {
		return nil, &InvalidError{field, fmt.Sprintf("must name 1 to %d users, not %d", MaxGroup, len(names))}
	}
	users, seen := make([]string, len(names)), make(map[string]bool, len(names))
	for i, name := range names {
		user, err := ParseUser(name)
		if err != nil {
			return nil, &InvalidError{fmt.Sprintf("%s[%d]", field, i), err.(*InvalidError).Problem}
		}
		if seen[user] {
			return nil, &InvalidError{field, fmt.Sprintf("names %s twice", user)}
		}
		users[i], seen[user] = user, true
	}
	return users, nil
}
