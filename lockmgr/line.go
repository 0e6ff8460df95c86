package lockmgr

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// enoughGrants is how many grants a line needs before refuse relies on its pace.
const enoughGrants = 8

// lines has a line for each lock that calls of this process wait for.
type lines struct {
	max int // waiters per line

	mu     sync.Mutex
	byName map[string]*line // guarded by mu
	spare  *line            // guarded by mu: the line that became empty last, for reuse
}

// line is the queue of one lock's waiters in this process, in order of arrival. Only the first waiter asks
// Redis, and only its token is in the queue there. All fields are guarded by lines.mu.
type line struct {
	waiters []*waiter

	pace   time.Duration // average time between two grants while calls wait
	latest time.Time     // time of the last grant
	grants int
}

// waiter is an Acquire that waits.
type waiter struct {
	Slot
	first      chan struct{} // closed when it becomes the first of its line; nil if it joined as the first
	handedOver bool          // written before first is closed: this process holds the lock
	granted    grant         // the hold that ask got
	args       [1]any        // of ask: the TTL in ms

	abandoned bool // guarded by lines.mu: its caller gave up
	inRedis   bool // guarded by lines.mu: Redis may know its token
}

// isQueued reports whether Redis has answered with a position.
func (w *waiter) isQueued() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.position != 0
}

func (ls *lines) init(max int) { ls.max, ls.byName = max, make(map[string]*line) }

// join appends a waiter to the line of its lock, or returns ErrBusy.
func (ls *lines) join(ctx context.Context, w *waiter) error {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byName[w.name]
	switch {
	case l == nil:
		if l = ls.spare; l == nil {
			l = new(line)
		}
		ls.byName[w.name], ls.spare = l, nil
	default:
		if err := l.refuse(ctx, ls.max); err != nil {
			return err
		}
		w.first = make(chan struct{})
	}
	l.waiters = append(l.waiters, w)
	return nil
}

// refuse returns ErrBusy if too many wait already, or if the deadline of ctx will most likely pass before a new
// waiter gets the lock.
func (l *line) refuse(ctx context.Context, max int) error {
	ahead := len(l.waiters)
	if ahead >= max {
		return fmt.Errorf("%w: %d calls wait already", ErrBusy, ahead)
	}
	deadline, ok := ctx.Deadline()
	if !ok || l.grants < enoughGrants {
		return nil
	}
	// Half of the expected time: better let a call wait in vain than refuse one that would be in time.
	if expected := time.Duration(ahead) * l.pace / 2; time.Until(deadline) < expected {
		return fmt.Errorf("%w: %d are ahead and take about %v each, the deadline is in %v",
			ErrBusy, ahead, l.pace.Round(time.Microsecond), time.Until(deadline).Round(time.Microsecond))
	}
	return nil
}

// remove removes w from its line, and tells the next waiter if it is now the first. granted: w got the lock.
func (ls *lines) remove(w *waiter, granted bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byName[w.name]
	at := slices.Index(l.waiters, w)
	l.waiters = slices.Delete(l.waiters, at, at+1)
	if len(l.waiters) == 0 {
		delete(ls.byName, w.name)
		*l = line{waiters: l.waiters}
		ls.spare = l
		return
	}
	if granted {
		l.measure()
	}
	if at == 0 {
		l.waiters[0].handedOver = granted
		close(l.waiters[0].first)
	}
}

// measure updates the line's pace after a grant.
func (l *line) measure() {
	now := time.Now()
	if !l.latest.IsZero() {
		took := now.Sub(l.latest)
		if l.grants == 0 {
			l.pace = took
		}
		l.pace += (took - l.pace) / 8
		l.grants++
	}
	l.latest = now
}

// next returns the first waiter for a lock that this process is about to release, or nil. It records that a
// release names the waiter's token.
func (ls *lines) next(name string) *waiter {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byName[name]
	if l == nil || l.waiters[0].abandoned {
		return nil
	}
	l.waiters[0].inRedis = true
	l.waiters[0].tokens.promise(true)
	return l.waiters[0]
}

// abandon marks w as abandoned, so that nobody hands it the lock. It reports whether Redis may know the token of w.
func (ls *lines) abandon(w *waiter) (inRedis bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	w.abandoned = true
	return w.inRedis
}

// enterRedis records that Redis may know the token of w from now on.
func (ls *lines) enterRedis(w *waiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	w.inRedis = true
}
