// Package loadtest sends players to roomd nodes and proves that the rooms' lists are right.
//
// Start with [Run]. It makes players and an administrator do all that rooms allow, over real WebSockets, at its
// own nodes or at running ones. Two checkers judge the history of what they were told (package check): one by
// the rooms' journals, and one without them.
//
// Package chaos also plays a [Game], while it disturbs the nodes and their Redis.
package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"roomd/loadtest/internal/process"
	"roomd/loadtest/report"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/transport/auth"
)

const (
	progressInterval = 250 * time.Millisecond

	callTimeout = 30 * time.Second // far longer than a node takes to answer "busy"
	adminPause  = 10 * time.Millisecond
	closes      = 2000
	holds       = 3 * time.Millisecond
)

// ErrNothingDone says that no action succeeded.
var ErrNothingDone = errors.New("no action succeeded, so the run proves nothing")

// Run makes players play for cfg.Duration, or until ctx ends, and returns the result. The report's verdict says
// whether the lists were right. An error says that the run was impossible; see Config.Validate and
// ErrNothingDone.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Mix = ExpandMix(cfg.Mix)
	db, err := redisurl.Open(cfg.Redis)
	if err != nil && cfg.readsStore() {
		return nil, err
	}
	if db != nil {
		defer db.Close()
	}
	f, err := startFleet(ctx, cfg, db)
	if err != nil {
		return nil, err
	}
	defer f.stop()
	play := Play{
		Nodes: f.nodes, API: f.api, Store: cfg.store(db), Name: "load", Clients: cfg.Clients, Rooms: cfg.Rooms,
		Capacity: cfg.Capacity,
		Mix:      cfg.Mix, Seed: rand.Uint64(), AdminPause: adminPause, CallTimeout: callTimeout, Closes: closes,
		Holds: holds, Watch: len(cfg.Targets) > 0,
	}
	if play.Store != nil {
		defer play.Store.Client.Close()
	}
	if cfg.SecretFile != "" {
		signer, err := auth.SecretFileSigner(cfg.SecretFile)
		if err != nil {
			return nil, fmt.Errorf("auth-secret-file: %w", err)
		}
		play.Token = func(user string) (string, error) {
			return signer.Sign(auth.Identity{User: user, Expires: time.Now().Add(cfg.Duration + time.Hour)})
		}
	}
	g := NewGame(play)
	defer g.Disconnect()
	return g.run(ctx, cfg)
}

// run plays and judges.
func (g *Game) run(ctx context.Context, cfg Config) (*Report, error) {
	if g.cfg.Watch {
		if err := g.watch(context.WithoutCancel(ctx)); err != nil {
			return nil, fmt.Errorf("connect: %w", err)
		}
	}
	if err := g.connect(ctx); err != nil {
		return nil, err
	}
	if len(g.admin.does) > 0 {
		if err := g.Prepare(); err != nil {
			return nil, err
		}
	}
	played, used := g.time(ctx, cfg)
	if done, _, _ := g.History.Counts(); done == 0 {
		return nil, errors.Join(ErrNothingDone, g.errors.FirstError())
	}
	ctx = context.WithoutCancel(ctx) // a run that was stopped is also judged
	if err := g.Settle(ctx, cmp.Or(cfg.catchUp, defaultCatchUp)); err != nil {
		return nil, fmt.Errorf("read the lists at the end: %w", err)
	}
	g.Disconnect()
	h, err := g.End(ctx)
	if err != nil {
		return nil, err
	}
	r := g.Judge(h, played)
	r.ownNodes, r.OwnCPU = len(cfg.Targets) == 0, report.Figure(used)
	r.OwnShare = report.Figure(used / played.Seconds() / float64(runtime.NumCPU()))
	return r, nil
}

// time plays for as long as cfg says. It returns how long that was, and the processor seconds that this process
// used.
func (g *Game) time(ctx context.Context, cfg Config) (played time.Duration, used float64) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Duration)
	defer cancel()
	start, before := time.Now(), process.CPU()
	all := make(chan struct{})
	go func() { defer close(all); g.Play(ctx) }()
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
		if cfg.Progress != nil {
			now := Progress{Elapsed: time.Since(start), Violations: len(g.Problems())}
			now.Actions, _, _ = g.History.Counts()
			cfg.Progress(now)
		}
	}
	played, used = time.Since(start), (process.CPU()-before)/1e6
	<-all
	return played, used
}

// The verdicts.
const (
	Consistent   = "consistent"
	Inconsistent = "inconsistent"
	Undecided    = "undecided" // nothing was wrong, and not all could be decided
)
