package lockmgr

import (
	"context"
	"fmt"
	"slices"
	"time"

	"roomd/lockmgr/pubsub"
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
	line  *line
	token string
	keys  []string
	first chan struct{} // closed when it is its turn to ask Redis; nil if it is from the start
	given chan *grant   // takes a hold; nil says that it is worth asking
	clock moment        // guarded by Manager.mu: what is known of the server's clock
	gone  bool          // guarded by Manager.mu: it gave up
	known bool          // guarded by Manager.mu: Redis may know its token
	next  bool          // written before first is closed: it follows a holder of this process
	quiet bool          // the lock is probably free
}

// join puts a waiter at the end of its line, or says that there is no use in it.
func (m *Manager) join(ctx context.Context, name string) (*waiter, error) {
	if err := m.ended(ctx); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.lines[name]
	if l == nil {
		l = &line{name: name}
		m.lines[name] = l
	}
	if l.idle != nil {
		l.idle.Stop()
		l.idle = nil
	}
	ahead := len(l.waiters)
	if ahead >= m.opts.MaxWaiters {
		return nil, fmt.Errorf("%w: %d calls wait already", ErrBusy, ahead)
	}
	// Half of the expected time: better to let one try in vain than to turn away
	// one that would have been in time.
	if deadline, ok := ctx.Deadline(); ok && ahead > 0 && l.grants >= enoughGrants {
		if expected := time.Duration(ahead) * l.pace / 2; time.Until(deadline) < expected {
			return nil, fmt.Errorf("%w: %d are ahead and take about %v each, the deadline is in %v",
				ErrBusy, ahead, l.pace.Round(time.Microsecond), time.Until(deadline).Round(time.Microsecond))
		}
	}
	w := &waiter{line: l, token: m.newToken(name), keys: m.Keys(name), given: make(chan *grant, 1)}
	if ahead > 0 {
		w.first = make(chan struct{})
	} else {
		w.quiet = m.quietLocked(name)
	}
	l.waiters = append(l.waiters, w)
	return w, nil
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
		l.waiters[0].next = granted
		close(l.waiters[0].first)
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
	l.wakes = m.hub.Subscribe(m.wakeChannel(l.name), pubsub.Handler{Message: func(payload string) {
		if o, ok := parseOffer(payload); ok {
			m.woken(l, o)
		}
	}})
}

// woken tells a waiter that a lock was kept for its token. It has it then, for the
// claim, as far as that can be told from the server's clock.
func (m *Manager) woken(l *line, o offer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range l.waiters {
		if w.token != o.token {
			continue
		}
		var g *grant
		if since, known := w.clock.local(o.at); known && time.Since(since) < m.opts.Claim {
			g = &grant{o.fence, since, m.opts.Claim}
		}
		w.takeLocked(g)
		return
	}
}

// learn notes what an answer says of the server's clock.
func (m *Manager) learn(w *waiter, seen moment) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.clock = w.clock.better(seen)
}

// heir returns who waits in this process for a lock that is to be given back, and
// so has its token told to Redis. It returns nil if nobody does, and then whether
// anybody was met at the lock of late.
func (m *Manager) heir(name string) (w *waiter, quiet bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.lines[name]; l != nil && len(l.waiters) > 0 {
		l.waiters[0].known = true
		return l.waiters[0], false
	}
	return nil, m.quietLocked(name)
}

// pass hands a hold to a waiter of this process, unless it gave up meanwhile. One
// that has found out by asking already needs it no more.
func (m *Manager) pass(w *waiter, g *grant) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.gone {
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

// giveUp has a waiter found gone by who might pass a hold on to it, and reports
// whether Redis may know it.
func (m *Manager) giveUp(w *waiter) (known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.gone = true
	return w.known
}

// makeKnown notes that Redis is going to be told a waiter's token.
func (m *Manager) makeKnown(w *waiter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	w.known = true
}

func (m *Manager) hasGivenUp(w *waiter) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return w.gone
}

// pause waits for d, or returns why ctx ended before.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
