package referee_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/client"
	"roomd/transport/client/referee"
	"roomd/transport/protocol"
)

// ledger is a game that records its events.
type ledger struct {
	Log   []string       `json:"log"`
	Next  map[string]int `json:"next,omitempty"` // by user: the number of the next move
	Wrong []string       `json:"wrong"`          // moves out of order
}

func (g *ledger) write(format string, args ...any) {
	g.Log = append(g.Log, fmt.Sprintf(format, args...))
}

func (g *ledger) Joined(t *referee.Table, user string) {
	g.write("+%s of %s", user, strings.Join(t.Users(), " "))
	var hand string
	if redistest.OK(panics{}, t.Hand(user, &hand)); hand != "" {
		g.write("%s has %s", user, hand)
	}
	t.Deal(user, "hand of "+user)
}
func (g *ledger) Left(t *referee.Table, user string) {
	g.write("-%s of %s", user, strings.Join(t.Users(), " "))
}
func (g *ledger) Timer(t *referee.Table, name string) { g.write("!%s", name) }

func (g *ledger) Moved(t *referee.Table, user string, move protocol.JSON) error {
	var n int
	if move.Decode(&n) == nil { // a number counts moves
		if g.Next == nil {
			g.Next = map[string]int{}
		}
		if n != g.Next[user] {
			g.Wrong = append(g.Wrong, fmt.Sprintf("%s: %d, not %d", user, n, g.Next[user]))
		}
		g.Next[user] = n + 1
		return nil
	}
	var text string
	redistest.OK(panics{}, move.Decode(&text))
	g.write("%s: %s", user, text)
	switch verb, rest, _ := strings.Cut(text, " "); verb {
	case "timer":
		t.SetTimer(rest, 50*time.Millisecond)
		t.SetTimer("later", time.Hour)
	case "stop":
		t.StopTimer(rest)
	case "deal":
		t.Deal(user, rest)
	case "kick":
		t.Kick(rest, "so it is")
	case "with":
		if !slices.Contains(t.Users(), rest) {
			return errors.New(strings.Repeat(`"`, 5000))
		}
	case "cheat":
		g.Next = map[string]int{user: 1}
		t.Deal(user, "aces")
		t.SetTimer("never", time.Millisecond)
		return errors.New("no cheating")
	}
	return nil
}

// panics fails a game's test by a panic.
type panics struct{}

func (panics) Helper()                           {}
func (panics) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (panics) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (panics) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

type rig struct {
	*servers
	t   *testing.T
	ctx context.Context
}

func newRig(t *testing.T, nodes int) *rig {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	r := &rig{startServers(nodes), t, ctx}
	t.Cleanup(r.stop)
	t.Cleanup(cancel)
	return r
}

// serve runs a referee of its own for the room until stop is called. Kill ends it like the death of its
// process: the lock stays until it expires.
func (r *rig) serve(id string, cfg referee.Config) (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	if cfg.Client == nil {
		cfg.Client = r.connect("referee")
	}
	if cfg.New == nil {
		cfg.New = func() referee.Game { return new(ledger) }
	}
	var over sync.WaitGroup
	over.Go(func() {
		if err := cfg.Serve(ctx, id); ctx.Err() == nil {
			r.t.Errorf("the referee of %s has stopped: %v", id, err)
		}
	})
	stop = func() { cancel(); over.Wait() }
	r.t.Cleanup(stop)
	return stop
}

func (r *rig) join(user, id string) *client.Room {
	r.t.Helper()
	room, err := r.connect(user).Join(r.ctx, id)
	redistest.OK(r.t, err)
	return room
}

func (r *rig) propose(of *client.Room, move any) {
	r.t.Helper()
	redistest.OK(r.t, of.SayTo(r.ctx, nil, client.Message{Data: move}))
}

// until waits until the room's game satisfies is.
func (r *rig) until(of *client.Room, what string, is func(ledger) bool) (g ledger) {
	r.t.Helper()
	for range of.Changes(r.ctx) {
		g = ledger{}
		redistest.OK(r.t, of.Data().Decode(&g))
		if is(g) {
			return g
		}
	}
	r.t.Fatalf("%s: %v, and the game is %+v", what, errors.Join(of.Err(), r.ctx.Err()), g)
	return g
}

func (r *rig) hand(of *client.Room, want string) {
	r.t.Helper()
	r.until(of, "the hand is not "+want, func(ledger) bool { return string(of.Private()) == want })
}

