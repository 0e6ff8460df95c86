package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"roomd/lockmgr/redisconn/redisurl"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport"
	"roomd/transport/auth"
	"roomd/transport/client"
	"roomd/transport/client/referee"
	"roomd/transport/node"
	"roomd/transport/protocol"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "a key for tokens that only tests have"

var settings = room.Settings{Capacity: 4, Data: room.DataAdmins, History: referee.History, Host: room.HostLongest}

// table is a node, a referee, and who is connected to them.
type table struct {
	t       *testing.T
	ctx     context.Context
	connect func(user string, role auth.Role) *client.Client
}

func newTable(t *testing.T, clock time.Duration) *table {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	db, err := redisurl.Open(redisurl.Embedded)
	redistest.OK(t, err)
	t.Cleanup(db.Close)
	verifier, err := auth.New(auth.Secret(key), auth.Options{})
	redistest.OK(t, err)
	signer, err := auth.SecretSigner(key)
	redistest.OK(t, err)
	n, err := node.Start(ctx, node.Config{Listen: "127.0.0.1:0", Redis: db,
		Serve: transport.Options{Auth: verifier, Rate: 1000, Burst: 10_000}})
	redistest.OK(t, err)
	t.Cleanup(func() { _ = n.Shutdown(context.Background()) })
	r := &table{t, ctx, func(user string, role auth.Role) *client.Client {
		token, err := signer.Sign(auth.Identity{User: user, Role: role, Expires: time.Now().Add(time.Hour)})
		redistest.OK(t, err)
		c, err := client.Connect(ctx, client.Config{Addresses: []string{n.URL()}, Token: client.StaticToken(token)})
		redistest.OK(t, err)
		t.Cleanup(c.Close)
		return c
	}}
	over := make(chan error, 1)
	cfg := referee.Config{Client: r.connect("referee", auth.RoleAdmin),
		New: func() referee.Game { return &game{clock: clock} }, Secret: []byte(key)}
	go func() { over <- cfg.Serve(ctx, "42") }()
	t.Cleanup(func() { cancel(); <-over })
	return r
}

// sit has a player join, who plays some card of its hand whenever it is its turn, and a wrong one before, until it is
// refused.
func (r *table) sit(user string, slow bool) *client.Room {
	r.t.Helper()
	at, err := r.connect(user, auth.RolePlayer).Join(r.ctx, "42")
	redistest.OK(r.t, err)
	done := make(chan struct{})
	r.t.Cleanup(func() { <-done })
	go func() {
		defer close(done)
		// in which game, as it was: until that is another one, or the referee says no, the answer has not come
		asked := ""
		for change := range at.Changes(r.ctx) {
			if change.Type == protocol.ChangeMessage && change.User == "referee" {
				asked = ""
			}
			var g game
			var hand []int
			view := at.View()
			own, _ := view.User(user)
			if errors.Join(view.Data.Decode(&g), own.Private.Decode(&hand)) != nil || g.Turn != user || slow ||
				change.More {
				continue
			}
			now := fmt.Sprint(g, hand)
			if now == asked {
				continue
			}
			card := rand.IntN(52)
			asked = now
			if len(hand) > 0 && rand.IntN(4) > 0 {
				card = hand[rand.IntN(len(hand))]
			}
			if err := at.SayTo(r.ctx, nil, client.Message{Data: card}); err != nil && r.ctx.Err() == nil &&
				at.Err() == nil {
				r.t.Errorf("%s: %v", user, err)
			}
		}
	}()
	return at
}

func (r *table) propose(of *client.Room, move any) {
	r.t.Helper()
	redistest.OK(r.t, of.SayTo(r.ctx, nil, client.Message{Data: move}))
}

// judge knows the rules, and what has been seen of a game.
type judge struct {
	hands map[string][]int // what each has still
	seen  game
	plays int // of this deck
}

