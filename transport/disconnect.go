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

// disconnectTimers have the sessions whose connections have ended, and whose users keep their seats for
// Options.Grace. Then they leave; but a leave counts only if its session still speaks for the
// user, so a user who has come back, here or through another node, stays.
type disconnectTimers struct {
	retry           retrier
	rateLimitedLogs *rateLimitedLogs
	length          time.Duration // less than zero for none
	duplicate       room.Duplicate

	open context.Context // until stop
	shut context.CancelFunc
	wg   sync.WaitGroup // actions that run, or wait to be tried again

	mu      sync.Mutex
	running map[*disconnectTimer]struct{} // guarded by mu: nil once stopped
}

// disconnectTimer is that of one session.
type disconnectTimer struct {
	user, session string
	rooms         []string
	reason        room.Reason // of the leave behind it
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

// begin begins the grace of a session: the user is away until then. After stop nobody leaves
// any more, and others see nothing of it: the node restarts, and its users come back elsewhere.
func (g *disconnectTimers) begin(user, session string, rooms []string) {
	draining := !g.start(&disconnectTimer{user: user, session: session, rooms: rooms, reason: room.ReasonTimeout})
	switch {
	case g.length < 0:
	case g.duplicate == room.Reject:
		g.detach(user, session, rooms).Wait() // before the close frame, after which the client may come back
	case !draining:
		g.detach(user, session, rooms)
	}
}

// skip has the user of a session leave at once, because the user wanted to. After stop it tries that once only.
func (g *disconnectTimers) skip(user, session string, rooms []string) {
	g.leave(&disconnectTimer{user: user, session: session, rooms: rooms, reason: room.ReasonLeft})
}

// start starts a grace, or ends it at once if there is to be none. It reports false after stop.
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

// armLocked ends a grace after a time.
func (g *disconnectTimers) armLocked(one *disconnectTimer, length time.Duration) {
	one.timer = time.AfterFunc(length, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.endLocked(one)
	})
}

// has reports whether a session has its grace in a room.
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

// endLocked ends a grace: the user leaves its rooms, unless stop came first.
func (g *disconnectTimers) endLocked(one *disconnectTimer) {
	if _, due := g.running[one]; !due {
		return
	}
	delete(g.running, one)
	g.leave(one)
}

// leave has a user leave rooms. What fails is tried again, until stop.
func (g *disconnectTimers) leave(one *disconnectTimer) {
	for _, id := range one.rooms {
		g.wg.Go(func() {
			leave := room.Leave{User: one.user, Session: one.session, Reason: one.reason}
			if err := g.retry.do(g.open, id, leave, func() {}); err != nil {
				g.rateLimitedLogs.notRemoved.Happened(err, "room", id, "user", one.user)
			}
		})
	}
}

// detach records in the rooms that the session's connection has ended: others see that the user
// is away, and the user can come back with another session. What fails is tried again until the
// grace is over, or stop. The group that it returns waits until all was tried once.
func (g *disconnectTimers) detach(user, session string, rooms []string) (first *sync.WaitGroup) {
	first = new(sync.WaitGroup)
	for _, id := range rooms {
		first.Add(1)
		g.wg.Go(func() {
			tried := sync.OnceFunc(first.Done)
			defer tried()
			ctx, cancel := context.WithTimeout(g.open, max(g.length, 0))
			defer cancel()
			if err := g.retry.do(ctx, id, room.Detach{User: user, Session: session}, tried); err != nil {
				g.rateLimitedLogs.notDetached.Happened(err, "room", id, "user", user)
			}
		})
	}
	return first
}

// stop ends all timers. Their users do not leave.
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

// wait returns when no action runs. It is called after stop.
func (g *disconnectTimers) wait() { g.wg.Wait() }

// retrier runs actions until they have an answer.
type retrier struct {
	rooms   Rooms
	life    context.Context // of attempts
	timeout time.Duration   // of one attempt
}

// do runs an action until it has an answer, or ctx ends; an attempt that runs then is not
// broken off. It calls tried after each attempt. That the user is not a member is no error:
// the user came back with another session, or has left.
func (r *retrier) do(ctx context.Context, id string, action room.Action, tried func()) error {
	backoff := session.NewBackoff()
	for {
		attempt, cancel := context.WithTimeout(r.life, r.timeout)
		_, err := r.rooms.Do(attempt, id, action)
		cancel()
		tried()
		switch {
		case errors.Is(err, room.ErrNotMember):
			return nil
		case !membership.IsTransient(err), backoff.Wait(ctx) != nil:
			return err
		}
	}
}
