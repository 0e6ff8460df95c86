package transport

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"roomd/room"
	"roomd/transport/internal/membership"
	"roomd/transport/internal/session"
)

// disconnectTimers keep the seats of users without a connection for Options.Grace, and then make the users leave. A
// leave counts only if its session is still the active session of the user: a user who came back stays. A room whose
// settings have a grace counts that itself, and needs no timer here once the user is away.
type disconnectTimers struct {
	retry           retrier
	rateLimitedLogs *rateLimitedLogs
	length          time.Duration // negative: users leave at once
	duplicate       room.Duplicate

	open context.Context // until stop
	shut context.CancelFunc
	wg   sync.WaitGroup // actions that run, or wait to be tried again

	mu      sync.Mutex
	running map[*disconnectTimer]struct{} // guarded by mu: nil once stopped
}

type disconnectTimer struct {
	user, session string
	rooms         []string
	reason        room.Reason // of the leave that follows
	timer         *time.Timer
}

func newDisconnectTimers(s *Server) *disconnectTimers {
	g := &disconnectTimers{
		retry:  retrier{s.rooms, s.life, s.opts.LeaveTimeout},
		length: s.opts.Grace, duplicate: s.opts.Duplicate, rateLimitedLogs: s.rateLimitedLogs,
		running: make(map[*disconnectTimer]struct{}),
	}
	g.open, g.shut = context.WithCancel(context.Background())
	return g
}

// begin starts the timer of a session, and makes its rooms show the user as away. A negative grace makes the user
// leave at once. After stop it starts no timer, and tells the rooms only under room.Reject: users come back elsewhere.
func (g *disconnectTimers) begin(user, session string, rooms []string) {
	one := &disconnectTimer{user: user, session: session, rooms: slices.Clone(rooms), reason: room.ReasonTimeout}
	draining := !g.start(one)
	switch {
	case g.length < 0:
	case g.duplicate == room.Reject:
		g.detach(one, rooms).Wait() // before the close frame, after which the client may come back
	case !draining:
		g.detach(one, rooms)
	}
}

// skip makes the user leave at once, because the client closed on purpose. After stop it tries the leave only once.
func (g *disconnectTimers) skip(user, session string, rooms []string) {
	g.leave(&disconnectTimer{user: user, session: session, rooms: rooms, reason: room.ReasonLeft})
}

// start starts a timer, or ends it at once if the grace is negative. It reports false after stop.
func (g *disconnectTimers) start(one *disconnectTimer) bool {
	if len(one.rooms) == 0 {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running == nil {
		return false
	}
	g.running[one] = struct{}{}
	if g.length < 0 {
		g.endLocked(one)
		return true
	}
	g.armLocked(one, g.length)
	return true
}

func (g *disconnectTimers) armLocked(one *disconnectTimer, length time.Duration) {
	one.timer = time.AfterFunc(length, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.endLocked(one)
	})
}

// has reports whether the session has a timer for a room, even one that is not started yet.
func (g *disconnectTimers) has(room, session string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for one := range g.running {
		if one.session == session && slices.Contains(one.rooms, room) {
			return true
		}
	}
	return false
}

func (g *disconnectTimers) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.running)
}

// endLocked makes the user of a timer leave its rooms, unless stop came first.
func (g *disconnectTimers) endLocked(one *disconnectTimer) {
	if _, due := g.running[one]; !due {
		return
	}
	delete(g.running, one)
	g.leave(one)
}

// leave makes the user of a timer leave its rooms, in goroutines. After stop it does not retry.
func (g *disconnectTimers) leave(one *disconnectTimer) {
	for _, id := range one.rooms {
		g.wg.Go(func() {
			leave := room.Leave{User: one.user, Session: one.session, Reason: one.reason}
			if _, err := g.retry.do(g.open, id, leave, func() {}); err != nil {
				g.rateLimitedLogs.notRemoved.Happened(err, "room", id, "user", one.user)
			}
		})
	}
}

// detach marks the user of a timer as away in rooms, since the connection has ended; another session may then take
// over. It retries until the grace is over or stop is called. The returned group waits until each room was tried once.
func (g *disconnectTimers) detach(one *disconnectTimer, rooms []string) (first *sync.WaitGroup) {
	first = new(sync.WaitGroup)
	for _, id := range rooms {
		first.Add(1)
		g.wg.Go(func() {
			tried := sync.OnceFunc(first.Done)
			defer tried()
			ctx, cancel := context.WithTimeout(g.open, max(g.length, 0))
			defer cancel()
			result, err := g.retry.do(ctx, id, room.Detach{User: one.user, Session: one.session}, tried)
			if err != nil {
				g.rateLimitedLogs.notDetached.Happened(err, "room", id, "user", one.user)
			} else if result.Settings.Grace != 0 {
				g.drop(one, id)
			}
		})
	}
	return first
}

// drop ends a timer for one room.
func (g *disconnectTimers) drop(one *disconnectTimer, id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one.rooms = slices.DeleteFunc(one.rooms, func(other string) bool { return other == id })
	if len(one.rooms) == 0 && one.timer != nil {
		one.timer.Stop()
		delete(g.running, one)
	}
}

// stop ends all timers without a leave, and all retries.
func (g *disconnectTimers) stop() {
	g.shut()
	g.mu.Lock()
	defer g.mu.Unlock()
	for one := range g.running {
		if one.timer != nil {
			one.timer.Stop()
		}
	}
	g.running = nil
}

// wait returns when no action runs. Call it after stop.
func (g *disconnectTimers) wait() { g.wg.Wait() }

// retrier runs actions until they have an answer.
type retrier struct {
	rooms   Rooms
	life    context.Context // of all attempts
	timeout time.Duration   // of one attempt
}

// do runs an action until it has an answer, at least once. The end of ctx ends only the retries. do calls tried after
// each attempt. ErrNotMember is success: the user came back with another session, or has left.
func (r *retrier) do(ctx context.Context, id string, action room.Action, tried func()) (room.Result, error) {
	backoff := session.NewBackoff()
	for {
		attempt, cancel := context.WithTimeout(r.life, r.timeout)
		result, err := r.rooms.Do(attempt, id, action)
		cancel()
		tried()
		switch {
		case errors.Is(err, room.ErrNotMember):
			return result, nil
		case !membership.IsTransient(err), backoff.Wait(ctx) != nil:
			return result, err
		}
	}
}
