package lockmgr

import (
	"context"
	"fmt"
	"slices"
	"time"

	"roomd/lockmgr/redisconn/pubsub"
)

// linger is how long a process stays subscribed to the wake-ups of a lock that it
// does not wait for any more.
const linger = 10 * time.Second

// enoughGrants is how many times a line has to have moved before its pace is
// believed.
const enoughGrants = 8

// line is who waits for one lock in this process, in order of arrival. The first
// one asks Redis for all; only its token waits there. All of it is guarded by
// Manager.mu.
type line struct {
	name    string
	waiters []*waiter

	wakes *pubsub.Subscription // nil until somebody had to wait
	idle  *time.Timer          // runs while nobody waits

	pace   time.Duration // average time between two grants while some wait
	last   time.Time     // of the latest grant
	grants int
}

// waiter is one Acquire that waits.
type waiter struct {
	slot
	line    *line
	turn    chan struct{} // closed when it is its turn to ask Redis; nil if it is from the start
	follows bool          // written before turn is closed: it follows a holder of this process
	given   chan *grant   // takes a hold; nil says that it is worth asking

	// Guarded by Manager.mu.
	abandoned bool          // its caller gave up
	known     bool          // Redis may know its token
	place     int64         // in the queue of Redis, as far as it is known; 0 before
	waited    time.Time     // when Redis was asked last and answered that it has to wait
	trip      time.Duration // how long that took
}

// join puts a waiter at the end of its line, or says that there is no use in it. Without
// an error the caller is counted in calls.
func (m *Manager) join(ctx context.Context, name string) (*waiter, error) {
	if err := m.check(ctx, name); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ended(ctx); err != nil {
		return nil, err
	}
	l := m.lines[name]
	ahead := 0
	if l != nil {
		ahead = len(l.waiters)
		if err := m.hopelessLocked(ctx, l); err != nil {
			return nil, err
		}
		if l.idle != nil {
			l.idle.Stop()
			l.idle = nil
		}
	} else {
		l = &line{name: name}
		m.lines[name] = l
	}
	w := &waiter{slot: m.newSlot(name), line: l, given: make(chan *grant, 1)}
	if ahead > 0 {
		w.turn = make(chan struct{})
	}
	l.waiters = append(l.waiters, w)
	m.calls.Add(1)
	return w, nil
}

// hopelessLocked returns ErrBusy if too many wait already, or if the deadline of ctx
// will most likely pass before it is the turn of one more.
func (m *Manager) hopelessLocked(ctx context.Context, l *line) error {
	ahead := len(l.waiters)
	if ahead >= m.opts.MaxWaiters {
		return fmt.Errorf("%w: %d calls wait already", ErrBusy, ahead)
	}
	deadline, ok := ctx.Deadline()
	if !ok || ahead == 0 || l.grants < enoughGrants {
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

// part takes a waiter out of its line, and lets the next one ask.
func (m *Manager) part(w *waiter, granted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := w.line
	at := slices.Index(l.waiters, w)
	if at < 0 {
		return
	}
	l.waiters = slices.Delete(l.waiters, at, at+1)
	if granted {
		l.movedLocked()
	}
	if len(l.waiters) == 0 {
		m.restLocked(l)
		return
	}
	if at == 0 {
		l.waiters[0].follows = granted
		close(l.waiters[0].turn)
	}
}

// movedLocked notes how fast the line moves.
func (l *line) movedLocked() {
	now := time.Now()
	if !l.last.IsZero() && len(l.waiters) > 0 {
		took := now.Sub(l.last)
		if l.grants == 0 {
			l.pace = took
		}
		l.pace += (took - l.pace) / 8
		l.grants++
	}
	l.last = now
}

// restLocked forgets a line that nobody waits in: at once if it never had to
// subscribe, otherwise when it has been quiet for a while.
func (m *Manager) restLocked(l *line) {
	l.last, l.grants = time.Time{}, 0
	if l.wakes == nil {
		m.forgetLocked(l)
		return
	}
	l.idle = time.AfterFunc(linger, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(l.waiters) == 0 {
			m.forgetLocked(l)
		}
	})
}

func (m *Manager) forgetLocked(l *line) {
	if m.lines[l.name] == l {
		delete(m.lines, l.name)
	}
	l.forgetLocked()
}

func (l *line) forgetLocked() {
	if l.idle != nil {
		l.idle.Stop()
	}
	if l.wakes != nil {
		l.wakes.Close()
		l.wakes = nil
	}
}

// listen subscribes to the wake-ups of a line's lock.
func (m *Manager) listen(l *line) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.wakes != nil || m.life.Err() != nil {
		return
	}
	l.wakes = m.hub.Subscribe(m.wakeChannel(l.name), pubsub.Handler{
		Message: func(payload string) {
			if wake, ok := parseWakeUp(payload); ok {
				m.woken(l, wake)
			}
		},
		Interrupted: func() { m.askAgain(l) },
	})
}

// askAgain has the first waiter of a line ask at once: wake-ups may have been missed.
func (m *Manager) askAgain(l *line) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(l.waiters) > 0 {
		l.waiters[0].takeLocked(nil)
	}
}

// woken tells a waiter that the lock was kept for its token. It was given after Redis
// last answered that the token has to wait; so the claim is counted from when that was
// asked, by our own clock. However long the wake-up was under way, and whatever the
// server's clock does, that is not too late.
func (m *Manager) woken(l *line, wake wakeUp) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range l.waiters {
		if w.token != wake.token {
			continue
		}
		var g *grant
		if !w.waited.IsZero() {
			g = &grant{wake.fence, w.waited, wake.claim}
		}
		w.takeLocked(g)
		return
	}
}

// usable reports whether a waiter can go to work on what it was given. It cannot if the
// hold is over; if it was given for a place in the queue that the waiter has lost since;
// or if a claim leaves too little time to extend it, and to do so again.
func (m *Manager) usable(w *waiter, g *grant) bool {
	if g == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return g.fence > w.place && !g.over() && (g.lasts >= m.opts.TTL || g.left() > 3*w.trip)
}

// queuedAt notes what Redis answered to a waiter that has to wait.
func (m *Manager) queuedAt(w *waiter, place int64, sent time.Time, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.place, w.waited, w.trip = place, sent, took
}

// nextWaiter returns who waits first in this process for a lock that is to be given
// back, and marks it as known to Redis; nil if nobody does.
func (m *Manager) nextWaiter(name string) *waiter {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.lines[name]; l != nil && len(l.waiters) > 0 {
		l.waiters[0].known = true
		return l.waiters[0]
	}
	return nil
}

// pass hands a hold to a waiter of this process, unless it is abandoned. One that has
// found out by asking already needs it no more.
func (m *Manager) pass(w *waiter, g *grant) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.abandoned {
		return false
	}
	w.takeLocked(g)
	return true
}

// takeLocked gives a hold to a waiter. One that does not see it will find out by
// asking.
func (w *waiter) takeLocked(g *grant) {
	select {
	case w.given <- g:
	default:
	}
}

// abandon marks a waiter as abandoned, so that nobody hands it the lock, and reports
// whether Redis may know it.
func (m *Manager) abandon(w *waiter) (known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.abandoned = true
	return w.known
}

// makeKnown notes that Redis is going to be told a waiter's token.
func (m *Manager) makeKnown(w *waiter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.known = true
}

func (m *Manager) isAbandoned(w *waiter) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return w.abandoned
}
