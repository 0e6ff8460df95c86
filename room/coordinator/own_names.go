package coordinator

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// ownNames are the names that this node has, or had of late, and until when their leases
// were valid for certain. Other nodes remove the members of a name when its lease has
// been over for the grace, and nobody before that. The zero value is empty.
type ownNames struct {
	mu    sync.Mutex
	until map[string]time.Time // guarded by mu: by our clock
}

// validUntil records that the lease under a name is not over before until.
func (n *ownNames) validUntil(name string, until time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.until == nil {
		n.until = make(map[string]time.Time)
	}
	n.until[name] = until
}

// forget records that Redis has lost the lease under a name too early: nobody can say when
// the members are removed.
func (n *ownNames) forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.until, name)
}

// kept returns the names whose members nobody has removed until now.
func (n *ownNames) kept(grace time.Duration) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(n.until, func(_ string, until time.Time) bool {
		until = until.Add(grace)
		// The monotonic clock stands still while the machine is suspended, the other one jumps.
		return !now.Before(until) || !now.Round(0).Before(until.Round(0))
	})
	return slices.Collect(maps.Keys(n.until))
}
