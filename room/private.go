package room

import (
	"errors"
	"fmt"
	"slices"
)

// Deal gives members private data, which only they and authority over the room are shown: all of them, or none. The
// data is gone when the member leaves.
type Deal struct {
	// User is a member with the active session Session, who may only set their own data, unless the room's settings
	// forbid it. Both are empty if somebody with authority over the room acts.
	User, Session string

	Hands     []Hand // of 1 to MaxGroup different members
	Authority bool   // the user has authority over the room: need not be a member, and may deal to others

	// Expect makes it fail with [ErrConflict] if any of this data has changed since then, or in another epoch.
	Expect Expect
}

// Hand is the private data that one member gets.
type Hand struct {
	User string
	Data string // JSON, "" to remove it
}

func (Deal) kind() Kind                { return kindPrivate }
func (a Deal) subject() (string, bool) { return a.User, false }

func (a Deal) check(rules Rules) (_ Action, err error) {
	if a.User, err = checkActor(a.User, a.Session); err != nil {
		return nil, err
	}
	if n := len(a.Hands); n < 1 || n > MaxGroup {
		return nil, &InvalidError{"hands", fmt.Sprintf("must be of 1 to %d users, not %d", MaxGroup, n)}
	}
	hands := make([]Hand, 0, len(a.Hands))
	for _, hand := range a.Hands {
		if hand, err = hand.check(len(a.Hands) == 1, rules.Limits.privateData()); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(hands, func(h Hand) bool { return h.User == hand.User }) {
			return nil, &InvalidError{"hands", fmt.Sprintf("names %s twice", hand.User)}
		}
		hands = append(hands, hand)
	}
	a.Hands = hands
	return a, nil
}

// check returns the hand in its normal form. only says that there are no other hands: errors name user or data.
func (h Hand) check(only bool, limit int) (normal Hand, err error) {
	if normal.User, err = ParseUser(h.User); err != nil {
		if invalid, ok := errors.AsType[*InvalidError](err); ok && !only {
			err = &InvalidError{"hands", fmt.Sprintf("names %.32q, and a user %s", h.User, invalid.Problem)}
		}
		return normal, err
	}
	field := "data"
	if !only {
		field = "hands." + normal.User
	}
	normal.Data, err = parseData(field, h.Data, limit)
	return normal, err
}

func (a Deal) apply(r *Room, _ Rules, by Origin) (seat int, err error) {
	if a.User != "" && !a.Authority {
		m, err := activeMember(r, a.User, a.Session, by)
		if err != nil {
			return 0, err
		}
		switch seat = m.Seat; {
		case len(a.Hands) != 1 || a.Hands[0].User != a.User:
			return 0, Forbid("only admins set the private data of others")
		case r.state.settings.Data != DataMembers:
			return 0, Forbid("the settings of room %s let only admins set private data", r.ID)
		}
	}
	for _, hand := range a.Hands {
		m, ok := r.Member(hand.User)
		if !ok {
			return 0, absent(r, hand.User)
		}
		if err := a.Expect.checkData(r, m.Private.since(), fmt.Sprintf("the private data of %s", hand.User)); err != nil {
			return 0, err
		}
		if hand.Data == m.Private.String() {
			continue
		}
		r.update(m.Node, Update{Type: kindPrivate, User: hand.User, Seat: m.Seat, Detail: &Detail{Data: jsonOfMember(hand.Data)}})
	}
	return seat, nil
}

// Viewer is a person to whom a room is shown.
type Viewer struct {
	User      string // "" for nobody in particular
	Authority bool   // over the room
}

// IsFor reports whether v may see a change. A message is for everybody; or for its sender and the users it names; or,
// if it names none, for authority. Private data is for its member and authority. Other changes are for all.
func (c *Change) IsFor(v Viewer) bool {
	switch c.Type {
	case KindMessage:
		switch {
		case c.Detail == nil || c.To == nil:
			return true
		case len(c.To) == 0:
			return v.Authority
		}
		return v.User != "" && c.User == v.User || slices.Contains(c.To, v.User)
	case kindPrivate:
		return v.Authority || v.User != "" && c.User == v.User
	}
	return true
}

// Concerned reports whether a change is not for everybody.
func (c *Change) Concerned() bool { return !c.IsFor(Viewer{}) }

// Private returns the private data that v may see, by user; nil for none.
func (s Snapshot) Private(v Viewer) map[string]string {
	if s.view == nil || s.view.private == 0 {
		return nil
	}
	return s.view.privateFor(v)
}
