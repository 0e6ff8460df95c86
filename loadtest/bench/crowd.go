package bench

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxWarmUp = 500 * time.Millisecond

	// grace is how long an action may continue after the end before it is cut off.
	grace = 10 * time.Second

	// farOff is how long after that the context's deadline is, so that no contender acts
	// differently because a deadline is near.
	farOff = time.Minute

	// retryPause keeps a client whose actions fail from failing all the time.
	retryPause = 5 * time.Millisecond
)

// actor is a client. It acts one action at a time.
type actor interface {
	act(ctx context.Context) error
}

// The phases of a measurement.
const (
	warmingUp = iota
	measuring
	over
)

// drive lets all actors act over and over, for a warm-up and for duration, or until one
// of them has acted, and returns when all have stopped. An error says that there is no
// measurement: ctx has ended, or probe has failed.
func drive(ctx context.Context, actors []actor, duration time.Duration, probe func(context.Context) (usage, error)) (*tally, error) {
	warmUp := min(duration/4, maxWarmUp)
	ctx, cancel := context.WithTimeout(ctx, warmUp+duration+grace+farOff)
	defer cancel()
	var phase atomic.Int32
	var crowd sync.WaitGroup
	acted := make(chan struct{}) // in the time that is measured
	note := sync.OnceFunc(func() { close(acted) })
	each := make([]*tally, len(actors))
	for i, a := range actors {
		crowd.Go(func() { each[i] = loop(ctx, a, &phase, note) })
	}
	sum := newTally()
	err := func() error {
		defer phase.Store(over)
		if err := pause(ctx, warmUp); err != nil {
			return err
		}
		before, err := probe(ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		phase.Store(measuring)
		if err := pause(ctx, duration); err != nil {
			return err
		}
		select {
		case <-acted:
		case <-time.After(grace):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		// Both probes run under load, so both are late by the same.
		after, err := probe(ctx)
		sum.took, sum.used = time.Since(began), after.since(before)
		return err
	}()
	late := time.AfterFunc(grace, cancel)
	defer late.Stop()
	crowd.Wait()
	for _, t := range each {
		sum.join(t)
	}
	return sum, err
}

// loop lets one actor act until the end. It calls note at the first measured action.
func loop(ctx context.Context, a actor, phase *atomic.Int32, note func()) *tally {
	t := newTally()
	actions := int64(0)
acting:
	for start := time.Now(); phase.Load() != over; {
		err := a.act(ctx)
		end := time.Now()
		at := phase.Load()
		switch {
		case err != nil && ctx.Err() != nil:
			t.cutOff++
			t.record(end.Sub(start))
			break acting
		case err != nil:
			t.fail(err)
			_ = pause(ctx, retryPause)
			end = time.Now()
		case at == measuring:
			if actions++; actions == 1 {
				note()
			}
			t.record(end.Sub(start))
		case at == over:
			t.record(end.Sub(start))
		}
		start = end
	}
	t.actions = []int64{actions}
	return t
}

// pause returns after d, or with the cause of ctx if that ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
