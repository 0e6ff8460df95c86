// Package loadtest sends players at roomd nodes and proves that the rooms' lists are
// right.
//
// Start with [Run]. It lets players join and leave rooms at random over real WebSockets,
// at its own nodes or at those given to it. Package history checks every reply and event
// meanwhile. At the end Run compares that history with Redis, with every node's answer,
// and with what every player knows.
//
// The checkers are in loadtest/history, and import nothing of the server.
package loadtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"roomd/loadtest/history"
	"roomd/loadtest/internal/process"
	"roomd/loadtest/internal/tally"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/transport/protocol"
)

const (
	progressInterval = 250 * time.Millisecond
	dialsAtOnce      = 32
)

// ErrNothingDone says that no action succeeded, so that the run proves nothing.
var ErrNothingDone = errors.New("no action succeeded, so the run proves nothing")

// Run lets players play for cfg.Duration, or until ctx ends, and returns the outcome. The
// report's verdict says whether the lists were right. An error says that the run was not
// possible; see Config.Validate and ErrNothingDone.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	db, err := redisurl.Open(cfg.Redis)
	if err != nil && cfg.readsStore() {
		return nil, err
	}
	if db != nil {
		defer db.Close()
	}
	fleet, err := startFleet(ctx, cfg, db)
	if err != nil {
		return nil, err
	}
	defer fleet.stop()

	g := newGame(cfg, fleet)
	defer g.disconnect()
	if err := g.connect(ctx); err != nil {
		return nil, err
	}
	admin, err := newAdmin(ctx, g, db)
	if err != nil {
		return nil, err
	}
	defer admin.close()
	elapsed := g.play(ctx, admin)
	if g.actions() == 0 {
		return nil, errors.Join(ErrNothingDone, tally.Sum(g.tallies...).FirstError())
	}
	// A run that was stopped is checked, too.
	if err := g.verify(context.WithoutCancel(ctx), db); err != nil {
		return nil, err
	}
	return g.report(elapsed), nil
}

// game is one run: its rooms, its players and their history.
type game struct {
	cfg     Config
	fleet   *fleet
	rooms   []string
	ledger  *history.Ledger
	players []*player
	tallies []*tally.Tally // of the players and of the administrator
	samples []sample
	decoder decoder
	used    float64 // processor seconds of this process, while the players played

	mu      sync.Mutex
	matched []string // guarded by mu; rooms that matches have found
	lost    []string // guarded by mu; users of matches whose outcome is unknown
}

func newGame(cfg Config, f *fleet) *game {
	g := &game{cfg: cfg, fleet: f, ledger: history.NewLedger(history.Options{Capacity: cfg.Capacity, Now: milliseconds})}
	run := uuid.NewString()[:8] // makes the rooms new
	for i := range cfg.Rooms {
		g.rooms = append(g.rooms, fmt.Sprintf("load-%s-%d", run, i+1))
	}
	for i := range cfg.Clients {
		n := i % len(f.urls)
		g.players = append(g.players, newPlayer(i, f.urls[n], fmt.Sprintf("node-%d", n+1), g))
	}
	return g
}

// matchedIn notes that a match has led into a room.
func (g *game) matchedIn(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Contains(g.matched, id) {
		g.matched = append(g.matched, id)
		g.ledger.MayBeForgotten(id)
	}
}

// lostMatch notes that the user may be in any room, or have left it.
func (g *game) lostMatch(user string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lost = append(g.lost, user)
}

// allRooms returns the rooms of the run, and those that matches have found.
func (g *game) allRooms() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Concat(g.rooms, g.matched)
}

func milliseconds() int64 { return time.Now().UnixMilli() }

// connect makes all players' connections, or returns the first error.
func (g *game) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	turn := make(chan struct{}, dialsAtOnce)
	var wg sync.WaitGroup
	for _, p := range g.players {
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			if err := p.connect(ctx); err != nil {
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

// play lets the players play and returns how long that took.
func (g *game) play(ctx context.Context, admin *admin) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.Duration)
	defer cancel()
	start, used := time.Now(), process.CPU()
	var wg sync.WaitGroup
	for _, p := range g.players {
		wg.Go(func() { p.play(ctx) })
	}
	if admin != nil {
		wg.Go(func() { admin.run(ctx) })
	}
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
		now := Progress{time.Since(start), g.actions(), g.ledger.Violations().Total()}
		g.samples = append(g.samples, sample{now.Elapsed.Seconds(), now.Actions})
		if g.cfg.Progress != nil {
			g.cfg.Progress(now)
		}
	}
	elapsed := time.Since(start)
	g.used = (process.CPU() - used) / 1e6
	wg.Wait()
	return elapsed
}

// disconnect ends all connections. The servers then remove the players, own ones at once.
func (g *game) disconnect() {
	var wg sync.WaitGroup
	for _, p := range g.players {
		if p.conn != nil {
			wg.Go(p.conn.Close)
		}
	}
	wg.Wait()
}

// newTally returns a tally that counts for the game.
func (g *game) newTally() *tally.Tally {
	t := new(tally.Tally)
	g.tallies = append(g.tallies, t)
	return t
}

// actions returns how many actions were acknowledged, without reads.
func (g *game) actions() (n int64) {
	for _, t := range g.tallies {
		n += t.Total(protocol.ActionUsers).Done
	}
	return n
}
