package coordinator

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// simWorld is four nodes, one Redis, the links between them, and those who play.
type simWorld struct {
	t       *testing.T
	plan    simSchedule
	server  *simServer
	links   []*simLink
	nodes   []*Coordinator
	players []*simPlayer
	record  *simRecord
	rooms   []string
	names   atomic.Int64
	pace    time.Duration   // between two actions of a player
	open    context.Context // of all that is asked for
	abort   context.CancelFunc

	mu       sync.Mutex
	dead     map[int]bool       // guarded by mu
	reserved map[string]simSeat // guarded by mu: by the session of a move
	faults   []string           // guarded by mu: what the world has seen by itself
}

// simSeat is a seat that is reserved for a user.
type simSeat struct{ user, room string }

// play runs the schedule on Redis with those scripts, in virtual time, and returns what was wrong.
func (s simSchedule) play(t *testing.T, broken brokenScript) (faults []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newSimWorld(t, s, broken)
		w.run()
		rooms, wrong := w.record.judge(w.server.ledger.all(), unusedIdle-time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.server.mu.Lock()
		defer w.server.mu.Unlock()
		t.Logf("%d commands", w.server.commands.Load())
		faults = slices.Concat(wrong, w.faults, w.server.faults)
		for id, state := range rooms {
			if len(state.members) > 0 && len(faults) == 0 {
				faults = append(faults, fmt.Sprintf("room %s: all have left, and the commits leave %s", id, state.list()))
			}
			if len(state.timers) > 0 && len(faults) == 0 {
				faults = append(faults, fmt.Sprintf("room %s: the timers %v have not fired", id, slices.Sorted(maps.Keys(state.timers))))
			}
		}
	})
	return faults
}

func newSimWorld(t *testing.T, s simSchedule, broken brokenScript) *simWorld {
	t.Cleanup(func() { time.Sleep(5 * time.Second) }) // go-redis notices in its own time that clients are closed
	w := &simWorld{t: t, plan: s, server: newSimServer(t, broken), dead: make(map[int]bool), reserved: make(map[string]simSeat)}
	w.open, w.abort = context.WithCancel(context.Background())
	w.server.tooMuch = func() {
		w.wrong("nodes have sent more than %d commands: something goes on and on", simCommands)
		w.abort()
	}
	w.record = &simRecord{events: make(map[int]map[string][]simEvent), unanswered: make(map[string]bool), held: make(map[string][]simHold)}
	w.pace = []time.Duration{100 * time.Millisecond, 250 * time.Millisecond, time.Second, 3 * time.Second}[s.seed%4]
	for n := range simRooms {
		w.rooms = append(w.rooms, simRoom(n))
	}
	for n := range simNodes {
		link := newSimLink(w.server, s.seed+uint64(n))
		link.latency = time.Duration(n) * time.Millisecond
		c, err := New(simClient(t, link.dial), Options{
			Rules: room.Rules{Seating: room.Capacity(simSeats)}, LockTTL: simLockTTL, NodeTTL: simNodeTTL, Grace: simGrace, LockWait: 5 * time.Second,
			Journal: int(s.seed % 2 * 100), MaxBatch: 1 + int(s.seed/2%2)*255,
		})
		redistest.OK(t, err)
		c.AnswerFor(w.answer)
		w.links, w.nodes = append(w.links, link), append(w.nodes, c)
		w.record.events[n] = make(map[string][]simEvent)
		for _, id := range w.rooms {
			_, err := c.Watch(t.Context(), id, func(e *room.Event) { w.heard(n, id, e) })
			redistest.OK(t, err)
		}
	}
	for n := range simRooms * (simSeats + 1) {
		rng := rand.New(rand.NewPCG(s.seed, 100+uint64(n)))
		w.players = append(w.players, &simPlayer{w: w, user: fmt.Sprint("u", n), room: simRoom(n % simRooms), rng: rng, node: rng.IntN(simNodes)})
	}
	return w
}

func (w *simWorld) name(prefix string) string { return fmt.Sprint(prefix, w.names.Add(1)) }

