// Package loadtest sends players at roomd nodes and proves that the rooms' lists are right.
//
// Start with [Run]. It lets players and an administrator do all that rooms allow, over real WebSockets, at its own nodes or at those given to
// it. What they were told is a history (package check), which two checkers judge in the end: by the rooms' journals, and without them.
//
// [Game] is the part of it that package chaos plays, too, while it disturbs the nodes and their Redis.
package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"roomd/loadtest/check"
	"roomd/loadtest/internal/process"
	"roomd/lockmgr/redisconn/redisurl"
	"roomd/transport/auth"
)

const (
	progressInterval = 250 * time.Millisecond

	callTimeout = 30 * time.Second // far longer than a node needs to answer busy
	adminPause  = 10 * time.Millisecond
	closes      = 2000
	holds       = 3 * time.Millisecond
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
	f, err := startFleet(ctx, cfg, db)
	if err != nil {
		return nil, err
	}
	defer f.stop()
	play := Play{
		Nodes: f.nodes, API: f.api, Store: cfg.store(db), Name: "load", Clients: cfg.Clients, Rooms: cfg.Rooms, Capacity: cfg.Capacity,
		Mix: cfg.Mix, Seed: rand.Uint64(), AdminPause: adminPause, CallTimeout: callTimeout, Closes: closes, Holds: holds, Watch: len(cfg.Targets) > 0,
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
	r := &Report{Nodes: len(g.cfg.Nodes), Clients: cfg.Clients, Rooms: cfg.Rooms, Capacity: cfg.Capacity, ownNodes: len(cfg.Targets) == 0}
	g.time(ctx, cfg, r)
	if r.Actions == 0 {
		return nil, errors.Join(ErrNothingDone, g.errors.FirstError())
	}
	ctx = context.WithoutCancel(ctx) // a run that was stopped is checked, too
	if err := g.Settle(ctx, cmp.Or(cfg.catchUp, defaultCatchUp)); err != nil {
		return nil, fmt.Errorf("read the lists at the end: %w", err)
	}
	g.Disconnect()
	h, err := g.End(ctx)
	if err != nil {
		return nil, err
	}
	r.count(h, &g.errors)
	r.judge(h, g.Problems())
	return r, nil
}

// time lets all play for as long as cfg says, and notes how fast they are.
func (g *Game) time(ctx context.Context, cfg Config, r *Report) {
	ctx, cancel := context.WithTimeout(ctx, cfg.Duration)
	defer cancel()
	start, used := time.Now(), process.CPU()
	played := make(chan struct{})
	go func() { defer close(played); g.Play(ctx) }()
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
		now := Progress{Elapsed: time.Since(start), Violations: len(g.Problems())}
		now.Actions, _, _ = g.History.Counts()
		r.samples = append(r.samples, sample{now.Elapsed.Seconds(), now.Actions})
		if cfg.Progress != nil {
			cfg.Progress(now)
		}
	}
	r.took(time.Since(start), (process.CPU()-used)/1e6)
	<-played
	r.Actions, r.Refused, r.Unknown = g.History.Counts()
}

// The verdicts.
const (
	Consistent   = "consistent"
	Inconsistent = "inconsistent"
	Undecided    = "undecided" // nothing was wrong, and not all could be decided
)

// Verdict returns what they come to: violations, and what could not be decided.
func Verdict(violations, undecided int) string {
	switch {
	case violations > 0:
		return Inconsistent
	case undecided > 0:
		return Undecided
	}
	return Consistent
}

// judge has both checkers judge what was played.
func (r *Report) judge(h *check.History, problems []check.Violation) {
	defer debug.SetGCPercent(debug.SetGCPercent(30)) // the history is most of the memory, and nothing more comes
	witness, porcupine := check.Witness(h), check.Linearize(h, check.DefaultPatience)
	all := append(append(problems, witness.Violations...), porcupine.Violations...)
	r.Violations = check.Count(all)
	for _, v := range all {
		r.Details = append(r.Details, v.String())
	}
	r.Undecided = append(witness.Unsure, porcupine.Unsure...)
	r.Witnessed, r.Linearized, r.Watched = witness.Judged, porcupine.Judged, witness.Watched
	r.Strange = witness.Strange
	r.Verdict = Verdict(len(all), len(r.Undecided))
}
