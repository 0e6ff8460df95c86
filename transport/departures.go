package transport

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"roomd/room"
)

// departures are the sessions whose connections have ended. Their users keep the
// seats for a grace, and then leave; but a leave counts only if its session still
// speaks for the user, so who comes back in time, here or through another node,
// stays. It is tried until it has an answer.
type departures struct {
	rooms    Rooms
	troubles *troubles
	grace    time.Duration   // less than zero for none
	timeout  time.Duration   // of one attempt
	life     context.Context // of attempts

	open context.Context // until stop: of everything that waits
	shut context.CancelFunc
	wg   sync.WaitGroup // actions that run or wait to be tried again

	mu      sync.Mutex
	pending map[*departure]struct{} // guarded by mu; nil once stopped
}

// departure is one session on its way out.
type departure struct {
	user, session string
	rooms         []string
	timer         *time.Timer
}

func newDepartures(s *Server) *departures {
	d := &departures{
		rooms: s.rooms, grace: s.opts.Grace, timeout: s.opts.LeaveTimeout, life: s.life, troubles: s.troubles,
		pending: make(map[*departure]struct{}),
	}
	d.open, d.shut = context.WithCancel(context.Background())
	return d
}

// add begins the grace of a session. After stop it does nothing.
func (d *departures) add(user, session string, rooms []string) {
	if len(rooms) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending == nil {
		return
	}
	gone := &departure{user: user, session: session, rooms: rooms}
	d.pending[gone] = struct{}{}
	if d.grace < 0 {
		d.leaveLocked(gone)
		return
	}
	gone.timer = time.AfterFunc(d.grace, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.leaveLocked(gone)
	})
}

// claim reports whether a session has its grace in a room.
func (d *departures) claim(room, session string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for gone := range d.pending {
		if gone.session == session && slices.Contains(gone.rooms, room) {
			return true
		}
	}
	return false
}

// leaveLocked lets a session leave its rooms, unless stop has come first.
func (d *departures) leaveLocked(gone *departure) {
	if _, due := d.pending[gone]; !due {
		return
	}
	delete(d.pending, gone)
	for _, id := range gone.rooms {
		d.wg.Go(func() {
			if err := d.insist(d.open, id, room.Leave(gone.user, gone.session), func() {}); err != nil {
				d.troubles.stays.Happened(err, "room", id, "user", gone.user)
			}
		})
	}
}

// detach says in the rooms that the session is not there any more, so that its
// user can come back with another one, and returns when that was tried once. What
// failed goes on being tried until the grace is over, or stop.
func (d *departures) detach(user, session string, rooms []string) {
	var first sync.WaitGroup
	for _, id := range rooms {
		first.Add(1)
		d.wg.Go(func() {
			tried := sync.OnceFunc(first.Done)
			defer tried()
			ctx, cancel := context.WithTimeout(d.open, max(d.grace, 0))
			defer cancel()
			if err := d.insist(ctx, id, room.Detach(user, session), tried); err != nil {
				d.troubles.attached.Happened(err, "room", id, "user", user)
			}
		})
	}
	first.Wait()
}

// insist runs an action until it has an answer, or ctx ends, which does not break
// off the attempt that runs. It calls tried after each.
func (d *departures) insist(ctx context.Context, id string, action room.Action, tried func()) error {
	var pause backoff
	for {
		attempt, cancel := context.WithTimeout(d.life, d.timeout)
		_, err := d.rooms.Do(attempt, id, action)
		cancel()
		tried()
		switch {
		case errors.Is(err, room.ErrNotMember):
			return nil // came back, or left
		case !passing(err), !pause.wait(ctx):
			return err
		}
	}
}

// stop ends the grace of all sessions without their leaving.
func (d *departures) stop() {
	d.shut()
	d.mu.Lock()
	defer d.mu.Unlock()
	for gone := range d.pending {
		if gone.timer != nil {
			gone.timer.Stop()
		}
	}
	d.pending = nil
}
