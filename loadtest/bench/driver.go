package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"roomd/loadtest/internal/tally"
	"roomd/lockmgr/redisconn/pause"
)

const (
	maxWarmUp = 500 * time.Millisecond

	// grace is how long an action may continue after the end before it is cut off.
	grace = 10 * time.Second

	// farOff is how long after that the context's deadline is, because some contenders act differently near a
	// deadline.
	farOff = time.Minute

	// retryPause keeps a client whose actions fail from failing all the time.
	retryPause = 5 * time.Millisecond
)

// actor is a client that does one action at a time.
type actor interface {
	act(ctx context.Context) error
}

// The phases of a measurement.
const (
	warmingUp = iota
	measuring
	over
)

// measurement is the result of the measured time.
type measurement struct {
	actors []*tally.Tally // by actor; an unknown action was cut off
	took   time.Duration  // the measured time
	used   usage          // in it
}

// driver makes actors act. After each action they pause for a random time, pace on average; pauses are not measured.
type driver struct {
	duration, pace time.Duration
	probe          func(context.Context) (usage, error)
}

// drive makes all actors act repeatedly, for a warm-up and then for the duration, longer if none has acted by then. It
// returns when all have stopped. An error means that there is no measurement: ctx has ended, or the probe has failed.
func drive[A actor](ctx context.Context, d driver, actors []A) (*measurement, error) {
	warmUp := min(d.duration/4, maxWarmUp)
	ctx, cancel := context.WithTimeout(ctx, warmUp+d.duration+grace+farOff)
	defer cancel()
	var phase atomic.Int32
	var acting sync.WaitGroup
	acted := make(chan struct{}) // closed after an action in the measured time
	note := sync.OnceFunc(func() { close(acted) })
	m := &measurement{actors: make([]*tally.Tally, len(actors))}
	for i, a := range actors {
		m.actors[i] = new(tally.Tally)
		acting.Go(func() { d.loop(ctx, a, m.actors[i], &phase, note) })
	}
	err := func() error {
		defer phase.Store(over)
		if err := pause.For(ctx, warmUp); err != nil {
			return err
		}
		before, err := d.probe(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		phase.Store(measuring)
		if err := pause.For(ctx, d.duration); err != nil {
			return err
		}
		select {
		case <-acted:
		case <-time.After(grace):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		// Both probes run under load, so both are equally late.
		after, err := d.probe(ctx)
		m.took, m.used = time.Since(began), after.since(before)
		return err
	}()
	late := time.AfterFunc(grace, cancel)
	defer late.Stop()
	acting.Wait()
	return m, err
}

// loop makes one actor act until the end, and counts in t. It calls note after each measured action.
func (d driver) loop(ctx context.Context, a actor, t *tally.Tally, phase *atomic.Int32, note func()) {
acting:
	for start := time.Now(); phase.Load() != over; {
		err := a.act(ctx)
		end := time.Now()
		at := phase.Load()
		switch {
		case err != nil && ctx.Err() != nil:
			t.Unknown.Add(1)
			t.Record(end.Sub(start))
			break acting
		case err != nil:
			t.Fail(err)
			_ = pause.For(ctx, retryPause)
			end = time.Now()
		case at == measuring:
			note()
			t.Done.Add(1)
			t.Record(end.Sub(start))
		case at == over:
			t.Record(end.Sub(start))
		}
		if d.pace > 0 { // random pauses, so that actors do not act in step
			_ = pause.For(ctx, rand.N(2*d.pace))
			end = time.Now()
		}
		start = end
	}
}