func (r *rig) logged(of *client.Room, line string) ledger {
	r.t.Helper()
	return r.until(of, line+" is not in the log", func(g ledger) bool { return slices.Contains(g.Log, line) })
}

// A game gets joins, moves, timers and leaves, each once. Its reaction is one version, and a refused move
// changes nothing.
func TestReferee_Plays(t *testing.T) {
	r := newRig(t, 1)
	a := r.join("a", "42")
	r.propose(a, "early") // before there is a referee: the room keeps nothing yet
	r.serve("42", referee.Config{})
	r.logged(a, "+a of a")
	redistest.Equal(t, "the settings", fmt.Sprint(a.View().Settings.Data, a.View().Settings.History),
		fmt.Sprint(room.DataAdmins, referee.History))
	b := r.join("b", "42")
	r.logged(b, "+b of a b")
	r.hand(b, `"hand of b"`)
	for _, m := range []string{"timer turn", "cheat", "deal two", "stop later"} {
		r.propose(a, m)
	}
	r.logged(b, "a: stop later")
	g := r.logged(b, "!turn")
	if strings.Contains(strings.Join(g.Log, "\n"), "cheat") {
		t.Errorf("a refused move is in the game: %+v", g)
	}
	r.hand(a, `"two"`)
	redistest.Equal(t, "timers left", len(b.View().Timers), 0)
	if err := a.Set(r.ctx, "mine"); !errors.Is(err, protocol.ErrForbidden) {
		t.Errorf("a player sets the data: %v", err)
	}
	if err := a.SetPrivate(r.ctx, "aces"); !errors.Is(err, protocol.ErrForbidden) {
		t.Errorf("a player deals to itself: %v", err)
	}
	r.propose(a, "kick b")
	g = r.logged(a, "-b of a")
	<-b.Done()
	all := len(g.Log)
	g.Log = slices.DeleteFunc(g.Log, func(line string) bool { return line == "!turn" }) // whenever that is
	redistest.Equal(t, "how often the timer has fired", all-len(g.Log), 1)
	redistest.Equal(t, "all that happened", strings.Join(g.Log, ", "),
		"+a of a, +b of a b, a: timer turn, a: deal two, a: stop later, a: kick b, -b of a")
}

// A referee gives the room the game's settings when it comes there, and leaves what others set afterwards.
func TestReferee_Settings(t *testing.T) {
	r := newRig(t, 1)
	a := r.join("a", "42")
	all := room.Settings{Capacity: 2, Host: room.HostLongest, Labels: `{"game":"x"}`}
	has := func(settings room.Settings) {
		t.Helper()
		settings.Data, settings.History = room.DataAdmins, referee.History
		r.until(a, "other settings", func(ledger) bool { return a.View().Settings == settings })
	}
	stop := r.serve("42", referee.Config{Settings: &all})
	r.logged(a, "+a of a")
	has(all)
	others := all
	others.Capacity, others.Data, others.History = 3, room.DataAdmins, referee.History
	_, err := r.connect("referee").Configure(r.ctx, "42", others)
	redistest.OK(t, err)
	r.propose(a, "after that")
	r.logged(a, "a: after that")
	has(others)
	stop()
	r.serve("42", referee.Config{Settings: &all})
	has(all)
}

// A cheating player learns why the move is refused, and nobody else does.
func TestReferee_TellsWhoIsRefused(t *testing.T) {
	r := newRig(t, 1)
	r.serve("42", referee.Config{})
	a, b := r.join("a", "42"), r.join("b", "42")
	r.logged(b, "+b of a b")
	var others []string
	var listening sync.WaitGroup
	begun, told := make(chan struct{}, 2), make(chan struct{})
	listening.Go(func() {
		for c := range b.Changes(r.ctx) {
			switch {
			case c.Type == client.ChangeSnapshot:
				begun <- struct{}{}
			case c.Type == protocol.ChangeMessage && c.Data == `"bye"`:
				return
			case c.Type == protocol.ChangeMessage:
				others = append(others, string(c.Data))
			}
		}
	})
	listening.Go(func() {
		defer close(told)
		for c := range a.Changes(r.ctx) {
			switch {
			case c.Type == client.ChangeSnapshot:
				begun <- struct{}{}
			case c.Type == protocol.ChangeMessage && string(c.Data) == `{"refused":"no cheating"}`:
				return
			}
		}
		t.Error("a is not told")
	})
	<-begun
	<-begun
	r.propose(a, "cheat")
	<-told
	redistest.OK(t, a.Say(r.ctx, client.Message{Data: "bye"}))
	listening.Wait()
	redistest.Equal(t, "what b hears", strings.Join(others, " "), "")
}

