package loadtest

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"roomd/loadtest/check"
	"roomd/loadtest/internal/tally"
)

const dialsAtOnce = 32

// Play says how a game is played, and where.
type Play struct {
	Nodes []Node // to which players connect
	API   []API  // operators' sides, by which the administrator acts; empty: there is none
	Store *Store // the Redis of the nodes; nil: nobody reads it
	Watch bool   // there are watchers: what they are told stands for journals that there are not
	Mixed bool   // some nodes may be of a version whose moves end private data

	Name     string // begins the names of the rooms, with something that no other run has
	Clients  int
	Rooms    int
	Capacity int // of each room, on average, and 0 for no limit: the administrator changes it
	Mix      []string
	Seed     uint64

	Pause       time.Duration // on average, between two calls of a player
	AdminPause  time.Duration // and of the administrator
	CallTimeout time.Duration // longer than a node needs for any answer
	Holds       time.Duration // on average, of locks by somebody who is no node
	Closes      int           // about every so many calls a player goes, and another one comes; 0: never

	// Doubts reports whether Redis may not have kept what it had since a time. Nil: it has.
	Doubts func(since time.Duration) bool

	// Token makes the token of a user. Nil: the nodes believe names.
	Token func(user string) (string, error)

	// History, if not nil, gets each call and return, event and fault as a line of JSON.
	History io.Writer
}

// Node is where players connect: a ws:// or wss:// URL, and the one at which the node itself is asked in the end.
type Node struct{ URL, Direct string }

// Game is one run: its rooms, its players, an administrator, and what they were told.
type Game struct {
	History *Recorder

	id       string // which no other game has
	cfg      Play
	rooms    []string
	talks    []string // of the mix: what members do
	players  []*player
	admin    *administrator
	outsider *outsider
	decoder  decoder
	errors   tally.Tally
	kept     map[string]*journal // by room
	watching sync.WaitGroup
	unwatch  context.CancelFunc

	mu       sync.Mutex
	watchers []*player                  // guarded by mu
	problems []check.Violation          // guarded by mu
	matched  []string                   // guarded by mu: rooms that matches have found
	wants    map[string]*check.Settings // guarded by mu: by room, with which they began
}

// NewGame returns a game that nobody plays yet.
func NewGame(cfg Play) *Game {
	cfg.Mix = ExpandMix(cfg.Mix)
	g := &Game{
		id: uuid.NewString()[:8], cfg: cfg, History: newRecorder(cfg.History),
		wants: make(map[string]*check.Settings), kept: make(map[string]*journal), unwatch: func() {},
	}
	for i := range cfg.Rooms {
		g.rooms = append(g.rooms, fmt.Sprintf("%s-%s-%d", cfg.Name, g.id, i+1))
	}
	for _, name := range mixOf(cfg.Mix, false) {
		if name != MixMatch {
			g.talks = append(g.talks, name)
		}
	}
	for i := range cfg.Clients {
		g.players = append(g.players, newPlayer(g, i))
	}
	g.admin = newAdministrator(g)
	g.outsider = &outsider{game: g, random: rand.New(rand.NewPCG(cfg.Seed, 2))}
	return g
}

// Prepare gives the rooms settings, if there is an administrator, so that they are kept while they are empty.
func (g *Game) Prepare() error { return g.admin.prepare() }

// connect makes all players' connections, or returns the first error.
func (g *Game) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	turn := make(chan struct{}, dialsAtOnce)
	var wg sync.WaitGroup
	for _, p := range g.players {
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			if err := p.dial(ctx); err != nil {
				p.conn = nil
				cancel(err)
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return fmt.Errorf("connect: %w", context.Cause(ctx))
	}
	return nil
}

// Play lets all play until ctx ends. All connections stay.
func (g *Game) Play(ctx context.Context) {
	var all sync.WaitGroup
	for _, p := range g.players {
		all.Go(func() { p.play(ctx) })
	}
	all.Go(func() { g.admin.act(ctx) })
	all.Go(func() { g.outsider.act(ctx) })
	all.Go(func() { g.keep(ctx) })
	all.Wait()
}

// Problem records something that must not have happened, by a rule of the checkers'.
func (g *Game) Problem(rule, format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.problems = append(g.problems, check.Violation{Checker: "run", Rule: rule, At: g.History.Now(),
		Text: fmt.Sprintf(format, args...)})
}

// Problems returns what was recorded.
func (g *Game) Problems() []check.Violation {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.problems)
}

// fail counts what failed for no fault of a player.
func (g *Game) fail(err error) {
	if err != nil {
		g.errors.Fail(err)
	}
}

// matchedIn records that a match has led into a room.
func (g *Game) matchedIn(room string, wanted *check.Settings) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wants[room] == nil {
		g.matched, g.wants[room] = append(g.matched, room), wanted
	}
}

// begun returns the settings with which a match has begun a room.
func (g *Game) begun(room string) *check.Settings {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wants[room]
}

// Holds returns how many holds of locks by somebody who is no node were judged.
func (g *Game) Holds() int { return g.outsider.holds }

// Rooms returns the rooms of the game, without those that matches began.
func (g *Game) Rooms() []string { return g.rooms }

// AllRooms returns the rooms of the game, and then those that matches began.
func (g *Game) AllRooms() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Concat(g.rooms, g.matched)
}

// does reports whether that is in the mix.
func (g *Game) does(what string) bool { return slices.Contains(g.cfg.Mix, what) }
