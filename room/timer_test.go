package room

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"roomd/lockmgr/redistest"
)

// timed returns a room with the members a and b.
func timed(t *testing.T) *game {
	g := newGame(t)
	g.must(Join{User: "a", Session: "sa"})
	g.must(Join{User: "b", Session: "sb"})
	return g
}

// game is a room, and another one that follows it by its events.
type game struct {
	t       *testing.T
	is, far *Room
	rules   Rules
}

func newGame(t *testing.T) *game {
	return &game{t: t, is: NewRoom("42", Position{}, map[string]Member{}), far: NewRoom("42", Position{Epoch: "e"}, map[string]Member{})}
}

// do applies an action in a commit of its own, and returns its changes.
func (g *game) do(a Action) (n int, changes string, err error) {
	g.t.Helper()
	if _, ofNodes := a.(Upkeep); !ofNodes {
		if a, err = Check(a, g.rules); err != nil {
			return 0, "", err
		}
	}
	n, err = g.is.Apply(a, g.rules, Origin{Node: "n"})
	if err != nil || !g.is.Changed() {
		return n, "", err
	}
	c := *g.is.Pending("e", "n")
	c.CommitID = fmt.Sprint("m", c.Version)
	e := c.Event("42")
	for _, change := range e.Changes {
		changes += string(change.Type) + " "
	}
	if !g.far.Advance(e) {
		g.t.Fatalf("version %d does not follow", c.Version)
	}
	g.is.Commit("e", c.CommitID)
	if differs := g.far.Differences(g.is); differs != "" {
		g.t.Fatalf("who follows the room at version %d differs: %s", c.Version, differs)
	}
	return n, strings.TrimSpace(changes), nil
}

func (g *game) must(a Action) string {
	g.t.Helper()
	_, changes, err := g.do(a)
	redistest.OK(g.t, err)
	return changes
}

func (g *game) fails(a Action, want error) {
	g.t.Helper()
	if _, _, err := g.do(a); !errors.Is(err, want) {
		g.t.Errorf("%+v: %v, want %v", a, err, want)
	}
}

func TestTimer_FiresOnce(t *testing.T) {
	g := timed(t)
	redistest.Equal(t, "setting one does", g.must(SetTimer{User: "a", Session: "sa", Name: "turn", due: 1000}), "countdown")
	redistest.Equal(t, "before it is due:", g.must(Upkeep{Due: 999}), "")
	g.must(SetTimer{Name: "turn", due: 2000})
	redistest.Equal(t, "after it was set anew:", g.must(Upkeep{Due: 1999}), "")
	redistest.Equal(t, "when it is due:", g.must(Upkeep{Due: 2000}), "timer")
	redistest.Equal(t, "once more:", g.must(Upkeep{Due: 3000}), "")
	g.must(SetTimer{Name: "turn", due: 4000})
	redistest.Equal(t, "to cancel one does", g.must(SetTimer{Name: "turn", Stop: true}), "countdown")
	redistest.Equal(t, "to cancel none does", g.must(SetTimer{Name: "turn", Stop: true}), "")
	redistest.Equal(t, "a cancelled one:", g.must(Upkeep{Due: 5000}), "")
}

func TestTimer_Effects(t *testing.T) {
	g := timed(t)
	set := func(name string, then Effect, due int64) {
		t.Helper()
		g.must(SetTimer{Name: name, Then: then, due: due})
	}
	g.must(SetData{Data: `"a's turn"`})
	set("turn", Effect{Data: jsontext.Value(`"b's turn"`)}, 10)
	redistest.Equal(t, "a turn passes:", g.must(Upkeep{Due: 10}), "timer data")
	redistest.Equal(t, "the data is", g.is.Snapshot().Data, `"b's turn"`)
	set("turn", Effect{Data: jsontext.Value(`"a's turn"`)}, 20)
	g.must(SetData{Data: `"over"`})
	redistest.Equal(t, "where somebody has set the data since:", g.must(Upkeep{Due: 20}), "timer")
	redistest.Equal(t, "the data is", g.is.Snapshot().Data, `"over"`)
	set("turn", Effect{Data: jsontext.Value(` null`)}, 30)
	redistest.Equal(t, "the data goes:", g.must(Upkeep{Due: 30}), "timer data")
	redistest.Equal(t, "the data is", g.is.Snapshot().Data, "")
	set("slow", Effect{Kick: "b"}, 40)
	redistest.Equal(t, "a kick:", g.must(Upkeep{Due: 40}), "timer leave")
	set("slow", Effect{Kick: "b"}, 50)
	redistest.Equal(t, "a kick of who is not there:", g.must(Upkeep{Due: 50}), "timer")
	set("end", Effect{Close: true}, 60)
	set("turn", Effect{}, 59)
	set("late", Effect{}, 61)
	redistest.Equal(t, "an end cancels the others:", g.must(Upkeep{Due: 60}), "timer timer leave countdown settings")
	if n := g.is.State().Timers.Len(); n != 0 || !g.is.state.settings.Closed {
		t.Errorf("%d timers are left, in %+v", n, g.is.state.settings)
	}
}

