package lab

import (
	"context"
	"fmt"

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
	x := newCell(l, who.d, &fault{name: cacheGuard, play: func(ctx context.Context, x *cell) error {
		e := newEntry(x, slowLoad*x.d.ttl)
		var visits []visit
		for i, after := range slowVisits {
			c, err := x.caller(fmt.Sprintf("caller-%02d", i+1), false)
			if err != nil {
				return err
			}
			done, err := who.guard.open(e, c.process)
			if err != nil {
				return err
			}
			defer done()
			visits = append(visits, visit{c, x.seconds(after * x.d.ttl)})
		}
		counts.CacheCounts = e.ask(ctx, who.guard, visits)
		counts.AtOnce = e.atOnce.Load()
		return nil
	}}, l.cfg.Second)
	history, err := x.play(ctx)
	counts.Freed = anomaly.Find(history).Counts().Deleted
	return counts, err
}
