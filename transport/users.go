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
	requests bucket
	spare    bucket // frames that ask for nothing, and requests over the rate
	newRooms bucket // rooms that the user has begun

	connections int  // guarded by users.mu
	forgetting  bool // guarded by users.mu: a timer will look whether it can be forgotten
}

func newUsers(clock func() time.Duration) *users {
	return &users{clock: clock, byName: make(map[string]*userThrottle)}
}

// enter returns the throttle of a user with one more connection, which has to leave.
func (u *users) enter(name string) *userThrottle {
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
		return max(0, t.spare.debt(u.clock())-sparePace.debt/2)
	}
	return 0
}

// leave is called when a connection of a user has ended.
func (u *users) leave(name string, t *userThrottle) {
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
	debt := max(t.requests.debt(now), t.spare.debt(now), t.newRooms.debt(now))
	if debt == 0 {
		delete(u.byName, name)
		return
	}
	t.forgetting = true
	time.AfterFunc(debt, func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		t.forgetting = false
		u.forgetLocked(name, t)
	})
}