func (w *simWorld) wrong(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func (w *simWorld) isDead(node int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dead[node]
}

// living returns the numbers of the nodes that have not died.
func (w *simWorld) living() (nodes []int) {
	for n := range simNodes {
		if !w.isDead(n) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

func (w *simWorld) reserve(session, user, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reserved[session] = simSeat{user, id}
}

func (w *simWorld) release(session string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.reserved, session)
}

func (w *simWorld) reservations() map[string]simSeat {
	w.mu.Lock()
	defer w.mu.Unlock()
	seats := make(map[string]simSeat)
	for session, seat := range w.reserved {
		seats[session] = seat
	}
	return seats
}

// answer says whether a session is live.
func (w *simWorld) answer(id, session string) bool {
	w.mu.Lock()
	_, reserved := w.reserved[session]
	w.mu.Unlock()
	live := reserved
	for _, p := range w.players {
		live = live || p.room == id && p.has(session)
	}
	if !live {
		w.record.mu.Lock()
		defer w.record.mu.Unlock()
		w.record.unanswered[id+" "+session] = true
	}
	return live
}

// heard records what a watcher is told.
func (w *simWorld) heard(node int, id string, e *room.Event) {
	if e.Rejoin {
		for _, p := range w.players {
			p.mu.Lock()
			p.renamed = p.renamed || p.room == id && p.node == node
			p.mu.Unlock()
		}
		return
	}
	told := simEvent{simView: simView{simPosition: simPosition{e.Epoch, e.Version}}, from: e.From}
	if e.Snapshot != nil {
		told.whole, told.simView = true, simSnapshot(*e.Snapshot)
	}
	var changes []string
	for _, c := range e.Changes {
		s := simChange{Type: string(c.Type), User: c.User, Seat: c.Seat, Reason: string(c.Reason)}
		if c.Detail != nil {
			s.Text, s.Target, s.Data = c.Text, c.Target, []byte(c.Data)
			if c.Timer != nil {
				s.Timer = &simTimer{c.Timer.Name, c.Timer.Due}
			}
		}
		if text := s.told(); text != "" {
			changes = append(changes, text)
		}
	}
	told.changes = strings.Join(changes, "; ")
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	w.record.events[node][id] = append(w.record.events[node][id], told)
}

// run has everybody play while the faults happen, then everything heal, and everybody leave.
func (w *simWorld) run() {
	ctx, stop := context.WithCancel(w.open)
	var playing, failing sync.WaitGroup
	for _, p := range w.players {
		playing.Go(func() { p.play(ctx) })
	}
	playing.Go(func() { w.operate(ctx, rand.New(rand.NewPCG(w.plan.seed, 99))) })
	for _, f := range w.plan.faults {
		failing.Go(func() {
			time.Sleep(f.at)
			w.happen(f)
		})
	}
	time.Sleep(simHorizon)
	failing.Wait()
	for n, l := range w.links {
		if !w.isDead(n) {
			l.thaw()
		}
	}
	w.server.stepClock(0)
	time.Sleep(simLockTTL)
	stop()
	playing.Wait()
	w.settle()
	w.end()
}

// happen lets a fault happen, and returns when it is over.
func (w *simWorld) happen(f simFault) {
	ctx, link := context.Background(), w.links[f.node]
	var err error
	switch f.kind {
	case "lost reply":
		link.set(func(l *simLink) { l.swallow = f.calls })
	case "late copy":
		link.set(func(l *simLink) { l.delay, l.late = f.calls, f.older })
	case "slow":
		link.set(func(l *simLink) { l.latency = f.older })
		time.Sleep(f.lasts)
		link.set(func(l *simLink) { l.latency = time.Millisecond })
	case "hole":
		w.record.excuse()
		link.freeze(f.lasts)
		time.Sleep(f.lasts - 1)
		link.reset()
	case "short stall", "long stall":
		w.record.excuse()
		link.freeze(f.lasts)
		time.Sleep(f.lasts)
	case "reset":
		link.reset()
	case "dies":
		w.record.excuse()
		w.mu.Lock()
		w.dead[f.node] = true
		w.mu.Unlock()
		link.freeze(24 * time.Hour)
	case "flush":
		w.record.excuse()
		err = w.server.flush(ctx)
	case "script flush":
		err = w.server.admin.ScriptFlush(ctx).Err()
	case "old copy":
		var saved *simCopy
		if saved, err = w.server.save(ctx); err == nil {
			time.Sleep(f.older)
			w.record.excuse()
			err = w.server.restart(ctx, w.links, saved, f.lasts)
		}
	case "empty":
		w.record.excuse()
		err = w.server.restart(ctx, w.links, nil, f.lasts)
	case "article":
		err = w.article(ctx, simRoom(f.room), f.lasts)
	case "clock":
		w.record.excuse()
		w.record.steps()
		w.server.stepClock(f.older)
		time.Sleep(f.lasts)
		w.server.stepClock(0)
	}
	if err != nil {
		w.wrong("%v: %v", f, err)
	}
}
