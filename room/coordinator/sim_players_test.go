package coordinator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"roomd/room"
)

// simPlayer is a user who joins and leaves a room, sets its data and says something, by whichever node answers.
type simPlayer struct {
	w          *simWorld
	user, room string
	rng        *rand.Rand
	node       int
	known      simPosition // of the room, as the player saw it last

	mu      sync.Mutex
	session string // guarded by mu: of the last join that may have succeeded; "" if the player is not in the room for certain
	renamed bool   // guarded by mu: the node of the session has a new name

	// older are the sessions before, the last one at the end, while it is not certain that the joins after them were done.
	older []string // guarded by mu
}

// simRefusals are how the players' requests may be refused.
var simRefusals = map[error]string{
	room.ErrFull: "full", room.ErrNotMember: "not a member", room.ErrConflict: "conflict", room.ErrBusy: "busy",
	room.ErrUnavailable: "unavailable", room.ErrDuplicate: "duplicate", room.ErrClosed: "closed", context.DeadlineExceeded: "given up",
}

// do runs an action by a node, and records it.
func (w *simWorld) do(a simAction, limit time.Duration, run func(ctx context.Context, c *Coordinator) (room.Result, error)) *simAction {
	a.begun = time.Now()
	ctx, cancel := context.WithTimeout(w.open, limit)
	defer cancel()
	recorded := &a
	w.record.mu.Lock()
	recorded.outcome = simUnknown // until it has ended
	w.record.actions = append(w.record.actions, recorded)
	w.record.mu.Unlock()
	r, err := run(ctx, w.nodes[a.node])
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	recorded.ended, recorded.view = time.Now(), simViewOf(r)
	recorded.outcome, recorded.why = simOutcome(err)
	return recorded
}

func simOutcome(err error) (outcome, why string) {
	if err == nil {
		return simDone, ""
	}
	if errors.Is(err, room.ErrUnknown) {
		return simUnknown, err.Error()
	}
	for reason, name := range simRefusals {
		if errors.Is(err, reason) && reason != room.ErrClosed { // a duplicate or a foreign key are other things, too
			return simRefused, name
		}
	}
	return simRefused, err.Error()
}

func simViewOf(r room.Result) simView {
	v := simSnapshot(r.Snapshot)
	v.seat = r.Seat
	return v
}

func simSnapshot(s room.Snapshot) simView {
	var list []string
	for _, u := range s.Users() {
		list = append(list, simOccupant(u.User, u.Seat, u.Away))
	}
	return simView{simPosition: simPosition{s.Epoch, s.Version}, list: strings.Join(list, " "), data: s.Data}
}

// play acts until the context ends.
func (p *simPlayer) play(ctx context.Context) {
	for ctx.Err() == nil {
		pause := time.Duration(p.rng.ExpFloat64() * float64(p.w.pace))
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		p.act(p.limit())
	}
}

// limit returns for how long the player waits.
func (p *simPlayer) limit() time.Duration {
	if p.rng.IntN(8) == 0 {
		return time.Duration(p.rng.Int64N(int64(2 * time.Second)))
	}
	return time.Minute
}

func (p *simPlayer) act(limit time.Duration) {
	session, renamed := p.now()
	var a *simAction
	switch n := p.rng.IntN(10); {
	case renamed && session != "":
		a = p.keep(limit, session)
	case n < 2:
		a = p.setData(limit)
	case n < 3:
		a = p.setTimer(limit)
	case n < 4:
		a = p.say(limit)
	case n < 5:
		a = p.read(limit)
	case session == "" || n < 6:
		a = p.join(limit)
	default:
		a = p.leave(limit, session)
	}
	if a.view.Epoch != "" {
		p.known = a.view.simPosition
	}
	if a.why == "unavailable" || a.outcome == simUnknown || a.why == "busy" || p.w.isDead(p.node) {
		p.moveTo(p.rng.IntN(simNodes))
	}
}

// moveTo has the player go on at another node. Watchers read which one it is.
func (p *simPlayer) moveTo(node int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.node = node
}

func (p *simPlayer) now() (session string, renamed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.session, p.renamed
}

func (p *simPlayer) set(session string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session, p.older, p.renamed = session, nil, false
}

// leftOut makes the session the active one that was it before, since the room does not know the last one.
func (p *simPlayer) leftOut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.session, p.renamed = "", false
	if n := len(p.older); n > 0 {
		p.session, p.older = p.older[n-1], p.older[:n-1]
	}
}

// has reports whether the player may have that session.
func (p *simPlayer) has(session string) bool {
	now, _ := p.now()
	return now == session
}

func (p *simPlayer) action(kind string) simAction {
	return simAction{kind: kind, user: p.user, room: p.room, node: p.node}
}

