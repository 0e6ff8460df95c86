package loadtest

import (
	"slices"
	"testing"

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
	all := Config{Mix: MixNames}
	if players := all.of(false); !slices.Equal(players, []string{MixReady, MixData, MixPrivate, MixTimer, MixSay, MixHost, MixMatch}) {
		t.Errorf("players do %q", players)
	}
	if admin := all.of(true); !slices.Equal(admin, []string{MixHost, MixMatch, MixConfigure, MixKick, MixClose, MixSeats, MixDeal, MixParty, MixMove}) {
		t.Errorf("the administrator does %q", admin)
	}
	if few := (Config{Mix: []string{MixSay, MixKick}}); !slices.Equal(few.of(false), []string{MixSay}) || !slices.Equal(few.of(true), []string{MixKick}) {
		t.Errorf("of say and kick players do %q, the administrator %q", few.of(false), few.of(true))
	}
}

// Each player's request has the fields that go with its action.
func TestMix_RequestsAreWellFormed(t *testing.T) {
	g := newGame(Config{Clients: 1, Rooms: 1, Mix: MixNames}, &fleet{urls: []string{"ws://nowhere/ws"}})
	p := g.players[0]
	for _, mix := range append(p.mix, MixMatch) {
		for range 50 {
			r := &request{action: MixMatch, begins: table(0)}
			if mix != MixMatch {
				r = p.talk(mix, g.rooms[0])
			}
			req := p.frame(r)
			if _, err := protocol.DecodeRequest(protocol.AppendRequest(nil, &req)); err != nil {
				t.Errorf("%s: %+v: %v", mix, req, err)
			}
		}
	}
}
