package room

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Say sends a message to the room. It counts as a version, so that everybody gets messages and changes in one order.
type Say struct {
	// User is a member with the active session Session. Both may be empty with Authority.
	User, Session string

	Text string   // exactly one of Text and Data is given
	Data string   // JSON
	To   []string // recipients, who are members; nil for everybody, empty for authority over the room only

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

// parseUsers returns 1 to MaxGroup different names in their normal form.
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

// Missed returns the last messages, at most most of them, that a user who joined has not received: up to now, the
// version of the join, and after the version that the join expected, if any. Later messages come as events. It leaves
// out messages of an epoch that may not have preceded now's.
func (k Kept) Missed(now Snapshot, since Expect, to Viewer, most int) []Said {
	all := k.Said
	current := slices.IndexFunc(all, func(s Said) bool { return s.Epoch == now.Epoch })
	if k.Epoch != now.Epoch { // the room has begun anew since the join
		if current < 0 {
			return nil
		}
		all = all[:lastOf(all, now.Epoch)+1]
	}
	if since.given {
		all = since.behind(all, now.Epoch)
	}
	all = slices.Collect(func(yield func(Said) bool) {
		for _, s := range all {
			after := s.Epoch == now.Epoch && s.Version > now.Version
			if !after && s.change().IsFor(to) && !yield(s) {
				return
			}
		}
	})
	return all[max(0, len(all)-most):]
}

// behind returns the messages after the expected version. If no message of that epoch is left, it returns those
// of the present epoch.
func (e Expect) behind(all []Said, present string) []Said {
	epoch := e.epoch
	if epoch == "" {
		epoch = present
	}
	first := slices.IndexFunc(all, func(s Said) bool { return s.Epoch == epoch })
	if first < 0 {
		if first = slices.IndexFunc(all, func(s Said) bool { return s.Epoch == present }); first < 0 {
			return nil
		}
		return all[first:]
	}
	for first < len(all) && all[first].Epoch == epoch && all[first].Version <= e.version {
		first++
	}
	return all[first:]
}

func lastOf(all []Said, epoch string) (last int) {
	for i := range all {
		if all[i].Epoch == epoch {
			last = i
		}
	}
	return last
}

func (s *Said) change() *Change {
	return &Change{Type: KindMessage, User: s.User, Detail: &Detail{To: s.To}}
}

// HistoryEnds reports whether the pending updates end the keeping of messages.
func (r *Room) HistoryEnds() bool {
	return len(r.before) > 0 && r.before[0].state != nil && r.before[0].state.settings.History > 0 && r.state.settings.History == 0
}
