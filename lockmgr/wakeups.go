package lockmgr

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"roomd/lockmgr/redisconn/pubsub"
)

// linger is how long a process stays subscribed to a lock's wake-ups after its last waiter left.
const linger = 10 * time.Second

// grant is a new hold.
type grant struct {
	token string // has the lock
	fence int64
	since time.Time     // not later than Redis gave the hold; has a monotonic reading
	lasts time.Duration // from since
}

// remaining returns how much longer the hold can be trusted.
func (g *grant) remaining() time.Duration { return g.lasts - time.Since(g.since) }

// isOver reports whether the hold ended before anybody used it: its reply or wake-up was under way for too long.
func (g *grant) isOver() bool { return g.remaining() <= 0 }

// wakeUp says that a token has the lock. lock_queue publishes it as "<fence> <ms> <token>".
type wakeUp struct {
	fence int64
	claim time.Duration // how long the lock is reserved for the token
	token string
}

func parseWakeUp(payload string) (w wakeUp, ok bool) {
	fence, rest, _ := strings.Cut(payload, " ")
	claim, token, ok := strings.Cut(rest, " ")
	number, err1 := strconv.ParseInt(fence, 10, 64)
	ms, err2 := strconv.ParseInt(claim, 10, 32)
	ok = ok && err1 == nil && err2 == nil && ms > 0
	return wakeUp{number, time.Duration(ms) * time.Millisecond, token}, ok
}

// parseReply parses the reply of a script that may give a token the lock. It returns the fence if the token got the
// lock, otherwise the script's other answer, such as a position, or "".
func parseReply(reply any) (fence, instead string) {
	switch reply := reply.(type) {
	case string:
		return reply, ""
	case []any:
		if len(reply) > 0 {
			instead, _ = reply[0].(string)
		}
	}
	return "", instead
}

// parseNumber parses a number from lock_number or lock_queue; 0 if the text is no number.
func parseNumber(text string) int64 {
	number, _ := strconv.ParseFloat(text, 64) // exact: it has 16 digits. Redis may format a score as a float
	return int64(number)
}

// wakeUps delivers wake-ups to the waiting slots of this process.
type wakeUps struct {
	hub     *pubsub.Hub
	channel func(name string) string

	mu     sync.Mutex
	locks  map[string]*listener // guarded by mu: locks with waiters, now or during the last linger
	closed bool                 // guarded by mu
}

// listenState says whether a slot gets wake-ups.
type listenState int

const (
	notListening listenState = iota
	listening
	stoppedListening
)

// listener receives the wake-ups of one lock. All fields are guarded by wakeUps.mu.
type listener struct {
	name  string
	slots []*Slot
	sub   *pubsub.Subscription
	idle  *time.Timer // runs while nobody waits
}

func (u *wakeUps) init(hub *pubsub.Hub, channel func(name string) string) {
	u.hub, u.channel, u.locks = hub, channel, make(map[string]*listener)
}

// add delivers the lock's wake-ups to s from now on. Call it with subscribe false before the request that may
// put the token into the queue: the wake-up may overtake the reply, and s gets it if the process is subscribed
// already. Call it with subscribe true after that request. add does not wait for the subscription; wake-ups
// published before it is active are lost.
func (u *wakeUps) add(s *Slot, subscribe bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	l := u.locks[s.name]
	if u.closed || s.listens != notListening || l == nil && !subscribe {
		return
	}
	s.listens = listening
	if l == nil {
		l = &listener{name: s.name}
		l.sub = u.hub.Subscribe(u.channel(s.name), pubsub.Handler{
			Message:     func(payload string) { u.wake(l, payload) },
			Interrupted: func() { u.interrupted(l) },
		})
		u.locks[s.name] = l
	}
	if l.idle != nil {
		l.idle.Stop()
		l.idle = nil
	}
	l.slots = append(l.slots, s)
}

// hears reports whether s now gets a wake-up when its token has the lock.
func (u *wakeUps) hears(s *Slot) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	l := u.locks[s.name]
	return s.listens == listening && l != nil && l.sub.IsActive()
}

// remove stops the wake-ups of s for good. The subscription stays for a while, because a process that has
// waited for a lock often does so again soon.
func (u *wakeUps) remove(s *Slot) {
	u.mu.Lock()
	defer u.mu.Unlock()
	heard, l := s.listens == listening, u.locks[s.name]
	s.listens = stoppedListening
	if !heard || l == nil {
		return
	}
	l.slots = slices.DeleteFunc(l.slots, func(other *Slot) bool { return other == s })
	if len(l.slots) == 0 && l.idle == nil {
		l.idle = time.AfterFunc(linger, func() { u.forget(l) })
	}
}

// forget unsubscribes a listener that has no slots.
func (u *wakeUps) forget(l *listener) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(l.slots) == 0 && u.locks[l.name] == l {
		delete(u.locks, l.name)
		l.sub.Close()
	}
}

// wake passes a wake-up to the slot with its token.
func (u *wakeUps) wake(l *listener, payload string) {
	w, ok := parseWakeUp(payload)
	if !ok {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range l.slots {
		if s.wake(w) {
			return
		}
	}
}

// interrupted makes the slots ask at once, because wake-ups may be lost.
func (u *wakeUps) interrupted(l *listener) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range l.slots {
		s.grant(nil)
	}
}

func (u *wakeUps) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for _, l := range u.locks {
		if l.idle != nil {
			l.idle.Stop()
		}
		l.sub.Close()
	}
	clear(u.locks)
}
