package session

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"roomd/room"
	"roomd/transport/internal/ws"
	"roomd/transport/protocol"
)

const (
	// NoopRate and NoopBurst bound what the server does nothing for, because reading and refusing it costs something,
	// too: pings, pongs, all fragments of a message but the first, and requests over the rate. They bound it per
	// second, and at once, for a connection and for a user: who connects again gets no new burst.
	NoopRate  = 100
	NoopBurst = 256
)

// rateLimit is how often something may happen. The zero value sets no limit.
type rateLimit struct {
	interval time.Duration // between two, on average
	burst    time.Duration // the intervals of those that may happen at once
}

func newRateLimit(perSecond, burst int) rateLimit {
	interval := time.Second / time.Duration(perSecond)
	return rateLimit{interval, interval * time.Duration(burst)}
}

var noopLimit = newRateLimit(NoopRate, NoopBurst)

// times returns the limit of what counts as much as n of these, or as all that may happen at once.
func (l rateLimit) times(n int) rateLimit {
	l.interval = min(l.interval*time.Duration(n), l.burst)
	return l
}

// gcra counts what happens against a limit, by the generic cell rate algorithm (ITU-T I.371). A rate.Limiter of
// x/time takes 80 bytes in place of 8. And it loses tokens when several connections of a user reserve and cancel
// at the same time, so that refused requests would count.
type gcra struct {
	arrival atomic.Int64 // the theoretical arrival time: when all that has happened no longer counts
}

// take counts one, and returns 0. If there have been too many, it counts none, and returns how long
// to wait. The time is that of a clock that never steps.
func (g *gcra) take(l rateLimit, now time.Duration) (wait time.Duration) {
	if l.interval == 0 {
		return 0
	}
	for {
		old := g.arrival.Load()
		if most := int64(now + l.burst); old > most { // there was another limit before
			g.arrival.CompareAndSwap(old, most)
			continue
		}
		arrival := max(time.Duration(old), now) + l.interval
		if wait := arrival - now - l.burst; wait > 0 {
			return wait
		}
		if g.arrival.CompareAndSwap(old, int64(arrival)) {
			return 0
		}
	}
}

// undo takes a take back.
func (g *gcra) undo(l rateLimit) { g.arrival.Add(-int64(l.interval)) }

// wait returns how long take would have to wait, and counts none.
func (g *gcra) wait(l rateLimit, now time.Duration) time.Duration {
	if l.interval == 0 {
		return 0
	}
	return max(0, min(g.backlog(now), l.burst)+l.interval-l.burst)
}

// backlog returns how long what has happened still counts.
func (g *gcra) backlog(now time.Duration) time.Duration {
	return max(0, time.Duration(g.arrival.Load())-now)
}

// throttle bounds what a connection sends, alone and together with the user's other connections on
// this server. Only the connection's reader uses it.
type throttle struct {
	shared   *Shared
	access   *Access       // an admin may send as many requests as there are
	user     *userThrottle // nil until the client has said who the user is
	requests gcra
	noop     gcra
}

// noopFrame counts a frame that asks for nothing. It returns an error if there are too many.
func (t *throttle) noopFrame() error {
	now := t.shared.Clock()
	if t.noop.take(noopLimit, now) > 0 || t.user != nil && t.user.noop.take(noopLimit, now) > 0 {
		return &ws.CloseError{Code: protocol.CloseTooMany, Text: "too many pings, pongs or fragments"}
	}
	return nil
}

// request counts a request as so many. It returns an error if there are too many, and then reports
// whether the client is to be cut off, because it goes on regardless.
func (t *throttle) request(cost int) (refusal *protocol.Error, cutOff bool) {
	limits, now := t.shared.limits.Load(), t.shared.Clock()
	p := limits.requests.times(cost)
	limit := LimitRate
	wait := t.requests.take(p, now)
	if wait == 0 && t.user != nil {
		if wait = t.user.requests.take(p, now); wait > 0 {
			t.requests.undo(p)
			limit = LimitUserRate
		}
	}
	if wait == 0 || t.access.isAdmin() {
		return nil, false
	}
	t.shared.Refused(limit)
	cutOff = t.user == nil || t.user.noop.take(noopLimit, now) > 0
	whose := "a connection"
	if limit == LimitUserRate {
		whose = "all connections of a user"
	}
	return protocol.NewError(protocol.CodeRateLimited, "%s may send %d requests a second; wait %v",
		whose, limits.Rate, roundUp(wait)), cutOff
}

// tooManyRooms returns the error of a join that would have begun a room.
func (t *throttle) tooManyRooms(wait time.Duration) error {
	return fmt.Errorf("%w: %w", room.ErrNoRoom, protocol.NewError(protocol.CodeRateLimited,
		"there is no such room, and a user may begin %d rooms a minute; wait %v",
		t.shared.limits.Load().MaxNewRooms, roundUp(wait)))
}

// roundUp returns d in whole milliseconds, so that a client that waits so long is never early.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// Users are the throttles of the users who are connected. That of a user who has gone is kept until
// nothing counts any more: otherwise a client would get a new burst by connecting again.
type Users struct {
	clock func() time.Duration

	mu     sync.Mutex
	byName map[string]*userThrottle // guarded by mu
}

// userThrottle bounds what all connections of a user send together.
type userThrottle struct {
	requests gcra
	noop     gcra // frames that ask for nothing, and requests over the rate
	newRooms gcra // rooms that the user has begun

	connections int  // guarded by Users.mu
	forgetting  bool // guarded by Users.mu: a timer will look whether it can be forgotten
}

// NewUsers returns no users, by a clock that never steps.
func NewUsers(clock func() time.Duration) *Users {
	return &Users{clock: clock, byName: make(map[string]*userThrottle)}
}

// acquire counts a connection of the user, and returns the throttle of all of them. Pair it with release.
func (u *Users) acquire(name string) *userThrottle {
	u.mu.Lock()
	defer u.mu.Unlock()
	t := u.byName[name]
	if t == nil {
		t = new(userThrottle)
		u.byName[name] = t
	}
	t.connections++
	return t
}

// Known returns of how many users something counts.
func (u *Users) Known() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.byName)
}

// Penalty returns how long a user who has sent too much of what the server does nothing for may
// not connect again. Otherwise handshakes would be as good a flood as any.
func (u *Users) Penalty(name string) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if t := u.byName[name]; t != nil {
		return roundUp(max(0, t.noop.backlog(u.clock())-noopLimit.burst/2))
	}
	return 0
}

// release is called when a connection of the user has ended.
func (u *Users) release(name string, t *userThrottle) {
	u.mu.Lock()
	defer u.mu.Unlock()
	t.connections--
	u.forgetLocked(name, t)
}

// forgetLocked removes the throttle of a user who has gone, as soon as nothing counts any more.
func (u *Users) forgetLocked(name string, t *userThrottle) {
	if t.connections > 0 || t.forgetting {
		return
	}
	now := u.clock()
	backlog := max(t.requests.backlog(now), t.noop.backlog(now), t.newRooms.backlog(now))
	if backlog == 0 {
		delete(u.byName, name)
		return
	}
	t.forgetting = true
	time.AfterFunc(backlog, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		t.forgetting = false
		u.forgetLocked(name, t)
	})
}