// see judges the next version of a game, in which hands were dealt as well.
func (j *judge) see(g game, hands map[string][]int) error {
	before := j.seen
	j.seen = g
	if g.Deck != before.Deck {
		if before.Turn != "" || g.Turn != g.Players[0] || len(g.Trick)+len(g.Last)+len(g.Tricks) > 0 {
			return fmt.Errorf("it begins with %+v, after %+v", g, before)
		}
		j.hands, j.plays = hands, 0
		all := slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(hands))...)))
		if len(slices.Compact(all)) != 5*len(g.Players) || len(hands) != len(g.Players) || all[0] < 0 ||
			all[len(all)-1] > 51 {
			return fmt.Errorf("%v were dealt to %v", hands, g.Players)
		}
		return nil
	}
	j.plays++
	who, hand := before.Turn, j.hands[before.Turn]
	trick := g.Trick
	if len(trick) == 0 {
		trick = g.Last
	}
	card := trick[len(trick)-1]
	led := trick[0] / 13
	switch i := slices.Index(hand, card); {
	case i < 0:
		return fmt.Errorf("%s has played %d and had %v", who, card, hand)
	case card/13 != led && slices.ContainsFunc(hand, func(c int) bool { return c/13 == led }):
		return fmt.Errorf("%s has played %d to %v and had %v", who, card, trick, hand)
	default:
		j.hands[who] = slices.Delete(slices.Clone(hand), i, i+1)
	}
	if !slices.Equal(slices.Sorted(slices.Values(hands[who])), slices.Sorted(slices.Values(j.hands[who]))) ||
		len(hands) != 1 {
		return fmt.Errorf("after %d the hand is %v, not %v", card, hands, j.hands[who])
	}
	if len(g.Trick) > 0 {
		if g.Turn != g.Players[len(g.Trick)] {
			return fmt.Errorf("it is the turn of %s: %+v", g.Turn, g)
		}
		return nil
	}
	best := slices.MaxFunc(trick, func(a, b int) int { return worth(a, led) - worth(b, led) })
	taker := before.Players[slices.Index(trick, best)]
	if g.Tricks[taker] != before.Tricks[taker]+1 || g.Players[0] != taker ||
		(g.Turn != taker) != (len(j.hands[taker]) == 0) {
		return fmt.Errorf("%s should have taken %v: %+v after %+v", taker, trick, g, before)
	}
	return nil
}

func worth(card, led int) int {
	if card/13 == led {
		return 100 + card
	}
	return card
}

// watch sees what happens, until the game is as it should be. The judge, if not nil, has to find it right. It sees all
// that begin has happen.
func (r *table) watch(of *client.Room, j *judge, what string, is func(game) bool, begin ...func()) (g game) {
	r.t.Helper()
	hands := map[string][]int{}
	for change := range of.Changes(r.ctx) {
		switch change.Type {
		case client.ChangeSnapshot:
			redistest.OK(r.t, change.View.Data.Decode(&g))
			for _, f := range begin {
				f()
			}
			begin = nil
		case protocol.ChangeData:
			g = game{}
			clear(hands)
			redistest.OK(r.t, change.Data.Decode(&g))
		case protocol.ChangePrivate:
			var hand []int
			redistest.OK(r.t, change.Data.Decode(&hand))
			hands[change.User] = hand
			continue
		case protocol.ChangeCountdown: // which comes last
			if j != nil {
				redistest.OK(r.t, j.see(g, maps.Clone(hands)))
			}
		default:
			continue
		}
		if is(g) && (j == nil || change.Type == protocol.ChangeCountdown) {
			return g
		}
	}
	r.t.Fatalf("%s: %v, and the game is %+v", what, errors.Join(of.Err(), r.ctx.Err()), g)
	return g
}

func over(g game) bool { return g.Deck != "" && g.Turn == "" }

func taken(g game) (n int) {
	for _, tricks := range g.Tricks {
		n += tricks
	}
	return n
}

