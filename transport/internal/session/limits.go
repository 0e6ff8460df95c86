package session

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"roomd/room"
	"roomd/transport/auth"
	"roomd/transport/internal/ws"
	"roomd/transport/protocol"
)

const (
	// NoopRate, per second, and NoopBurst, at once, limit frames that carry out no request but cost time. Pings,
	// pongs and all fragments but the first count for the connection and for its user, requests over the rate for the
	// user only. So a new connection brings no new burst.
	NoopRate  = 100
	NoopBurst = 256
)

// NewClock returns a monotonic clock for limits, which starts at zero.
func NewClock() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}

// rateLimit is the limit of a rate. The zero value sets none.
type rateLimit struct {
	interval time.Duration // between two requests, on average
	burst    time.Duration // interval times the size of a burst
}

// newRateLimit returns the limit of a rate; none if perSecond is negative.
func newRateLimit(perSecond, burst int) rateLimit {
	if perSecond < 0 {
		return rateLimit{}
	}
	interval := time.Second / time.Duration(perSecond)
	return rateLimit{interval, interval * time.Duration(burst)}
}

var noopLimit = newRateLimit(NoopRate, NoopBurst)

// times scales l for a request that costs n, capped at the burst.
func (l rateLimit) times(n int) rateLimit {
	l.interval = min(l.interval*time.Duration(n), l.burst)
	return l
}

// gcra counts against a limit by the generic cell rate algorithm (ITU-T I.371). A rate.Limiter of x/time takes 80
// bytes in place of 8, and loses tokens when several connections reserve and cancel at once: refused requests would
// count.
type gcra struct {
	arrival atomic.Int64 // the theoretical arrival time
}

// take counts one request, and returns 0. If that is too many, it only returns how long to wait. now is monotonic.
func (g *gcra) take(l rateLimit, now time.Duration) (wait time.Duration) {
	if l.interval == 0 {
		return 0
	}
	for {
		old := g.arrival.Load()
		arrival := max(time.Duration(old), now) + l.interval
		if wait := arrival - now - l.burst; wait > 0 {
			return wait
		}
		if g.arrival.CompareAndSwap(old, int64(arrival)) {
			return 0
		}
	}
}

func (g *gcra) undo(l rateLimit) { g.arrival.Add(-int64(l.interval)) }

// wait returns how long take would make the caller wait. It counts nothing.
func (g *gcra) wait(l rateLimit, now time.Duration) time.Duration {
	if l.interval == 0 {
		return 0
	}
	return max(0, g.backlog(now)+l.interval-l.burst)
}

// backlog returns how far the theoretical arrival time is ahead.
func (g *gcra) backlog(now time.Duration) time.Duration {
	return max(0, time.Duration(g.arrival.Load())-now)
}

// throttle bounds a connection's requests, and all requests of its user to this node. Only the reader uses it.
type throttle struct {
	shared   *Shared
	access   *Access       // admins have no limit of requests
	user     *userThrottle // nil while unauthenticated
	requests gcra
	noop     gcra
}

// noopFrame counts a frame without a request. It returns an error if there are too many.
func (t *throttle) noopFrame() error {
	now := t.shared.Clock()
	if t.noop.take(noopLimit, now) > 0 || t.user != nil && t.user.noop.take(noopLimit, now) > 0 {
		return &ws.CloseError{Code: protocol.CloseTooMany, Text: "too many pings, pongs or fragments"}
	}
	return nil
}

// request counts a request by its cost. Too many are an error, except from admins; cutOff says to end the connection.
func (t *throttle) request(cost int) (refusal *protocol.Error, cutOff bool) {
	limits, now := t.shared.Limits, t.shared.Clock()
	p := newRateLimit(limits.Rate, limits.Burst).times(cost)
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

func (t *throttle) tooManyRooms(wait time.Duration) error {
	return fmt.Errorf("%w: %w", room.ErrNoRoom, protocol.NewError(protocol.CodeRateLimited,
		"there is no such room, and a user may begin %d rooms a minute; wait %v",
		t.shared.Limits.MaxNewRooms, roundUp(wait)))
}

// roundUp returns d in whole milliseconds, so that a client that waits this long is never early.
func roundUp(d time.Duration) time.Duration {
	return (d + time.Millisecond - 1).Truncate(time.Millisecond)
}

// Users are the throttles of users. A throttle outlives the user's last connection until its limits have recovered, so
// that a new connection brings no new burst.
type Users struct {
	clock func() time.Duration

	mu     sync.Mutex
	byName map[string]*userThrottle // guarded by mu
}

// userThrottle bounds the requests and other frames of all connections of a user together.
type userThrottle struct {
	requests gcra
	noop     gcra // frames without a request, and requests over the rate
	newRooms gcra // rooms that the user created

	connections int  // guarded by Users.mu
	forgetting  bool // guarded by Users.mu: a timer of forgetLocked runs
}

// NewUsers returns an empty set, with a monotonic clock.
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

// Known returns how many users have a throttle.
func (u *Users) Known() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.byName)
}

