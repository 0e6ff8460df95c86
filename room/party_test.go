package room

import (
	"errors"
	"strings"
	"testing"

	"roomd/lockmgr/redistest"
)

// An agreement holds for its labels, for the rooms of its patterns, and until the member leaves.
func TestAgree(t *testing.T) {
	const ranked, other = Labels(`{"mode":"ranked"}`), Labels(`{"mode":"other"}`)
	r := NewRoom("p1", Position{}, map[string]Member{})
	do := func(a Action) (int, error) {
		t.Helper()
		a, err := Check(a, Rules{})
		redistest.OK(t, err)
		return r.Apply(a, Rules{}, Origin{Node: "n"})
	}
	agree := func(user string, labels Labels, rooms []string, want int, with ...string) {
		t.Helper()
		missing, err := do(Agree{User: user, Session: "s" + user, Agreement: Agreement{labels, rooms}, With: with})
		redistest.OK(t, err)
		redistest.Equal(t, "missing", missing, want)
	}
	by := ""
	move := func(to string, want error, users ...string) {
		t.Helper()
		before := len(r.updates)
		_, err := do(Release{Users: users, Target: to, Labels: ranked, Mover: by})
		redistest.ErrorIf(t, !errors.Is(err, want) || want == nil && err != nil, "%v to %s: %v, want %v", users, to, err, want)
		redistest.ErrorIf(t, err != nil && len(r.updates) > before, "%v left", r.updates[before:])
	}
	for _, user := range []string{"a", "b", "c"} {
		_, err := do(Join{User: user, Session: "s" + user})
		redistest.OK(t, err)
	}
	agree("a", ranked, nil, 1, "a", "b")
	changes := len(r.updates)
	agree("b", ranked, []string{"m-*", "t"}, 0, "a", "b") // b can move both, and agrees to nothing else
	redistest.Equal(t, "updates of who can move all", len(r.updates)-changes, 0)
	move("t", ErrNotMember, "a", "b")
	agree("b", ranked, []string{"m-*", "t"}, 0)
	agree("a", ranked, nil, 2, "a", "c", "nobody")
	changes = len(r.updates)
	agree("a", ranked, nil, 0, "b", "a")
	redistest.Equal(t, "updates by the same again", len(r.updates)-changes, 0)
	move("t", ErrNotMember, "a", "b", "c")
	move("x", ErrForbidden, "a", "b")
	agree("b", other, nil, 1, "a")
	move("t", ErrNotMember, "a", "b")
	agree("b", ranked, nil, 0)
	agree("b", ranked, []string{}, 0)
	move("t", ErrForbidden, "b")
	agree("b", ranked, []string{"t"}, 0)
	_, err := do(Leave{User: "b", Session: "sb"})
	redistest.OK(t, err)
	_, err = do(Join{User: "b", Session: "sb"})
	redistest.OK(t, err)
	move("t", ErrNotMember, "a", "b")
	by = "b"
	move("t", nil, "a", "b")
	_, err = do(Agree{User: "c", Session: "other", Agreement: Agreement{ranked, nil}})
	redistest.ErrorIf(t, !errors.Is(err, ErrNotMember), "with another session: %v", err)
	for field, a := range map[string]Agree{
		"labels": {User: "c", Session: "s"}, "user": {Session: "s", Agreement: Agreement{ranked, nil}},
		"users": {User: "c", Session: "s", Agreement: Agreement{ranked, nil}, With: []string{"a", "a"}},
	} {
		_, err := Check(a, Rules{})
		redistest.ErrorIf(t, err == nil || !strings.HasPrefix(err.Error(), field), "%s: %v", field, err)
	}
	commit := r.Pending("e", "n")
	shown := commit.Event("p1").Changes
	for _, c := range shown {
		redistest.ErrorIf(t, c.Type == kindAgree, "players are shown %+v", c)
	}
}
