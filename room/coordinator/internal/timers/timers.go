// Package timers fires the timers of rooms: each once, by the node that set it or, if that node died, by another.
//
// A room keeps its timers in Redis, and firing them is an action under the room's lock, so any node may try at any
// time. This package decides who tries when. The node that set a timer has an alarm for it (alarm.go), unless it is due
// much later. Besides, Redis has an index of all timers (Timers:due), where each node looks about once a second for
// those that are overdue, or need an alarm (poll.go).
//
// The deadlines of members who are away in rooms whose settings have a grace are treated alike.
//
// The index may be on another master than the room, so an entry is written before the commit that sets its timer: an
// entry without a timer is harmless, but a timer without an entry would be lost with its node. The entry is removed
// when the timer has fired, was cancelled or replaced; an entry without a timer is removed when no commit can set
// that timer any more. A node that reads a room with timers writes missing entries again.
//
// Once a minute a node reviews its alarms: it removes those whose timers Redis has lost or another node has
// cancelled, and writes the entries of the others again.
//
// When a node stops or dies, its timers' entries are hastened: nodes look at them early, and adopt the timers.
//
// Timers are due by the clock of the Redis server with the index.
//
// [Timers.Start] starts one goroutine, and others run while timers fire. [Timers.Close] ends them.
package timers

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/room"
	"roomd/room/coordinator/internal/store"
	"roomd/room/ratelog"
)

var (
	//go:embed lua/announce.lua
	announceLua string
	//go:embed lua/poll.lua
	pollLua string

	announceScript = redis.NewScript(announceLua)
	pollScript     = redis.NewScript(pollLua)
)

// Actions runs actions on rooms, each under its room's lock.
type Actions interface {
	Run(ctx context.Context, id string, a room.Action) (room.Result, error)
}

// Timers fires timers. It is safe for concurrent use.
type Timers struct {
	store   *store.Store
	actions Actions
	open    context.Context // ends this node's own actions
	life    context.Context // of requests that Close waits for
	settled time.Duration   // how long a commit may be under way, at most
	failed  *ratelog.Log
	clock   clock
	busy    sync.WaitGroup

	mu      sync.Mutex
	alarms  map[string]map[string]*alarm // guarded by mu: by room and name of the timer
	missing []entry                      // guarded by mu: to be written if Redis lacks them
	over    []entry                      // guarded by mu: to be removed
	closed  bool                         // guarded by mu
}

// New returns Timers that send nothing yet. settled is how long after Announce the timer's commit may still be decided.
func New(open, life context.Context, st *store.Store, actions Actions, settled time.Duration,
	set *ratelog.Set) *Timers {
	return &Timers{
		store: st, actions: actions, open: open, life: life, settled: settled,
		alarms: make(map[string]map[string]*alarm),
		failed: set.Warn("timers of rooms could not be looked after, trying again"),
	}
}

// Start begins to look after timers that other nodes have set. Call it at most once, and before Close.
func (t *Timers) Start() { t.busy.Go(t.loop) }

// Close stops what Start has begun, and all alarms. Other nodes adopt the timers.
func (t *Timers) Close() {
	t.mu.Lock()
	t.closed = true
	for _, named := range t.alarms {
		for _, a := range named {
			t.stopLocked(a)
		}
	}
	t.mu.Unlock()
	t.busy.Wait()
	t.flush()
	t.handOver()
}

// Now returns the time by the clock that all nodes share, in ms since 1970.
func (t *Timers) Now() int64 { return t.clock.now() }

// Announce writes the entry of a timer that is about to be set, and returns when the timer is due. in is the delay in
// ms. It fails with [room.ErrUnavailable] or the cause of ctx.
func (t *Timers) Announce(ctx context.Context, id string, in int64) (due int64, err error) {
	sent := time.Now()
	n, err := t.store.RunNumber(ctx, announceScript, []string{t.store.Space.Timers()}, id, in,
		alarmAhead.Milliseconds())
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err != nil:
		return 0, fmt.Errorf("set a timer of room %s: %w: %w", id, room.ErrUnavailable, err)
	}
	t.clock.measured(sent, time.Now(), int64(n)-1000*in)
	return int64(n) / 1000, nil
}

// Withdraw records that an announced timer is not set, and never will be.
func (t *Timers) Withdraw(id string, due int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = append(t.over, entry{room: id, due: due})
}