// Penalty returns how long a user with too many no-op frames may not connect: handshakes would be a flood as well.
func (u *Users) Penalty(name string) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if t := u.byName[name]; t != nil {
		return roundUp(max(0, t.noop.backlog(u.clock())-noopLimit.burst/2))
	}
	return 0
}

// release undoes acquire.
func (u *Users) release(name string, t *userThrottle) {
	u.mu.Lock()
	defer u.mu.Unlock()
	t.connections--
	u.forgetLocked(name, t)
}

// forgetLocked removes the throttle of a disconnected user, as soon as its limits have recovered.
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

// Access has the rights that a connection's token grants, and their end. It is nil if the server has no key for tokens.
type Access struct {
	verifier *auth.Verifier
	named    string // the user that the URL names; "" for none
	conn     Conn
	late     func() // called when no token came in time

	mu      sync.Mutex
	granted auth.Identity // guarded by mu: by the newest token; zero before the first
	timer   *time.Timer   // guarded by mu: ends the connection at its deadline; nil before start and after stop
}

// NewAccess returns the access of a connection that has shown no token yet. named is the user in its URL, or "".
func NewAccess(verifier *auth.Verifier, named string) *Access {
	return &Access{verifier: verifier, named: named}
}

// Show verifies the token of the handshake, and returns its user, or a *protocol.Error.
func (a *Access) Show(token string) (user string, err error) {
	a.granted, err = a.verify(token)
	return a.granted.User, err
}

// verify returns the identity in a token, or a *protocol.Error. A user in ?user= must be the token's.
func (a *Access) verify(token string) (auth.Identity, error) {
	identity, err := a.verifier.Verify(token)
	if err != nil {
		return auth.Identity{}, protocol.NewError(protocol.CodeUnauthorized, "%v", err)
	}
	if a.named != "" && a.named != identity.User {
		return auth.Identity{}, protocol.NewError(protocol.CodeUnauthorized,
			"the token is not for the user that ?user= names")
	}
	return identity, nil
}

// start limits the connection's time: to its token's, or to timeout if it has none yet.
func (a *Access) start(timeout time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.granted.User == "" {
		a.timer = time.AfterFunc(timeout, func() {
			a.late()
			a.conn.End(protocol.CloseUnauthorized, "no token came in time")
		})
		return
	}
	a.timer = time.AfterFunc(time.Until(a.granted.Expires), a.expire)
}

func (a *Access) expire() { a.conn.End(protocol.CloseUnauthorized, "the token has expired") }

// stop ends the time limit of a connection that has ended.
func (a *Access) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer.Stop()
	a.timer = nil
}

// renew replaces the granted identity by the one in a newer token, which must be for the same user. It fails with a
// *protocol.Error.
func (a *Access) renew(token string) (auth.Identity, error) {
	identity, err := a.verify(token)
	if err != nil {
		return auth.Identity{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if user := a.granted.User; user != "" && user != identity.User {
		return auth.Identity{}, protocol.NewError(protocol.CodeUnauthorized,
			"the token is for another user than this connection's")
	}
	a.granted = identity
	a.timer.Stop()
	a.timer = time.AfterFunc(time.Until(identity.Expires), a.expire)
	return identity, nil
}

// fresh returns an error if the client needs a token, and has none yet, or an expired one, which ends the connection.
func (a *Access) fresh() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	granted := a.granted
	a.mu.Unlock()
	switch {
	case granted.User == "":
		return protocol.NewError(protocol.CodeUnauthorized, "the first request must be auth, with a token")
	case !time.Now().Before(granted.Expires): // after a step of the clock the timer is late
		a.expire()
		return protocol.NewError(protocol.CodeUnauthorized, "the token has expired")
	}
	return nil
}

// identity returns the identity in the newest token; zero without tokens.
func (a *Access) identity() auth.Identity {
	if a == nil {
		return auth.Identity{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.granted
}

func (a *Access) isAdmin() bool { return a.identity().Role == auth.RoleAdmin }

// viewer returns the client's rights to see a room.
func (s *Session) viewer(id string) room.Viewer {
	granted := s.access.identity()
	return granted.Viewer(s.User, id)
}
