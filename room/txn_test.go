package room

import (
	"errors"
	"testing"

	"roomd/lockmgr/redistest"
)

// A txn is one version, in which all is done in order, or nothing is.
func TestTxn_AllOrNothing(t *testing.T) {
	g := timed(t)
	redistest.Equal(t, "a move", g.must(Txn{Actions: []Action{
		SetData{Data: `{"turn":"b"}`}, Deal{Hands: []Hand{{"a", "1"}, {"b", "2"}}}, SetTimer{Name: "turn", due: 1000}, Say{Text: "b is next"},
	}}), "data private private countdown message")
	version := g.is.Version
	for what, last := range map[string]Action{
		"a stranger's hand": Deal{Hands: []Hand{{"c", "1"}}}, "a stranger": Kick{User: "c"}, "a message to a stranger": Say{Text: "x", To: []string{"c"}},
	} {
		_, _, err := g.do(Txn{Actions: []Action{SetData{Data: "0"}, Kick{User: "a"}, SetTimer{Name: "x", due: 5}, last}})
		if !errors.Is(err, ErrNotMember) || g.is.Version != version || g.is.Changed() {
			t.Errorf("%s: %v, and the room has changed: %v", what, err, g.is.Changed())
		}
	}
	redistest.Equal(t, "the data", g.is.Snapshot().Data, `{"turn":"b"}`)
	redistest.Equal(t, "its parts see what those before them did", g.must(Txn{Actions: []Action{
		SetTimer{Name: "turn", due: 3000}, SetTimer{Name: "turn", Stop: true}, SetData{Data: "1"}, SetData{Data: "1"}, Kick{User: "b"}, Close{},
	}}), "countdown countdown data leave leave settings")
}

func TestTxn_Expect(t *testing.T) {
	g := timed(t)
	try := func(version uint64, want error) {
		t.Helper()
		g.fails(Txn{Actions: []Action{Say{Text: "x"}}, Expect: ExpectVersion("e", version)}, want)
	}
	g.must(SetData{Data: "1"}) // 3
	try(2, ErrConflict)
	try(3, nil)
	g.must(Deal{Hands: []Hand{{"a", "1"}}}) // 5
	g.must(SetMemberData{User: "a", Session: "sa", Data: "1"})
	try(3, nil) // neither data nor timers
	g.must(SetTimer{Name: "turn", due: 1000})
	last := g.is.Version
	try(last-1, ErrConflict)
	try(last, nil)
	g.must(Upkeep{Due: 1000})
	try(last, ErrConflict)
	g.fails(Txn{Actions: []Action{Say{Text: "x"}}, Expect: ExpectVersion("d", g.is.Version)}, ErrConflict)
	newGame(t).fails(Txn{Actions: []Action{SetData{Data: "1"}}}, ErrNoRoom)
}

func TestTxn_BadInput(t *testing.T) {
	many := make([]Action, MaxTxn+1)
	for i := range many {
		many[i] = Close{}
	}
	for want, actions := range map[string][]Action{
		"actions must be 1 to 32, not 0":                           nil,
		"actions must be 1 to 32, not 33":                          many,
		`actions[1] is a "join", which is no part of a txn`:        {Close{}, Join{User: "a", Session: "s"}},
		`actions[0] is a "txn", which is no part of a txn`:         {Txn{Actions: many[:1]}},
		`actions[0] is a "", which is no part of a txn`:            {nil},
		"actions[1].name must be 1 to 32 of A-Z a-z 0-9 . _ -":     {Close{}, SetTimer{}},
		"actions[0].hands must be of 1 to 64 users, not 0":         {Deal{}},
		"actions[0].then must be one of close, kick and data":      {SetTimer{Name: "x", Then: Effect{Close: true, Kick: "a"}}},
		"actions[2].text is what is said, or data is: one of both": {Close{}, Close{}, Say{}},
	} {
		var invalid *InvalidError
		if _, err := Check(Txn{Actions: actions}, Rules{}); !errors.As(err, &invalid) || invalid.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// A message to nobody is for who has authority over the room, and for who said it. Where only admins set the data, members do
// not set their private data either.
func TestTxn_Referee(t *testing.T) {
	g := timed(t)
	g.must(Say{User: "a", Session: "sa", Text: "I play", To: []string{}})
	c := Change{Type: KindMessage, User: "a", Detail: &Detail{To: []string{}}}
	for viewer, hears := range map[Viewer]bool{{}: false, {User: "b"}: false, {User: "a"}: false, {User: "a", Authority: true}: true, {User: "x", Authority: true}: true} {
		if c.IsFor(viewer) != hears {
			t.Errorf("%+v hears what a says to nobody: %v", viewer, !hears)
		}
	}
	c.Detail = &Detail{To: []string{"b"}}
	if c.IsFor(Viewer{User: "x", Authority: true}) {
		t.Error("an admin hears what a says to b")
	}
	own := Deal{User: "a", Session: "sa", Hands: []Hand{{"a", "1"}}}
	g.must(own)
	g.must(Configure{Settings: Settings{Data: DataAdmins}})
	own.Hands = []Hand{{"a", "2"}}
	g.fails(own, ErrForbidden)
	own.Authority = true
	g.fails(own, nil)
	g.fails(Say{User: "x", Session: "sx", Text: "hi"}, ErrNotMember)
	g.fails(Say{User: "x", Session: "sx", Text: "hi", Authority: true}, nil)
}
