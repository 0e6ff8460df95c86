package chaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"roomd/loadtest"
	"roomd/loadtest/check"
	"roomd/lockmgr/redisconn/pause"
)

const (
	lookPause     = 50 * time.Millisecond // between two checks whether all is well
	tellEvery     = 250 * time.Millisecond
	warmUp        = time.Second
	mostSteps     = 10_000
	injectTimeout = 30 * time.Second
)

// disturb makes players play, and injects faults until the time is over. Then players stop, but all connections stay.
func (r *run) disturb(ctx context.Context) error {
	if err := r.Prepare(); err != nil {
		return err
	}
	playing, end := context.WithCancel(ctx)
	defer end()
	var all, watch sync.WaitGroup
	all.Go(func() { r.Play(playing) })
	r.feed.begin()
	all.Go(func() { r.feed.disturb(playing) })
	watching, stop := context.WithCancel(ctx)
	defer stop()
	watch.Go(func() {
		for pause.For(watching, tellEvery) == nil {
			r.tell(false)
		}
	})
	watch.Go(func() { r.resources(watching) })

	err := r.inject(ctx)
	end()
	all.Wait()
	stop()
	watch.Wait()
	r.played = r.History.Now()
	return err
}

// inject follows the schedule. An error says that a fault could not be injected, or that recovery failed.
func (r *run) inject(ctx context.Context) error {
	r.enter("players come")
	_ = pause.For(ctx, warmUp)
	for _, step := range Schedule(r.cfg.Seed, r.cfg.faults(), mostSteps) {
		if ctx.Err() != nil || r.History.Now() > r.cfg.Duration {
			return nil
		}
		r.enter("no fault")
		_ = pause.For(ctx, step.Gap)
		well, err := r.step(ctx, step)
		if err != nil || !well {
			return err // more faults would prove nothing
		}
	}
	return nil
}

// step injects the faults of one step, ends them, and waits for recovery. It reports whether all is well.
func (r *run) step(ctx context.Context, s Step) (well bool, err error) {
	var indexes []int
	var heals []func(context.Context) error
	length := s.For
	// A fault that has started must end, even if somebody interrupts the run.
	ctx = context.WithoutCancel(ctx)
	begin, cancel := context.WithTimeout(ctx, injectTimeout)
	defer cancel()
	var names []string
	for _, p := range s.Picks {
		f := FaultNamed(p.Fault)
		length = max(length, f.lasts)
		i := &injection{run: r, random: rand.New(rand.NewPCG(p.Draw, 1))}
		index := r.History.Fault(r.describe(f))
		indexes = append(indexes, index)
		heal, err := f.inject(begin, i)
		r.History.Update(index, func(f *check.Fault) { f.On = i.on })
		if heal != nil {
			heals = append(heals, heal)
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", p.Fault, err)
		}
		names = append(names, fmt.Sprintf("%s (%s)", p.Fault, i.on))
	}
	r.enter("%s for %.1f s", strings.Join(names, " and "), length.Seconds())
	_ = pause.For(ctx, length)
	r.enter("after %s", strings.Join(names, " and "))
	end, cancel := context.WithTimeout(ctx, max(injectTimeout, r.cfg.Recover))
	defer cancel()
	why := make([]error, len(heals))
	var healing sync.WaitGroup
	for n, heal := range heals { // concurrently and repeatedly: one may depend on another
		healing.Go(func() {
			for why[n] = heal(end); why[n] != nil && pause.For(end, lookPause) == nil; why[n] = heal(end) {
			}
		})
	}
	healing.Wait()
	if err := errors.Join(why...); err != nil {
		return false, err
	}
	healed := r.History.Now()
	for _, i := range indexes {
		r.History.Update(i, func(f *check.Fault) { f.To = healed })
	}
	missing := loadtest.Await(ctx, r.cfg.Recover, func(ctx context.Context) string { return r.missing(ctx, healed) })
	at := r.History.Now()
	for _, i := range indexes {
		r.History.Update(i, func(f *check.Fault) {
			f.Until = at + eviction + grace
			if missing == "" {
				f.Well = at
			}
		})
	}
	if missing != "" {
		r.Problem("settles", "no progress: %v after %s had ended, %s", r.cfg.Recover, strings.Join(names, " and "),
			missing)
	}
	return missing == "", nil
}

// describe returns the checkers' view of a fault that starts now.
func (r *run) describe(f *Fault) check.Fault {
	now := r.History.Now()
	d := check.Fault{Name: f.Name, From: now, Splits: f.splits && r.cfg.Profile != Standalone, Evicts: f.evicts}
	switch f.mayLose(r.cfg) {
	case everything:
		d.Loses = true
	case theLast:
		d.Loses, d.Since = true, max(0, now-lag)
	}
	return d
}

// missing returns what is not well after healed: Redis, or a room or a node that has acknowledged no action that
// started after it.
func (r *run) missing(ctx context.Context, healed time.Duration) string {
	if err := r.store.ready(ctx); err != nil {
		return fmt.Sprintf("Redis is not well: %v", err)
	}
	rooms, nodes := r.History.Since(healed)
	for _, room := range r.Rooms() {
		if !rooms[room] {
			return fmt.Sprintf("room %s has acknowledged no action", room)
		}
	}
	for i := range r.nodes {
		if !nodes[i+1] {
			return fmt.Sprintf("node %d has acknowledged no action", i+1)
		}
	}
	return ""
}

// Times of a schedule.
const (
	minGap, maxGap     = 500 * time.Millisecond, 2 * time.Second
	minFault, maxFault = 2 * time.Second, 6 * time.Second

	// pairs: every so many steps have two concurrent faults.
	pairs = 4
)

// Step is a part of a schedule: a pause, and then one fault or two concurrent ones, for a while. The next step
// waits until all is well.
type Step struct {
	Gap   time.Duration
	For   time.Duration
	Picks []Pick
}

// Pick is a fault, and a seed for its random choices, such as its target.
type Pick struct {
	Fault string
	Draw  uint64
}

// Schedule returns the first n steps for a seed. Each fault comes once before one repeats. Of two concurrent
// faults, not both hit Redis servers, nor both nodes.
func Schedule(seed uint64, faults []string, n int) []Step {
	random := rand.New(rand.NewPCG(seed, 0x6368616f73))
	between := func(from, to time.Duration) time.Duration { return from + time.Duration(random.Int64N(int64(to-from))) }
	var deck []string
	draw := func() Pick {
		if len(deck) == 0 {
			deck = append(deck, faults...)
			random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		p := Pick{deck[0], random.Uint64()}
		deck = deck[1:]
		return p
	}
	steps := make([]Step, n)
	for i := range steps {
		s := Step{Gap: between(minGap, maxGap), For: between(minFault, maxFault), Picks: []Pick{draw()}}
		second := random.IntN(pairs) == 0
		if second && len(deck) > 0 && family(deck[0]) != family(s.Picks[0].Fault) {
			s.Picks = append(s.Picks, draw())
		}
		steps[i] = s
	}
	return steps
}

// family returns the target of a fault from its name: node, redis or clients, for example.
func family(fault string) string {
	what, _, _ := strings.Cut(fault, "-")
	if what == "failover" || what == "slot" {
		return "redis"
	}
	return what
}
