package room

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// Message is what somebody says in a room.
type Message struct {
	Text string   // or
	Data string   // JSON
	To   []string // members whom it is for; nil for everybody
}

// Say tells the room a message. As it is, it comes from who has authority over the room;
// [Action.By] makes it that of a member. It changes nothing in the room, but counts as a version:
// everybody hears messages and changes in one order.
func Say(message Message) Action {
	return Action{kind: KindMessage, seat: AnySeat}.with(func(m *more) { m.message = message })
}

func checkMessage(a Action, limit int) (Action, error) {
	said := a.more.message
	switch {
	case (said.Text == "") == (said.Data == ""):
		return a, &InvalidError{"text", "is what is said, or data is: one of both"}
	case !utf8.ValidString(said.Text):
		return a, &InvalidError{"text", "is not valid UTF-8"}
	case len(said.Text) > limit:
		return a, tooLong("text", len(said.Text), limit)
	}
	data, err := ParseData("data", said.Data, limit)
	if err != nil {
		return a, err
	}
	if said.Text == "" && data == "" {
		data = "null"
	}
	said.Data = data
	if said.To != nil {
		if said.To, err = parseUsers("to", said.To); err != nil {
			return a, err
		}
	}
	return a.with(func(m *more) { m.message = said }), nil
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

func say(r *Room, a Action) (seat int, err error) {
	if a.user != "" {
		m, err := speaking(r, a)
		if err != nil {
			return 0, err
		}
		seat = m.Seat
	}
	said := a.more.message
	for _, user := range said.To {
		if _, ok := r.Member(user); !ok {
			return 0, absent(r, user)
		}
	}
	r.updateState(Update{
		Type: KindMessage, User: a.user, Seat: seat,
		Detail: &Detail{Text: said.Text, Data: jsonOf(said.Data), To: said.To},
	})
	return seat, nil
}

// IsFor reports whether a user may read a message: everybody, or those whom it is for and who said it.
func (c *Change) IsFor(user string) bool {
	return c.Type != KindMessage || c.To == nil || c.User == user || slices.Contains(c.To, user)
}
