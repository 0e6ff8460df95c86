package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// farOff is how far behind the end of the time the contexts' deadline lies.
	// Contenders act otherwise when a deadline is near, such as to hold for a
	// shorter time or to turn the caller away. The contexts are cancelled in time.
	farOff = time.Minute

	// grace is how long after the end goroutines may take to return.
	grace = 3 * time.Second

	// markTTL lets marks go away that a process has left behind.
	markTTL = time.Minute
)

// crew is the goroutines of one process.
type crew struct {
	locks  locks
	names  []string
	owners []atomic.Int64 // of the lock of that name in this process; zero if nobody
	marks  *redis.Client  // nil if holds are not marked in Redis
	faults *faults
}

// work lets n goroutines take locks for that long. Those that do not return soon
// after are counted and left alone.
func (c *crew) work(n int, duration time.Duration) tally {
	stop := time.Now().Add(duration)
	ctx, cancel := context.WithDeadline(context.Background(), stop.Add(farOff))
	defer cancel()
	defer time.AfterFunc(duration, cancel).Stop()
	tallies := make(chan tally, n)
	for i := range n {
		go func() { tallies <- c.loop(ctx, int64(i+1), stop) }()
	}
	sum := newTally()
	late := time.After(duration + grace)
	for range n {
		select {
		case t := <-tallies:
			sum.add(t)
		case <-late:
			sum.Hung = n - len(sum.Holds)
			return sum
		}
	}
	return sum
}

// loop is one goroutine, known by its id.
func (c *crew) loop(ctx context.Context, id int64, stop time.Time) tally {
	t := newTally()
	holds := int64(0)
	for began := time.Now(); began.Before(stop); {
		at := rand.IntN(len(c.names))
		release, err := acquire(ctx, c.locks, c.names[at])
		got := time.Now()
		if ctx.Err() != nil || !got.Before(stop) {
			if err == nil {
				release()
			}
			t.cutOff(stop.Sub(began))
			break
		}
		if err != nil {
			c.faults.add(err)
			pause(ctx) // the wait goes on
			continue
		}
		holds++
		t.waited(got.Sub(began))
		if !c.alone(at, id) {
			t.Violations++
		}
		release()
		began = time.Now()
	}
	t.Holds = []int64{holds}
	return t
}

func pause(ctx context.Context) {
	select {
	case <-time.After(retryDelay):
	case <-ctx.Done():
	}
}

// alone reports whether nobody else holds that lock.
func (c *crew) alone(at int, id int64) bool {
	owner := &c.owners[at]
	if !owner.CompareAndSwap(0, id) {
		return false
	}
	unmarked := c.marks == nil || c.markedAlone(at, id)
	return owner.CompareAndSwap(id, 0) && unmarked
}

// markedAlone leaves a mark in Redis for as long as it takes to take it away. Two
// marks at a time do not go.
func (c *crew) markedAlone(at int, id int64) bool {
	ctx, mark := context.Background(), c.names[at]+":mark"
	_, err := c.marks.SetArgs(ctx, mark, id, redis.SetArgs{Mode: "NX", TTL: markTTL}).Result()
	if errors.Is(err, redis.Nil) {
		return false
	}
	c.faults.add(err)
	n, gone := c.marks.Del(ctx, mark).Result()
	c.faults.add(gone)
	return n == 1 || err != nil || gone != nil
}