// AnnounceDeadlines writes the entries of the deadlines that a commit with these updates sets, if any.
func (t *Timers) AnnounceDeadlines(ctx context.Context, id string, updates []room.Update) error {
	var entries []redis.Z
	for i := range updates {
		if e, set := deadlineIn(id, updates[i].User, updates[i].Session); set {
			entries = append(entries, redis.Z{Score: float64(e.look(t.clock.now())), Member: e.String()})
		}
	}
	if entries == nil {
		return nil
	}
	return t.store.Client.ZAddNX(ctx, t.store.Space.Timers(), entries...).Err()
}

// deadlineIn returns the entry of a session's deadline, if it has one.
func deadlineIn(id, user, session string) (e entry, set bool) {
	due := room.Deadline(session)
	return entry{room: id, due: due, user: user}, due > 0
}

// Committed sets and removes alarms of r's timers after a commit of this node with these updates.
func (t *Timers) Committed(r *room.Room, updates []room.Update) {
	for i := range updates {
		if u := &updates[i]; u.Type.Field() == "timers" || room.Deadline(u.Session) > 0 || room.Deadline(u.Old) > 0 {
			t.committed(r, updates[i:])
			return
		}
	}
}

func (t *Timers) committed(r *room.Room, updates []room.Update) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range updates {
		u := &updates[i]
		if u.Detail != nil && u.Timer != nil {
			if u.Timer.Was != 0 {
				t.over = append(t.over, entry{room: r.ID, due: u.Timer.Was})
			}
			t.setLocked(entry{room: r.ID, due: u.Timer.Due}, u.Timer.Name)
		}
		was, ends := deadlineIn(r.ID, u.User, u.Old)
		now, begins := deadlineIn(r.ID, u.User, u.Session)
		if ends {
			t.over = append(t.over, was)
			t.setLocked(entry{room: r.ID}, was.leaves())
		}
		if begins { // an earlier stay may have had the same deadline, and its entry may just be removed
			t.over = slices.DeleteFunc(t.over, func(e entry) bool { return e == now })
			t.missing = append(t.missing, now)
			t.setLocked(now, now.leaves())
		}
	}
}

// Found has the entries of r's timers written again, in case Redis has lost them. r was just read.
func (t *Timers) Found(r *room.Room) {
	var found []entry
	if timers := r.State().Timers; timers != nil {
		for _, timer := range timers.ByName {
			found = append(found, entry{room: r.ID, due: timer.Due})
		}
	}
	for user, m := range r.Members() {
		if e, set := deadlineIn(r.ID, user, m.Session); set {
			found = append(found, e)
		}
	}
	if found == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.missing = append(t.missing, found...)
}

// entry is an entry of the index: the room has a timer that is due at due, or the user leaves then.
type entry struct {
	room string
	due  int64
	user string // "" for a timer
}

// leaves returns the name of the alarm of a member's deadline. No timer has such a name.
func (e entry) leaves() string { return "~" + e.user }

func (e entry) String() string {
	text := e.room + ":" + strconv.FormatInt(e.due, 10)
	if e.user != "" { // older versions do not know such entries, and leave them alone
		text += ":" + e.user
	}
	return text
}

func parseEntry(text string) (e entry, ok bool) {
	parts := append(strings.SplitN(text, ":", 3), "", "")
	n, err := strconv.ParseInt(parts[1], 10, 64)
	return entry{parts[0], n, parts[2]}, err == nil
}

// maxSample is how long a measurement of the clock outranks later, less exact ones.
const maxSample = 10 * time.Second

// clock estimates the clock of a Redis server, which all nodes share. Between measurements it follows this node's
// monotonic clock, which nobody can set. Before the first measurement it is this node's clock.
type clock struct {
	mu    sync.Mutex
	at    int64         // the server's time, in µs since 1970
	when  time.Time     // when the server's clock showed at; zero if nothing was measured
	error time.Duration // how wrong at may be
}

// measured records that between sent and received the server's clock showed the time at, in µs since 1970. It ignores
// a measurement much less exact than a recent one.
func (c *clock) measured(sent, received time.Time, at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := received.Sub(sent)
	if !c.when.IsZero() && took > 2*c.error+5*time.Millisecond && received.Sub(c.when) < maxSample {
		return
	}
	c.at, c.when, c.error = at, sent.Add(took/2), took/2
}

// now returns the estimate in ms since 1970.
func (c *clock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.when.IsZero() {
		return time.Now().UnixMilli()
	}
	return (c.at + time.Since(c.when).Microseconds() + 500) / 1000 // rounded
}