// Two referees that stop now and then, and nodes that are replaced by others: each move counts once, and in
// order.
func TestReferee_EachMoveOnce(t *testing.T) {
	for _, elected := range []bool{true, false} {
		t.Run(fmt.Sprint("elected ", elected), func(t *testing.T) {
			r := newRig(t, 2)
			config := func() (cfg referee.Config) {
				if elected {
					cfg.Locks = r.locks()
				}
				return cfg
			}
			r.serve("42", config())
			players := []*client.Room{r.join("a", "42"), r.join("b", "42")}
			for _, p := range players {
				r.logged(p, "+b of a b")
			}
			done := make(chan struct{})
			var busy sync.WaitGroup
			busy.Go(func() { // referees come and go
				for ctx := r.ctx; ctx.Err() == nil; {
					select {
					case <-done:
						return
					default:
					}
					stop := r.serve("42", config())
					c, cancel := context.WithTimeout(ctx, time.Duration(20+rand.IntN(200))*time.Millisecond)
					<-c.Done()
					cancel()
					stop()
				}
			})
			const moves = 60
			for _, p := range players {
				busy.Go(func() {
					for i := range moves {
						if err := p.SayTo(r.ctx, nil, client.Message{Data: i}); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			g := r.until(players[0], "the moves", func(g ledger) bool {
				return g.Next["a"] == moves && g.Next["b"] == moves
			})
			close(done)
			busy.Wait()
			redistest.Equal(t, "moves out of order", strings.Join(g.Wrong, ", "), "")
			redistest.Equal(t, "the rest", strings.Join(g.Log, ", "), "+a of a, +b of a b")
		})
	}
}

// slowLedger is a ledger whose moves wait until they are let through.
type slowLedger struct {
	ledger
	moving chan<- struct{}
	let    <-chan struct{}
}

func (g *slowLedger) Moved(_ *referee.Table, _ string, move protocol.JSON) error {
	select {
	case g.moving <- struct{}{}:
	default:
	}
	<-g.let
	g.write("late: %s", move)
	return nil
}

// A referee whose request is late changes nothing that another one has written meanwhile.
func TestReferee_LateWriter(t *testing.T) {
	r := newRig(t, 1)
	moving, let := make(chan struct{}, 1), make(chan struct{})
	r.serve("42", referee.Config{New: func() referee.Game { return &slowLedger{moving: moving, let: let} }})
	release := sync.OnceFunc(func() { close(let) })
	t.Cleanup(release)
	a := r.join("a", "42")
	r.logged(a, "+a of a")
	r.propose(a, "one")
	redistest.Receive(t, moving, "the first referee to get the move")
	stop := r.serve("42", referee.Config{})
	r.logged(a, "a: one")
	r.propose(a, "two")
	r.logged(a, "a: two")
	stop()
	release()
	r.propose(a, "three")
	g := r.logged(a, `late: "three"`)
	redistest.Equal(t, "all that happened", strings.Join(g.Log, ", "), `+a of a, a: one, a: two, late: "three"`)
}

// When a referee dies, another one continues, with everything that happened meanwhile: joins, leaves, timers
// and moves.
func TestReferee_TakesOver(t *testing.T) {
	r := newRig(t, 1)
	first := r.serve("42", referee.Config{Locks: r.locks()})
	a, b := r.join("a", "42"), r.join("b", "42")
	r.logged(a, "+b of a b")
	r.propose(a, "timer turn")
	r.until(a, "the timer", func(ledger) bool { return len(a.View().Timers) > 0 })
	first()
	r.until(a, "it fires", func(ledger) bool { _, runs := a.View().Timers["turn"]; return !runs })
	r.propose(a, "cheat") // in one step with the next move: none of its effects may stay
	r.propose(a, "deal late")
	redistest.OK(t, b.Leave(r.ctx))
	c := r.join("c", "42")
	r.serve("42", referee.Config{Locks: r.locks()})
	g := r.logged(c, "a: deal late")
	redistest.Equal(t, "what a refused move has left", len(g.Next), 0)
	got := g.Log[slices.Index(g.Log, "a: timer turn")+1:]
	for len(got) < 4 {
		got = r.until(c, "the rest", func(g ledger) bool { return len(g.Log) >= len(got)+1 }).Log
	}
	slices.Sort(got)
	if all := strings.Join(got, ", "); !strings.Contains(all, "!turn, ") ||
		!strings.Contains(all, "+c of a c, -b of a") && !strings.Contains(all, "+c of c a, -b of a") {
		t.Errorf("after the second has taken over: %s", all)
	}
	r.hand(a, `"late"`)
}

// Data, hands and timers that players set before there was a referee do not count.
func TestReferee_ForgedData(t *testing.T) {
	r := newRig(t, 1)
	a := r.join("a", "42")
	redistest.OK(t, a.Set(r.ctx, map[string]any{"log": []string{"a has won"},
		"referee": map[string]any{"users": []string{"a"}}}))
	redistest.OK(t, a.SetPrivate(r.ctx, "aces"))
	for i := range 8 { // as many as there may be
		redistest.OK(t, a.SetTimer(r.ctx, fmt.Sprint(i), time.Hour, client.Then{}))
	}
	r.serve("42", referee.Config{})
	g := r.logged(a, "+a of a")
	redistest.Equal(t, "the log", strings.Join(g.Log, ", "), "+a of a")
	redistest.Equal(t, "timers", len(a.View().Timers), 0)
	r.propose(a, "timer turn")
	r.logged(a, "!turn")
}

// A refused move stays refused: later events do not make it valid, whoever is the referee then.
func TestReferee_RefusedOnce(t *testing.T) {
	r := newRig(t, 1)
	stop := r.serve("42", referee.Config{})
	a := r.join("a", "42")
	r.logged(a, "+a of a")
	told := make(chan struct{})
	go func() {
		defer close(told)
		for c := range a.Changes(r.ctx) {
			if c.Type == client.ChangeSnapshot {
				r.propose(a, "with b")
			}
			if c.Type == protocol.ChangeMessage && strings.HasPrefix(string(c.Data), `{"refused"`) {
				return
			}
		}
	}()
	<-told
	stop()
	b := r.join("b", "42")
	r.serve("42", referee.Config{})
	r.logged(b, "+b of a b")
	r.propose(a, "deal late")
	g := r.logged(b, "a: deal late")
	redistest.Equal(t, "all that happened", strings.Join(g.Log, ", "), "+a of a, +b of a b, a: deal late")
}

// A refusal is one version: the referee's own message is no move, so no other version records that it was
// handled.
func TestReferee_RefusesInOneVersion(t *testing.T) {
	r := newRig(t, 1)
	r.serve("42", referee.Config{})
	a := r.join("a", "42")
	r.logged(a, "+a of a")
	var told []uint64
	for c := range a.Changes(r.ctx) {
		if c.Type == protocol.ChangeMessage && strings.HasPrefix(string(c.Data), `{"refused"`) {
			told = append(told, c.Version)
		}
		if len(told) == 6 {
			break
		}
		if c.Type == client.ChangeSnapshot || c.Type == protocol.ChangeMessage && c.User == "referee" {
			go r.propose(a, "with b")
		}
	}
	for i := range len(told) - 1 {
		if told[i+1] != told[i]+2 { // of the proposal, and the refusal
			t.Fatalf("refused in the versions %v", told)
		}
	}
	redistest.Equal(t, "refusals", len(told), 6)
}

// A user who left and came back while there was no referee has lost the hand, and the game gets both events.
func TestReferee_LeftAndBack(t *testing.T) {
	r := newRig(t, 1)
	stop := r.serve("42", referee.Config{})
	a, b := r.join("a", "42"), r.join("b", "42")
	r.logged(a, "+b of a b")
	stop()
	redistest.OK(t, b.Leave(r.ctx))
	b = r.join("b", "42")
	r.serve("42", referee.Config{})
	g := r.logged(b, "-b of a")
	redistest.Equal(t, "all that happened", strings.Join(g.Log, ", "), "+a of a, +b of a b, -b of a, +b of a b")
	r.hand(b, `"hand of b"`)
}

// Events that have waited for a referee may not fit into one version, and may be of a user whom the same
// version removes.
func TestReferee_MuchHasWaited(t *testing.T) {
	r := newRig(t, 1)
	stop := r.serve("42", referee.Config{})
	a, b := r.join("a", "42"), r.join("b", "42")
	r.logged(a, "+b of a b")
	stop()
	for range 40 {
		r.propose(a, "cheat")
	}
	r.propose(a, "kick b")
	r.propose(b, "cheat")
	r.propose(a, "kick b")
	r.serve("42", referee.Config{})
	g := r.logged(a, "-b of a")
	redistest.Equal(t, "all that happened", strings.Join(g.Log, ", "),
		"+a of a, +b of a b, a: kick b, a: kick b, -b of a")
}

// broken is a game with an error.
type broken struct {
	ledger
	how func(*referee.Table)
}

func (g *broken) Joined(t *referee.Table, _ string) { g.how(t) }
func (g *broken) MarshalJSON() ([]byte, error)      { return []byte(`{}`), nil }

type list struct{ ledger }

func (list) MarshalJSON() ([]byte, error) { return []byte(`[1]`), nil }

func TestReferee_BrokenGame(t *testing.T) {
	r := newRig(t, 1)
	boss := r.connect("referee")
	r.join("a", "42")
	how := func(how func(*referee.Table)) func() referee.Game {
		return func() referee.Game { return &broken{how: how} }
	}
	for want, of := range map[string]func() referee.Game{
		"the hand of x: who is not there": how(func(t *referee.Table) { t.Deal("x", 1) }),
		"one call does 41 things": how(func(t *referee.Table) {
			for range 39 {
				t.Say(1)
			}
		}),
		"the hand of a: json: unsupported type":  how(func(t *referee.Table) { t.Deal("a", func() {}) }),
		"its JSON form is no object: [1]":        func() referee.Game { return new(list) },
		"actions[2].name must be 1 to 32 of A-Z": how(func(t *referee.Table) { t.SetTimer("a b", time.Second) }),
		"actions[1].data must be at most 1024 bytes": how(
			func(t *referee.Table) { t.Deal("a", strings.Repeat("x", 2000)) }),
		"actions[2]: action: leave is no part of a txn": how(
			func(t *referee.Table) { t.Do(protocol.Request{Action: protocol.ActionLeave}) }),
	} {
		cfg := referee.Config{Client: boss, New: of}
		if err := cfg.Serve(r.ctx, "42"); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "referee: room 42: ") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	cfg := referee.Config{Client: r.connect("b"), New: func() referee.Game { return new(ledger) }}
	if err := cfg.Serve(r.ctx, "42"); !errors.Is(err, protocol.ErrForbidden) {
		t.Errorf("a player is the referee: %v", err)
	}
	for _, cfg := range []referee.Config{{}, {Client: boss}, {Client: boss, New: cfg.New, Secret: []byte("short")}} {
		if err := cfg.Serve(r.ctx, "42"); err == nil || r.ctx.Err() != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// Run is the referee of the listed rooms, and stops when a room is no longer listed.
func TestRun_Rooms(t *testing.T) {
	r := newRig(t, 1)
	cfg := referee.Config{Client: r.connect("referee"), New: func() referee.Game { return new(ledger) }}
	lists := make(chan []string)
	over := make(chan error, 1)
	go func() {
		over <- cfg.Run(r.ctx, func(yield func([]string) bool) {
			for list := range lists {
				if !yield(list) {
					return
				}
			}
		})
	}()
	a, b := r.join("a", "42"), r.join("b", "43")
	lists <- []string{"42", "43"}
	r.logged(a, "+a of a")
	r.logged(b, "+b of b")
	lists <- []string{"43"}
	redistest.Until(t, "who is left alone is not watched", func() bool { return cfg.Client.Room("42") == nil })
	c := r.join("c", "43")
	r.logged(c, "+c of b c")
	close(lists)
	redistest.OK(t, redistest.Receive(t, over, "the end"))
	if n := len(ledgerOf(t, a).Log); n != 1 {
		t.Errorf("%d lines in the log of a room that was left alone", n)
	}
}

func ledgerOf(t *testing.T, of *client.Room) (g ledger) {
	redistest.OK(t, json.Unmarshal([]byte(of.Data()), &g))
	return g
}

// Random numbers are the same for all referees with one secret, and differ between nonces and secrets.
func TestTable_Rand(t *testing.T) {
	draw := func(secret, nonce string) (drawn string) {
		r := newRig(t, 1)
		done := make(chan string, 10)
		cfg := referee.Config{Client: r.connect("referee"), Secret: []byte(secret), New: func() referee.Game {
			return &broken{how: func(t *referee.Table) {
				done <- fmt.Sprint(t.Rand(nonce).Perm(52),
					len(t.Nonce()) > 20)
			}}
		}}
		r.join("a", "42")
		r.serve("42", cfg)
		return redistest.Receive(t, done, "the cards")
	}
	one := draw("a secret of 16 bytes", "n")
	redistest.Equal(t, "again", draw("a secret of 16 bytes", "n"), one)
	if draw("a secret of 16 bytes", "m") == one || draw("another secret of 16 bytes", "n") == one {
		t.Error("chance does not depend on the nonce and the secret")
	}
}