// Games that a judge finds right, whatever players try; the host has another one begin, and nobody else.
func TestGame_Rules(t *testing.T) {
	r := newTable(t, time.Hour)
	boss := r.connect("boss", auth.RoleAdmin)
	_, err := boss.Configure(r.ctx, "42", settings)
	redistest.OK(t, err)
	host := r.sit("a", false)
	for _, user := range []string{"b", "c", "d"} {
		r.sit(user, false)
	}
	seen, err := boss.Watch(r.ctx, "42")
	redistest.OK(t, err)
	var j judge
	decks := map[string]bool{}
	for range 5 {
		before := len(decks)
		deal := func() { r.propose(host, "deal") }
		g := r.watch(seen, &j, "the end of the game", func(g game) bool { return over(g) && !decks[g.Deck] }, deal)
		decks[g.Deck] = true
		if taken(g) != 5 || j.plays != 20 || len(decks) != before+1 {
			t.Errorf("%d cards were played, of %d decks: %+v", j.plays, len(decks), g)
		}
	}
}

// Only the host deals, and not to itself alone, nor while a game is on.
func TestGame_HostDeals(t *testing.T) {
	r := newTable(t, time.Hour)
	boss := r.connect("boss", auth.RoleAdmin)
	_, err := boss.Configure(r.ctx, "42", settings)
	redistest.OK(t, err)
	a := r.sit("a", true)
	refused := func(of *client.Room) {
		t.Helper()
		begun, told := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(told)
			for change := range of.Changes(r.ctx) {
				if change.Type == client.ChangeSnapshot {
					close(begun)
				}
				if change.Type == protocol.ChangeMessage && change.User == "referee" {
					return
				}
			}
		}()
		redistest.Receive(t, begun, "the room")
		r.propose(of, "deal")
		redistest.Receive(t, told, "the refusal")
	}
	refused(a)
	b := r.sit("b", true)
	refused(b)
	r.propose(a, "deal")
	g := r.watch(b, nil, "a game", func(g game) bool { return g.Turn == "a" })
	refused(a)
	if now := r.watch(b, nil, "a game", func(game) bool { return true }); now.Deck != g.Deck {
		t.Errorf("%+v, after %+v", now, g)
	}
	redistest.OK(t, a.Leave(r.ctx))
	r.watch(b, nil, "the end of the game", over)
	r.sit("c", true)
	r.propose(b, "deal") // the host now
	r.watch(b, nil, "another game", func(now game) bool {
		return now.Turn == "c" && now.Deck != g.Deck && slices.Contains(now.Players, "b")
	})
}

// The clock plays for who is slow, to the end.
func TestGame_Clock(t *testing.T) {
	r := newTable(t, 20*time.Millisecond)
	boss := r.connect("boss", auth.RoleAdmin)
	_, err := boss.Configure(r.ctx, "42", settings)
	redistest.OK(t, err)
	a := r.sit("a", true)
	b := r.sit("b", false)
	r.propose(a, "deal")
	if g := r.watch(b, nil, "the end of the game", over); taken(g) != 5 {
		t.Errorf("%+v", g)
	}
}

// More members than there are hands: four play.
func TestGame_Crowd(t *testing.T) {
	r := newTable(t, time.Hour)
	boss := r.connect("boss", auth.RoleAdmin)
	_, err := boss.Configure(r.ctx, "42", room.Settings{Capacity: 12, Host: room.HostLongest})
	redistest.OK(t, err)
	var all []*client.Room
	for i := range 12 {
		all = append(all, r.sit(fmt.Sprint("p", i), true))
	}
	r.propose(all[0], "deal")
	g := r.watch(all[11], nil, "a game", func(g game) bool { return g.Turn != "" })
	redistest.Equal(t, "players", len(g.Players), 4)
}

// The README says how long the game is.
func TestGame_Short(t *testing.T) {
	imports := regexp.MustCompile(`(?s)import \(.*?\n\)`)
	lines := 0
	for _, name := range []string{"main.go", "game.go", "index.html"} {
		text, err := os.ReadFile(name)
		redistest.OK(t, err)
		for line := range strings.Lines(imports.ReplaceAllString(string(text), "")) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
	}
	if lines > 150 {
		t.Errorf("%d lines", lines)
	}
}