func (p *simPlayer) join(limit time.Duration) *simAction {
	a := p.action("join")
	a.session = p.w.name("s")
	p.mu.Lock()
	before, older := p.session, p.older
	p.mu.Unlock()
	p.set(a.session)
	done := p.w.do(a, limit, func(ctx context.Context, c *Coordinator) (room.Result, error) {
		return c.Do(ctx, p.room, room.Join{User: p.user, Session: a.session, Begin: &room.Settings{Capacity: simSeats, Host: room.HostLongest}})
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	switch done.outcome {
	case simRefused:
		p.session, p.older, p.renamed = before, older, false
	case simUnknown:
		p.older = append(slices.Clip(older), before)
	}
	return done
}

func (p *simPlayer) leave(limit time.Duration, session string) *simAction {
	a := p.action("leave")
	a.session = session
	done := p.w.do(a, limit, func(ctx context.Context, c *Coordinator) (room.Result, error) {
		return c.Do(ctx, p.room, room.Leave{User: p.user, Session: session})
	})
	if done.outcome == simDone {
		p.set("")
	} else if done.why == "not a member" {
		p.leftOut()
	}
	return done
}

func (p *simPlayer) keep(limit time.Duration, session string) *simAction {
	a := p.action("keep")
	a.session = session
	done := p.w.do(a, limit, func(ctx context.Context, c *Coordinator) (room.Result, error) {
		return c.Do(ctx, p.room, room.Keep{User: p.user, Session: session})
	})
	if done.outcome == simDone || done.why == "not a member" || done.why == "duplicate" {
		p.set(session)
	}
	return done
}

func (p *simPlayer) setData(limit time.Duration) *simAction {
	a := p.action("data")
	a.value = fmt.Sprintf("%q", p.w.name("d"))
	act := room.SetData{Data: a.value}
	if a.expects = p.known.Epoch != "" && p.rng.IntN(2) == 0; a.expects {
		a.expect = p.known
		act.Expect = room.ExpectVersion(p.known.Epoch, p.known.Version)
	}
	return p.w.do(a, limit, func(ctx context.Context, c *Coordinator) (room.Result, error) { return c.Do(ctx, p.room, act) })
}

// setTimer sets a timer that has a name of its own, and fires soon.
func (p *simPlayer) setTimer(limit time.Duration) *simAction {
	a := p.action("timer")
	a.value = p.w.name("t")
	return p.w.do(a, limit, func(ctx context.Context, c *Coordinator) (room.Result, error) {
		return c.Do(ctx, p.room, room.SetTimer{Name: a.value, In: p.rng.Int64N(3000)})
	})
}

func (p *simPlayer) say(limit time.Duration) *simAction {
	a := p.action("say")
	a.value = p.w.name("m")
	return p.w.do(a, limit, func(ctx context.Context, c *Coordinator) (room.Result, error) {
		return c.Do(ctx, p.room, room.Say{Text: a.value})
	})
}

func (p *simPlayer) read(limit time.Duration) *simAction {
	return p.w.do(p.action("read"), limit, func(ctx context.Context, c *Coordinator) (r room.Result, err error) {
		r.Snapshot, err = c.Read(ctx, p.room)
		return r, err
	})
}

// operate kicks players, and moves them to other rooms, until the context ends.
func (w *simWorld) operate(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(rng.ExpFloat64() * 3 * float64(w.pace))):
		}
		p := w.players[rng.IntN(len(w.players))]
		a := simAction{user: p.user, room: p.room, node: rng.IntN(simNodes)}
		if rng.IntN(3) == 0 {
			a.kind, a.value = "kick", w.name("k")
			w.do(a, time.Minute, func(ctx context.Context, c *Coordinator) (room.Result, error) {
				return c.Do(ctx, a.room, room.Kick{User: a.user, Text: a.value})
			})
			continue
		}
		a.kind, a.session, a.to = "move", w.name("v"), simRoom(rng.IntN(simRooms))
		if a.to != a.room {
			w.move(a)
		}
	}
}

// move takes a player to another room, where nobody waits: the seat is given up.
func (w *simWorld) move(a simAction) {
	w.reserve(a.session, a.user, a.to)
	var other room.Result
	moved := w.do(a, time.Minute, func(ctx context.Context, c *Coordinator) (left room.Result, err error) {
		left, other, err = c.Move(ctx, a.room, a.to, a.session, a.user)
		return left, err
	})
	w.record.mu.Lock()
	moved.other = simViewOf(other)
	w.record.mu.Unlock()
	if moved.outcome == simRefused {
		w.release(a.session)
	}
}

// giveUp gives up the seats that were reserved, by a node.
func (w *simWorld) giveUp(node int, limit time.Duration) {
	for session, seat := range w.reservations() {
		a := simAction{kind: "leave", user: seat.user, room: seat.room, session: session, node: node}
		done := w.do(a, limit, func(ctx context.Context, c *Coordinator) (room.Result, error) {
			return c.Do(ctx, a.room, room.Leave{User: a.user, Session: session})
		})
		if done.outcome == simDone || done.why == "not a member" {
			w.release(session)
		}
	}
}
