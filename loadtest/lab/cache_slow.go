package lab

import (
	"context"
	"fmt"
	"time"

	"roomd/loadtest/lab/anomaly"
)

// A load that outlasts the lock's TTL, and the moments when its callers come, in TTLs. The
// first loads. The second comes before the lock expires, the third after that, while the
// first still loads.
const slowLoad = 1.6

var slowVisits = []float64{0, 0.5, 1.25}

// playSlow sends callers to an expired entry whose load outlasts the lock's TTL. Each has
// a process of its own under the observer, which sees whose lock each release deletes.
func (l *lab) playSlow(ctx context.Context, who contender) (counts SlowCounts, err error) {
	history, err := l.observed(ctx, who, slowLoad*who.d.ttl, false, len(slowVisits), func(ctx context.Context, e *entry, callers []*caller) error {
		var visits []visit
		for i, c := range callers {
			visits = append(visits, visit{c, e.x.seconds(slowVisits[i] * e.x.d.ttl)})
		}
		counts.CacheCounts = e.ask(ctx, who.guard, visits)
		counts.AtOnce = e.atOnce.Load()
		return nil
	})
	counts.Freed = anomaly.Find(history).Counts().Deleted
	return counts, err
}

// playDead lets the first caller of an expired entry die while it loads. Others keep
// coming, and use the old value if they may.
func (l *lab) playDead(ctx context.Context, who contender) (counts DeadCounts, err error) {
	_, err = l.observed(ctx, who, cacheLoad, true, 2, func(ctx context.Context, e *entry, callers []*caller) error {
		e.dies = callers[0]
		if err := who.guard.leaveOld(ctx, e); err != nil {
			return err
		}
		begun := time.Now()
		e.dies.asked = begun
		_, _ = who.guard.get(ctx, e, e.dies)
		counts.Never = !e.awaitNew(ctx, who.guard, callers[1].process)
		counts.UpdatedMS = float64(time.Since(begun).Microseconds()) / 1000
		counts.Loads = e.loads.Load()
		return nil
	})
	return counts, err
}

// observed plays with an entry and callers that have a process each, over a wire.
func (l *lab) observed(ctx context.Context, who contender, load float64, keeps bool, callers int, play func(context.Context, *entry, []*caller) error) (anomaly.History, error) {
	return newCell(l, who.d, &fault{name: cacheGuard, play: func(ctx context.Context, x *cell) error {
		e := newEntry(x, load)
		e.keeps = keeps
		var all []*caller
		for i := range callers {
			c, err := x.caller(fmt.Sprintf("caller-%02d", i+1), false)
			if err != nil {
				return err
			}
			done, err := who.guard.open(e, c.process)
			if err != nil {
				return err
			}
			defer done()
			all = append(all, c)
		}
		return play(ctx, e, all)
	}}, l.cfg.Second).play(ctx)
}

// emptyVisits is how many callers ask for what the database does not have.
const emptyVisits = 3

// playEmpty sends callers, one after the other, for what the database does not have,
// behind the guards of which it is known what they do, and without a guard.
func (l *lab) playEmpty(ctx context.Context, who contender) (loads *int64, err error) {
	if lock := who.d.lock; lock != nil && !lock.keepsEmpty {
		return nil, nil
	}
	err = l.withEntry(ctx, who, 1, false, func(e *entry) error {
		e.empty = true
		for range emptyVisits {
			c := e.x.callerIn(e.x.processes[0], "caller", false)
			c.asked = time.Now()
			if _, err := who.guard.get(ctx, e, c); err != nil {
				return err
			}
		}
		n := e.loads.Load()
		loads = &n
		return nil
	})
	return loads, err
}
