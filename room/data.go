package room

import (
	"cmp"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// SetData replaces the room's data.
type SetData struct {
	// User acts by Session. Without Authority it has to be a member's active session. Both are empty if somebody with
	// authority over the room acts without a session.
	User, Session string

	Data      string // JSON, "" to remove it
	Authority bool   // User has authority over the room; otherwise the settings must let members set data

	// Expect makes it fail with [ErrConflict] if the data has changed since that version, the room has not reached it,
	// or is in another epoch: a compare-and-set for a caller that has followed the room up to that version.
	Expect Expect
}

func (a SetData) about() (Kind, string, bool) { return kindData, a.User, false }

func (a SetData) check(rules Rules) (_ Action, err error) {
	if a.User, err = checkActor(a.User, a.Session); err != nil {
		return nil, err
	}
	a.Data, err = parseData("data", a.Data, rules.Limits.roomData())
	return a, err
}

func (a SetData) apply(r *Room, _ Rules, by Origin) (int, error) {
	if a.User != "" && !a.Authority {
		if err := maySetData(r, a.User, a.Session, by, "its data"); err != nil {
			return 0, err
		}
	}
	if err := a.Expect.checkData(r, r.state.data.since(), "the data of room "+r.ID); err != nil {
		return 0, err
	}
	r.setData(a.User, a.Data)
	return 0, nil
}

// maySetData fails unless the user is a member by that session, and members may set data. what names the data.
func maySetData(r *Room, user, session string, by Origin, what string) error {
	if _, err := activeMember(r, user, session, by); err != nil {
		return err
	}
	if r.state.settings.Data != "" {
		return Forbid("the settings of room %s let only admins set %s", r.ID, what)
	}
	return nil
}

// SetMemberData replaces the data of the member with that active session. A leave removes the data.
type SetMemberData struct {
	User, Session string
	Data          string // JSON, "" to remove it
	Expect        Expect // as in SetData
}

func (a SetMemberData) about() (Kind, string, bool) { return kindMember, a.User, false }

func (a SetMemberData) check(rules Rules) (_ Action, err error) {
	if a.User, err = checkSession(a.User, a.Session); err != nil {
		return nil, err
	}
	a.Data, err = parseData("data", a.Data, rules.Limits.memberData())
	return a, err
}

func (a SetMemberData) apply(r *Room, _ Rules, by Origin) (int, error) {
	m, err := activeMember(r, a.User, a.Session, by)
	if err != nil {
		return 0, err
	}
	if err := a.Expect.checkData(r, m.Data.since(), "the data of "+a.User); err != nil {
		return 0, err
	}
	if a.Data == m.Data.String() {
		return m.Seat, nil
	}
	r.update(Update{Type: kindMember, User: a.User, Seat: m.Seat, Detail: &Detail{Data: jsonOfMember(a.Data)}})
	return m.Seat, nil
}

// Ready records whether the member with that active session is ready. [Rules.Starter] can begin a game when all are.
type Ready struct {
	User, Session string
	Value         bool
}

func (a Ready) about() (Kind, string, bool) { return kindReady, a.User, false }

func (a Ready) check(Rules) (Action, error) {
	user, err := checkSession(a.User, a.Session)
	if err != nil || user == a.User {
		return nil, err
	}
	a.User = user
	return a, nil
}

func (a Ready) apply(r *Room, _ Rules, by Origin) (int, error) {
	m, err := activeMember(r, a.User, a.Session, by)
	if err == nil && a.Value != m.Ready {
		r.update(Update{Type: kindMember, User: a.User, Seat: m.Seat, Detail: &Detail{Ready: new(a.Value)}})
	}
	return m.Seat, err
}

// Deal gives members private data, to all of them or to none. Only the member and authority over the room are shown
// it. A leave removes it.
type Deal struct {
	// User and Session are as in SetData. Without Authority the user may only set their own data, if the settings let
	// members set data.
	User, Session string

	Hands     []Hand // of 1 to MaxGroup different members
	Authority bool   // User has authority over the room, and may deal to others

	Expect Expect // as in SetData, for the private data of all these members
}

// Hand is the private data that one member gets.
type Hand struct {
	User string
	Data string // JSON, "" to remove it
}

func (a Deal) about() (Kind, string, bool) { return kindPrivate, a.User, false }

func (a Deal) check(rules Rules) (_ Action, err error) {
	if a.User, err = checkActor(a.User, a.Session); err != nil {
		return nil, err
	}
	if n := len(a.Hands); n < 1 || n > MaxGroup {
		return nil, invalid("hands", "must be of 1 to %d users, not %d", MaxGroup, n)
	}
	hands := make([]Hand, 0, len(a.Hands))
	for _, hand := range a.Hands {
		if hand, err = hand.check(len(a.Hands) == 1, rules.Limits.privateData()); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(hands, func(h Hand) bool { return h.User == hand.User }) {
			return nil, invalid("hands", "names %s twice", hand.User)
		}
		hands = append(hands, hand)
	}
	a.Hands = hands
	return a, nil
}

// check returns the hand in its normal form. If it is the only one (only), errors name the field user or data.
func (h Hand) check(only bool, limit int) (normal Hand, err error) {
	if normal.User, err = ParseUser(h.User); err != nil {
		if of, ok := errors.AsType[*InvalidError](err); ok && !only {
			err = invalid("hands", "names %.32q, and a user %s", h.User, of.Problem)
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
		case r.state.settings.Data != "":
			return 0, Forbid("the settings of room %s let only admins set private data", r.ID)
		}
	}
	for _, hand := range a.Hands {
		m, ok := r.Member(hand.User)
		if !ok {
			return 0, absent(r, hand.User)
		}
		if err := a.Expect.checkData(r, m.Private.since(), "the private data of "+hand.User); err != nil {
			return 0, err
		}
		setPrivate(r, hand.User, m, hand.Data)
	}
	return seat, nil
}

// Say sends a message to the room. It counts as a version, so that everybody gets messages and changes in one order.
type Say struct {
	User, Session string // as in SetData

	Text string   // exactly one of Text and Data is given
	Data string   // JSON
	To   []string // recipients, who are members; nil for everybody, empty for authority over the room only

	Authority bool // User has authority over the room, and need not be a member
}

func (a Say) about() (Kind, string, bool) { return KindMessage, a.User, false }

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
	if a.Data, err = parseData("data", a.Data, limit); err != nil {
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

func (a Say) apply(r *Room, _ Rules, by Origin) (int, error) {
	if a.User != "" {
		if _, err := activeMember(r, a.User, a.Session, by); err != nil && !a.Authority {
			return 0, err
		}
	}
	for _, user := range a.To {
		if _, ok := r.Member(user); !ok {
			return 0, absent(r, user)
		}
	}
	r.update(Update{Type: KindMessage, User: a.User, Detail: &Detail{Text: a.Text, Data: jsonOf(a.Data), To: a.To}})
	return 0, nil
}

// Said is a message that a room has kept, as stored in Redis.
type Said struct {
	Epoch   string `json:"epoch"`
	Version uint64 `json:"version"` // at which it was said

	User string         `json:"user,omitzero"` // empty for somebody with authority over the room
	Text string         `json:"text,omitzero"` // either Text or Data is set
	Data jsontext.Value `json:"data,omitzero"`
	To   []string       `json:"to,omitzero"` // recipients; nil for everybody
}

// SaidIn returns the messages of a commit.
func (c *Commit) SaidIn() (all []Said) {
	for i := range c.Updates {
		if u := &c.Updates[i]; u.Type == KindMessage {
			d := u.detail()
			all = append(all, Said{c.Epoch, c.Version, u.User, d.Text, d.Data, d.To})
		}
	}
	return all
}

// Kept has a room's kept messages, oldest first, and the room's epoch when they were read. Whatever the settings say,
// at most 64 KiB are kept: the oldest are dropped first.
type Kept struct {
	Epoch string
	Said  []Said
}

// Missed returns the kept messages that the viewer (to) may see: the last ones, at most as many as most says. now is
// the room when the viewer entered: later messages come as events. If since is given, Missed returns only messages
// after that version. It leaves out epochs that may be later than now's.
func (k Kept) Missed(now Snapshot, since Expect, to Viewer, most int) []Said {
	all := k.Said
	if k.Epoch != now.Epoch { // the room has begun anew since the join
		all = all[:lastOf(all, now.Epoch)+1]
	}
	if since.given {
		all = since.behind(all, now.Epoch)
	}
	all = slices.DeleteFunc(slices.Clone(all), func(s Said) bool {
		return s.Epoch == now.Epoch && s.Version > now.Version || !s.change().IsFor(to)
	})
	return all[max(0, len(all)-most):]
}

// behind returns the messages that come after the expected version. If the expected epoch has no message left, it
// returns those from the first of the room's epoch (present) on.
func (e Expect) behind(all []Said, present string) []Said {
	of := func(epoch string) int { return slices.IndexFunc(all, func(s Said) bool { return s.Epoch == epoch }) }
	epoch := cmp.Or(e.epoch, present)
	first := of(epoch)
	if first < 0 {
		if first = of(present); first < 0 {
			return nil
		}
		return all[first:]
	}
	for first < len(all) && all[first].Epoch == epoch && all[first].Version <= e.version {
		first++
	}
	return all[first:]
}

// lastOf returns the index of the epoch's last message, -1 for none.
func lastOf(all []Said, epoch string) int {
	for i := range slices.Backward(all) {
		if all[i].Epoch == epoch {
			return i
		}
	}
	return -1
}

func (s *Said) change() *Change {
	return &Change{Type: KindMessage, User: s.User, Detail: &Detail{To: s.To}}
}
