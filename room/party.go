package room

import (
	"path"
	"slices"
)

// Agree records that a member agrees to be moved to a table with these labels: see [Release].Labels. Another Agree of
// the user replaces it, and a leave ends it. The others are not told.
//
// [Room.Apply] returns, in place of a seat, how many other users in With have not agreed to the same labels. If there
// are such users, and all have agreed, nothing is recorded: the user can move them all, see [Release].Mover.
type Agree struct {
	User, Session string
	Agreement
	With []string // at most MaxGroup different ones, with the user or without; nil for none
}

// Agreement says to which tables a member may be moved.
type Agreement struct {
	Labels Labels   `json:"labels"`         // by which the table is found
	Rooms  []string `json:"rooms,omitzero"` // patterns as in path.Match for its id; nil allows all
}

func (a Agree) about() (Kind, string, bool) { return kindAgree, a.User, false }

func (a Agree) check(Rules) (_ Action, err error) {
	if a.User, err = checkSession(a.User, a.Session); err != nil {
		return nil, err
	}
	if a.Labels == "" {
		return nil, invalid("labels", "must not be empty: without labels no room is found")
	}
	if len(a.With) > 0 {
		if a.With, err = parseUsers("users", a.With); err != nil {
			return nil, err
		}
	}
	return a, a.Labels.Check()
}

func (a Agree) apply(r *Room, _ Rules, by Origin) (missing int, err error) {
	m, err := activeMember(r, a.User, a.Session, by)
	if err != nil {
		return 0, err
	}
	for _, user := range a.With {
		if other, _ := r.Member(user); user != a.User && (other.Agreed == nil || other.Agreed.Labels != a.Labels) {
			missing++
		}
	}
	if (missing > 0 || a.With == nil) && !m.Agreed.equals(&a.Agreement) {
		r.update(Update{Type: kindAgree, User: a.User, Seat: m.Seat, Detail: &Detail{Agreed: &a.Agreement}})
	}
	return missing, nil
}

func (a *Agreement) equals(other *Agreement) bool {
	if a == nil || other == nil {
		return a == other
	}
	return a.Labels == other.Labels && (a.Rooms == nil) == (other.Rooms == nil) && slices.Equal(a.Rooms, other.Rooms)
}

// agrees returns an error unless the user, whose membership m is, agrees to be moved to that room, found by labels.
func (m Member) agrees(user string, labels Labels, to string) error {
	if m.Agreed == nil || m.Agreed.Labels != labels {
		return Refuse(ErrNotMember, "%s has not agreed to this match", user)
	}
	allows := func(pattern string) bool { is, err := path.Match(pattern, to); return is && err == nil }
	if m.Agreed.Rooms != nil && !slices.ContainsFunc(m.Agreed.Rooms, allows) {
		return Forbid("the token of %s does not allow room %s", user, to)
	}
	return nil
}
