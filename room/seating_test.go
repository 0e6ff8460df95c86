package room

import (
	"errors"
	"strings"
	"testing"
)

type seatingFunc func(in View, user string, asked int) (int, error)

func (f seatingFunc) Seat(in View, user string, asked int) (int, error) { return f(in, user, asked) }

// A rule that gives a seat which nobody can have, or panics, fails the join, and the room is as it was.
func TestAFaultySeating(t *testing.T) {
	for says, rule := range map[string]func() int{
		"no seat -1": func() int { return -1 }, "no seat 65536": func() int { return MaxSeats },
		"is taken by a": func() int { return 3 }, "no table": func() int { panic("no table") },
	} {
		r := NewRoom("42", Position{"e", 1, "m"}, map[string]Member{"a": {Seat: 3, Session: "s"}})
		rules := Rules{Seating: seatingFunc(func(View, string, int) (int, error) { return rule(), nil })}
		_, err := r.Apply(Join{User: "b", Session: "s"}, rules, Origin{})
		if !errors.Is(err, errSeating) || !strings.Contains(err.Error(), says) {
			t.Errorf("want %s: %v", says, err)
		}
		if got := describeUsers(r.Snapshot().Users()); got != "a@3" || r.Changed() {
			t.Errorf("%s: the room holds %s", says, got)
		}
	}
}

// A rule gives seats that its rooms have.
func TestASeatingWithSeats(t *testing.T) {
	for n, want := range map[int]error{-1: ErrInvalid, 0: ErrInvalid, 1: nil, MaxSeats: nil, MaxSeats + 1: ErrInvalid} {
		if err := (Rules{Seating: tables{n, 0}}).Check(); !errors.Is(err, want) {
			t.Errorf("%d seats: %v", n, err)
		}
	}
	r := NewRoom("42", Position{}, map[string]Member{})
	if _, err := r.Apply(Join{User: "b", Session: "s"}, Rules{Seating: tables{2, 2}}, Origin{}); !errors.Is(err, errSeating) {
		t.Errorf("seat 2 of 2: %v", err)
	}
}

// wrapped is a game's own rule around a Capacity.
type wrapped struct{ Capacity }

// The settings of a room bind a node whose own rule has fewer seats.
func TestSeating_FewerSeatsThanTheSettings(t *testing.T) {
	r := NewRoom("42", Position{"e", 1, "m"}, map[string]Member{})
	rules := Rules{Seating: wrapped{2}}
	r.Restore(State{Settings: &Settings{Capacity: 4}})
	for seat, user := range []string{"a", "b", "c"} {
		if got, err := r.Apply(Join{User: user, Session: "s"}, rules, Origin{}); err != nil || got != seat {
			t.Errorf("%s: seat %d, %v", user, got, err)
		}
	}
	if _, err := r.Apply(Reserve{Session: "party", Users: []string{"d"}}, rules, Origin{}); err != nil {
		t.Errorf("the last seat: %v", err)
	}
	if _, err := r.Apply(Join{User: "e", Session: "s"}, rules, Origin{}); !errors.Is(err, ErrFull) {
		t.Errorf("a fifth: %v", err)
	}
}

// tables are rooms of so many seats, with a rule that gives always the same one.
type tables struct{ seats, seat int }

func (t tables) Seats() int                          { return t.seats }
func (t tables) Seat(View, string, int) (int, error) { return t.seat, nil }

// A rule sees the room as it is, is asked only about users who come in, and its refusal
// reaches them.
func TestASeatingOfOnesOwn(t *testing.T) {
	asked := ""
	rules := Rules{Seating: seatingFunc(func(in View, user string, seat int) (int, error) {
		asked += user
		if s, there := in.SeatOf("a"); !there || s != 3 || in.UserAt(3) != "a" || in.UserAt(4) != "" || in.UserAt(-1) != "" || in.UserAt(1000) != "" ||
			in.Count() != 1 || in.ID() != "42" || in.LowestFree() != 0 || describeUsers(in.Users()) != "a@3" || seat != AnySeat {
			t.Errorf("%s sees %+v, asked for %d", user, in, seat)
		}
		return 0, Forbid("%s is not invited", user)
	})}
	r := NewRoom("42", Position{"e", 1, "m"}, map[string]Member{"a": {Seat: 3, Session: "s"}})
	if _, err := r.Apply(Join{User: "b", Session: "s"}, rules, Origin{}); !errors.Is(err, ErrForbidden) || err.Error() != "b is not invited" {
		t.Errorf("join: %v", err)
	}
	if seat, err := r.Apply(Join{User: "a", Session: "new"}, rules, Origin{}); seat != 3 || err != nil {
		t.Errorf("joining again: seat %d, %v", seat, err)
	}
	if asked != "b" {
		t.Errorf("asked about %q", asked)
	}
}

func TestJoinDoesNotAllocateForTheRule(t *testing.T) {
	for name, rules := range map[string]Rules{"none": {}, "capacity": {Seating: Capacity(1000)}} {
		r := NewRoom("42", Position{"e", 1, "m"}, map[string]Member{})
		defaults := rules.defaults()
		r.Restore(State{Settings: &defaults})
		if n := testing.AllocsPerRun(100, func() {
			_, _ = r.Apply(Join{User: "a", Session: "s"}, rules, Origin{})
			r.Revert()
		}); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
