package transport

import (
	"sync/atomic"
	"time"

	"roomd/transport/protocol"
)

const (
	// spareRate and spareBurst bound what the server does nothing for, because reading and refusing
	// it costs something, too: pings, pongs, all fragments of a message but the first, and requests
	// over the rate. They bound it per second, and at once, for a connection and for a user: who
	// connects again gets no new burst.
	spareRate  = 100
	spareBurst = 256
)

// pace is how often something may happen. The zero value sets no limit.
type pace struct {
	interval time.Duration // between two, on average
	debt     time.Duration // the intervals of those that may happen at once
}

func newPace(perSecond, burst int) pace {
	interval := time.Second / time.Duration(perSecond)
	return pace{interval, interval * time.Duration(burst)}
}

var sparePace = newPace(spareRate, spareBurst)

// times returns the pace of what counts as much as n of these, or as all that may happen at once.
func (p pace) times(n int) pace {
	p.interval = min(p.interval*time.Duration(n), p.debt)
	return p
}

// bucket counts what happens at a pace. A rate.Limiter of x/time takes 80 bytes in place of 8. And
// it loses tokens when several connections of a user reserve and cancel at the same time, so that
// refused requests would count.
type bucket struct {
	paid atomic.Int64 // the time at which all that has happened no longer counts
}

// take counts one, and returns 0. If there have been too many, it counts none, and returns how long
// to wait. The time is that of a clock that never steps.
func (b *bucket) take(p pace, now time.Duration) (wait time.Duration) {
	if p.interval == 0 {
		return 0
	}
	for {
		old := b.paid.Load()
		paid := min(max(time.Duration(old), now), now+p.debt) + p.interval // at another pace there may have been more
		if wait := paid - now - p.debt; wait > 0 {
			return wait
		}
		if b.paid.CompareAndSwap(old, int64(paid)) {
			return 0
		}
	}
}

// giveBack undoes a take.
func (b *bucket) giveBack(p pace) { b.paid.Add(-int64(p.interval)) }

// debt returns how long what has happened still counts.
func (b *bucket) debt(now time.Duration) time.Duration {
	return max(0, time.Duration(b.paid.Load())-now)
}

// throttle bounds what a connection sends, alone and together with the user's other connections on
// this server. Only the connection's reader uses it.
type throttle struct {
	server   *Server
	isAdmin  func() bool   // of an admin there may be as many requests as there are
	user     *userThrottle // nil until the client has said who the user is
	requests bucket
	spare    bucket
}

// spareFrame counts a frame that asks for nothing. It reports false if there are too many.
func (t *throttle) spareFrame() bool {
	now := t.server.clock()
	return t.spare.take(sparePace, now) == 0 && (t.user == nil || t.user.spare.take(sparePace, now) == 0)
}

// request counts a request as so many. It returns an error if there are too many, and then reports
// whether the client is to be cut off, because it goes on regardless.
func (t *throttle) request(cost int) (refusal *protocol.Error, cutOff bool) {
	limits, now := t.server.limits.Load(), t.server.clock()
	p := limits.pace.times(cost)
	limit := LimitRate
	wait := t.requests.take(p, now)
	if wait == 0 && t.user != nil {
		if wait = t.user.requests.take(p, now); wait > 0 {
			t.requests.giveBack(p)
			limit = LimitUserRate
		}
	}
	if wait == 0 || t.isAdmin() {
		return nil, false
	}
	t.server.opts.Trace.refused(limit)
	cutOff = t.user == nil || t.user.spare.take(sparePace, now) > 0
	whose := "a connection"
	if limit == LimitUserRate {
		whose = "all connections of a user"
	}
	return protocol.NewError(protocol.CodeRateLimited, "%s may send %d requests a second; wait %v",
		whose, limits.rate, roundUp(wait)), cutOff
}

// newRoom counts a room that the user may begin with a join. If there have been too many, it counts none,
// and returns how long to wait.
func (t *throttle) newRoom(p pace) (wait time.Duration) {
	if t.user == nil {
		return 0
	}
	return t.user.newRooms.take(p, t.server.clock())
}

// noNewRoom undoes newRoom: the join has begun none.
func (t *throttle) noNewRoom(p pace) {
	if t.user != nil {
		t.user.newRooms.giveBack(p)
	}
}

// tooManyRooms refuses a join that would have begun a room.
func (t *throttle) tooManyRooms(wait time.Duration) error {
	t.server.opts.Trace.refused(LimitNewRooms)
	return protocol.NewError(protocol.CodeRateLimited, "there is no such room, and a user may begin %d rooms a minute; wait %v",
		t.server.limits.Load().maxNewRooms, roundUp(wait))
}

// roundUp returns d in whole milliseconds, so that a client that waits so long is never early.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}
