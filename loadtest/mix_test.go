package loadtest

import (
	"slices"
	"testing"

	"roomd/loadtest/check"
	"roomd/transport/protocol"
)

// unplayed are the actions of the protocol that no run plays, and why.
var unplayed = map[string]string{
	protocol.ActionWatch:   "who watches is no member: transport's tests compare what watchers and members get",
	protocol.ActionUnwatch: "as watch",
	protocol.ActionAuth:    "players have no tokens",
	protocol.ActionPing:    "it says nothing of a room",
	protocol.ActionTxn:     "its parts are played one by one: the tests of rules and of referees put them together",
}

// Whoever adds an action to the protocol lets players or the administrator do it, or says above why not.
func TestMix_PlaysEveryAction(t *testing.T) {
	for _, a := range protocol.Actions {
		isPlayed := slices.ContainsFunc(plays, func(p played) bool { return p.action == a.Name })
		if why := unplayed[a.Name]; isPlayed == (why != "") {
			t.Errorf("action %s: is played %t, and is not because: %q", a.Name, isPlayed, why)
		}
	}
	names := make(map[string]bool)
	for _, p := range plays {
		if names[p.name] {
			t.Errorf("two actions are counted as %s", p.name)
		}
		names[p.name] = true
		if p.action != "" && protocol.ActionNamed(p.action) == nil {
			t.Errorf("the protocol has no %s", p.action)
		}
	}
}

func TestMix_ByWhom(t *testing.T) {
	if players := mixOf(MixNames, false); !slices.Equal(players, []string{MixReady, MixData, MixPrivate, MixTimer, MixSay, MixHost, MixMatch}) {
		t.Errorf("players do %q", players)
	}
	if admin := mixOf(MixNames, true); !slices.Equal(admin, []string{MixHost, MixMatch, MixConfigure, MixKick, MixClose, MixSeats, MixDeal, MixParty, MixMove}) {
		t.Errorf("the administrator does %q", admin)
	}
	if few := []string{MixSay, MixKick}; !slices.Equal(mixOf(few, false), []string{MixSay}) || !slices.Equal(mixOf(few, true), []string{MixKick}) {
		t.Errorf("of say and kick players do %q, the administrator %q", mixOf(few, false), mixOf(few, true))
	}
}

// Each player's request has the fields that go with its action, and counts as one of plays; and players do each of theirs.
func TestMix_RequestsAreWellFormed(t *testing.T) {
	g := NewGame(Play{Clients: 1, Rooms: 2, Mix: MixNames})
	p := g.players[0]
	p.rooms[g.rooms[0]] = &place{users: map[string]bool{p.name: true, "李四": true}, host: p.name}
	counted := make(map[string]bool)
	for range 2000 {
		op := p.choose()
		if op.Action == check.Match {
			op.Room = ""
		}
		req := p.request(op)
		if _, err := protocol.DecodeRequest(protocol.AppendRequest(nil, &req)); err != nil {
			t.Errorf("%+v: %v", req, err)
		}
		counted[countedAs(op)] = true
	}
	for _, play := range plays {
		if !counted[play.name] && !play.admin {
			t.Errorf("no player ever does %s", play.name)
		}
		delete(counted, play.name)
	}
	if len(counted) > 0 {
		t.Errorf("no row of the report counts %v", counted)
	}
}