// Timers that are due together fire in the order in which they are due.
func TestTimer_InOrder(t *testing.T) {
	g := timed(t)
	for i, name := range []string{"c", "a", "b"} {
		g.must(SetTimer{Name: name, Then: Effect{Data: jsontext.Value(fmt.Sprint(i))}, due: int64(100 - i)})
	}
	n, changes, err := g.do(Upkeep{Due: 100})
	if n != 3 || changes != "timer data timer timer" || err != nil {
		t.Errorf("%d fire: %s, %v", n, changes, err)
	}
	redistest.Equal(t, "the first one's data is", g.is.Snapshot().Data, "2") // the others find data of later than they
}

func TestTimer_Who(t *testing.T) {
	g := timed(t)
	for _, then := range []Effect{{Close: true}, {Kick: "b"}} {
		g.fails(SetTimer{User: "a", Session: "sa", Name: "x", Then: then, due: 1}, ErrForbidden)
		g.must(SetTimer{User: "a", Session: "sa", Authority: true, Name: "x", Then: then, due: 1})
	}
	g.fails(SetTimer{User: "c", Session: "sc", Name: "x", due: 1}, ErrNotMember)
	g.fails(SetTimer{User: "a", Session: "other", Name: "x", due: 1}, ErrNotMember)
	g.must(Configure{Settings: Settings{Data: DataAdmins}})
	g.fails(SetTimer{User: "a", Session: "sa", Name: "x", due: 1}, ErrForbidden)
	g.fails(SetTimer{User: "a", Session: "sa", Name: "x", Stop: true}, ErrForbidden)
	g.must(SetTimer{User: "c", Session: "sc", Authority: true, Name: "x", due: 1})
	newGame(t).fails(SetTimer{Name: "x", due: 1}, ErrNoRoom)
}

func TestTimer_Expect(t *testing.T) {
	g := timed(t)
	at := func() Expect { return ExpectVersion(g.is.Epoch, g.is.Version) }
	before := at()
	g.must(Say{Text: "x"})
	g.must(SetTimer{Name: "turn", Expect: before, due: 10})
	g.fails(SetTimer{Name: "turn", Expect: before, due: 20}, ErrConflict)
	g.fails(SetTimer{Name: "other", Stop: true, Expect: before}, ErrConflict)
	seen := at()
	g.must(Upkeep{Due: 10})
	g.fails(SetTimer{Name: "turn", Expect: seen, due: 20}, ErrConflict) // it has fired
	seen = at()
	g.must(SetData{Data: "1"})
	g.fails(SetTimer{Name: "turn", Expect: seen, due: 20}, ErrConflict)
	g.must(SetTimer{Name: "turn", Expect: at(), due: 20})
}

func TestTimer_Invalid(t *testing.T) {
	g := timed(t)
	long := strings.Repeat("x", maxTimerName+1)
	for _, a := range []SetTimer{
		{Name: ""}, {Name: "a b"}, {Name: long}, {Name: ".."}, {Name: "x", In: -1}, {Name: "x", In: MaxTimer + 1},
		{Name: "x", Then: Effect{Close: true, Kick: "a"}}, {Name: "x", Then: Effect{Kick: "\n"}},
		{Name: "x", Then: Effect{Data: jsontext.Value("{")}}, {Name: "x", Then: Effect{Data: jsontext.Value(`"` + strings.Repeat("x", defaultRoomData) + `"`)}},
		{User: "a", Name: "x"},
	} {
		g.fails(a, ErrInvalid)
	}
	for i := range maxTimers {
		g.must(SetTimer{Name: fmt.Sprint(i), In: MaxTimer, due: int64(100 + i)})
	}
	g.fails(SetTimer{Name: "more", due: 5}, ErrInvalid)
	g.must(SetTimer{Name: "0", due: 5})
}
