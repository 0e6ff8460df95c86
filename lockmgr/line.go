package lockmgr

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// enoughGrants is how many times a line has to have moved before its pace is believed.
const enoughGrants = 8

// lines are the lines of all locks for which this process waits.
type lines struct {
	max int // waiters in one line

	mu     sync.Mutex
	byName map[string]*line // guarded by mu
	spare  *line            // guarded by mu: the last that became empty, for the next one
}

// line is who waits for one lock in this process, in order of arrival. The first waiter
// asks Redis for all; only its token waits there. All of it is guarded by lines.mu.
type line struct {
	waiters []*waiter

	pace   time.Duration // average time between two grants while some wait
	latest time.Time     // grant
	grants int
}

// waiter is one Acquire that waits.
type waiter struct {
	Slot
	first      chan struct{} // closed when it is the first of its line; nil if it is from the start
	handedOver bool          // written before first is closed: this process holds the lock
	granted    grant         // the hold for which it asked with success

	abandoned bool // guarded by lines.mu: its caller gave up
	inRedis   bool // guarded by lines.mu: Redis may know its token
}

func (ls *lines) init(max int) { ls.max, ls.byName = max, make(map[string]*line) }

// join puts a waiter at the end of the line for its lock, or returns ErrBusy.
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

// refuse returns ErrBusy if too many wait already, or if the deadline of ctx will most
// likely pass before one more would get the lock.
func (l *line) refuse(ctx context.Context, max int) error {
	ahead := len(l.waiters)
	if ahead >= max {
		return fmt.Errorf("%w: %d calls wait already", ErrBusy, ahead)
	}
	deadline, ok := ctx.Deadline()
	if !ok || l.grants < enoughGrants {
		return nil
	}
	// Half of the expected time: better to let one try in vain than to turn away
	// one that would have been in time.
	if expected := time.Duration(ahead) * l.pace / 2; time.Until(deadline) < expected {
		return fmt.Errorf("%w: %d are ahead and take about %v each, the deadline is in %v",
			ErrBusy, ahead, l.pace.Round(time.Microsecond), time.Until(deadline).Round(time.Microsecond))
	}
	return nil
}

// remove takes a waiter out of its line, and makes the one behind it the first.
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

// measure records how fast the line moves.
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

// next returns the first waiter for a lock that this process is about to release, and
// records that a release names its token; nil if nobody waits.
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

// abandon marks w as abandoned, so that nobody hands it the lock, and reports whether
// Redis may know its token.
func (ls *lines) abandon(w *waiter) (inRedis bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	w.abandoned = true
	return w.inRedis
}

// enterRedis records that Redis is going to be told the token of w.
func (ls *lines) enterRedis(w *waiter) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	w.inRedis = true
}
