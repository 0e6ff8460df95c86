package coordinator

import (
	"fmt"
	"sync"
	"time"
)

// stallTurns is after how many NodeTTLs a turn of the lease's loop has certainly ended. While
// Redis does not answer, a turn on Cluster tries several masters, each for a part of a NodeTTL.
const stallTurns = 10

// pulse records that the lease's loop runs. The zero value has not begun.
type pulse struct {
	mu     sync.Mutex
	latest time.Time // guarded by mu: when the latest turn began; zero while the loop does not run
}

func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest = time.Now()
}

func (p *pulse) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.latest = time.Time{}
}

func (p *pulse) check(limit time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if silent := time.Since(p.latest); !p.latest.IsZero() && silent > limit {
		return fmt.Errorf("the loop that prolongs the node's lease has made no turn for %v", silent.Round(time.Second))
	}
	return nil
}

// Alive returns an error if the coordinator stands still for a reason of its own, and nil also
// while Redis does not answer. It blocks if somebody keeps one of the locks that all work needs.
func (c *Coordinator) Alive() error {
	c.workers.size()
	_, _ = c.membership.lease.holder()
	return c.membership.pulse.check(stallTurns * c.opts.NodeTTL)
}
