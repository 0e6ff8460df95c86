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
	"golang.org/x/sync/errgroup"

	"roomd/loadtest/check"
	"roomd/loadtest/internal/tally"
)

const dialsAtOnce = 32

// Play configures a game.
type Play struct {
	Nodes []Node   // for players
	API   []string // URLs of nodes' APIs for operators, for the administrator; empty without one
	Store *Store   // the nodes' Redis; nil if the run does not read it
	Watch bool     // there are watchers, whose events replace missing journals
	Mixed bool     // some nodes may have a version whose moves drop private data

	Name     string // start of the rooms' names, unique to this run
	Clients  int
	Rooms    int
	Capacity int // average capacity of rooms, which the administrator changes; 0 for no limit
	Mix      []string
	Seed     uint64

	Pause       time.Duration // average time between two calls of a player
	AdminPause  time.Duration // average time between two calls of the administrator
	CallTimeout time.Duration // longer than any answer of a node takes
	Holds       time.Duration // average time between two holds of the outsider
	Closes      int           // one in so many calls, a player leaves and another one comes; 0: never

	// Doubts reports whether Redis may have lost data that it had at since. Nil: it has not.
	Doubts func(since time.Duration) bool

	// Token returns a user's token. Nil: the nodes trust names.
	Token func(user string) (string, error)

	// History, if not nil, gets each call and return, event and fault as a line of JSON.
	History io.Writer
}

// Node is where players connect: a ws:// or wss:// URL, and the URL of the node itself for the final checks.
type Node struct{ URL, Direct string }

// Game is one run: its rooms, its players, an administrator, and their history.
type Game struct {
	History *Recorder

	id       string // unique
	cfg      Play
	rooms    []string
	talks    []string // actions of members in the mix
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
	matched  []string                   // guarded by mu: rooms found by matches
	wants    map[string]*check.Settings // guarded by mu: initial settings of those rooms
}

// NewGame returns a game that has not started.
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

// connect makes all players' connections, or returns the first error.
func (g *Game) connect(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(dialsAtOnce)
	for _, p := range g.players {
		group.Go(func() error { return p.dial(ctx) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return nil
}

// Play makes everybody play until ctx ends. All connections stay.
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

// Problem records a violation of one of the checkers' rules.
func (g *Game) Problem(rule, format string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.problems = append(g.problems, check.Violation{Checker: "run", Rule: rule, At: g.History.Now(),
		Text: fmt.Sprintf(format, args...)})
}

// Problems returns the recorded violations.
func (g *Game) Problems() []check.Violation {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.problems)
}

// fail counts an error that no player caused.
func (g *Game) fail(err error) {
	if err != nil {
		g.errors.Fail(err)
	}
}

// matchedIn records the room that a match has found or created.
func (g *Game) matchedIn(room string, wanted *check.Settings) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wants[room] == nil {
		g.matched, g.wants[room] = append(g.matched, room), wanted
	}
}

// begun returns the settings that a match gave a new room, nil for other rooms.
func (g *Game) begun(room string) *check.Settings {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.wants[room]
}

// Holds returns the number of the outsider's holds that were judged.
func (g *Game) Holds() int { return g.outsider.holds }

// Rooms returns the rooms of the game, without those that matches created.
func (g *Game) Rooms() []string { return g.rooms }

// AllRooms returns the rooms of the game, followed by those that matches created.
func (g *Game) AllRooms() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Concat(g.rooms, g.matched)
}

func (g *Game) does(what string) bool { return slices.Contains(g.cfg.Mix, what) }
