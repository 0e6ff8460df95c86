package transport

import (
	"sync"
	"time"
)

// users are the throttles of the users who are connected. That of a user who has gone is kept until
// nothing counts any more: otherwise a client would get a new burst by connecting again.
type users struct {
	clock func() time.Duration

	mu     sync.Mutex
	byName map[string]*userThrottle // guarded by mu
}

// userThrottle bounds what all connections of a user send together.
type userThrottle struct {
	requests gcra
	noop     gcra // frames that ask for nothing, and requests over the rate
	newRooms gcra // rooms that the user has begun

	connections int  // guarded by users.mu
	forgetting  bool // guarded by users.mu: a timer will look whether it can be forgotten
}

func newUsers(clock func() time.Duration) *users {
	return &users{clock: clock, byName: make(map[string]*userThrottle)}
}

// acquire counts a connection of the user, and returns the throttle of all of them. Pair it with release.
func (u *users) acquire(name string) *userThrottle {
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

// penalty returns how long a user who has sent too much of what the server does nothing for may
// not connect again. Otherwise handshakes would be as good a flood as any.
func (u *users) penalty(name string) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if t := u.byName[name]; t != nil {
		return max(0, t.noop.backlog(u.clock())-noopLimit.burst/2)
	}
	return 0
}

// release is called when a connection of the user has ended.
func (u *users) release(name string, t *userThrottle) {
	u.mu.Lock()
	defer u.mu.Unlock()
	t.connections--
	u.forgetLocked(name, t)
}

// forgetLocked removes the throttle of a user who has gone, as soon as nothing counts any more.
func (u *users) forgetLocked(name string, t *userThrottle) {
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
