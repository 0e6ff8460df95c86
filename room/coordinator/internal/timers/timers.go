// Package timers has the timers of rooms fire: each once, by the node that has set it, or, if that node has died,
// by another one.
//
// A room has its timers in Redis, and [room.Fire] is an action under the room's lock, so it does not matter who
// tries, and how often. What is here is about who tries when. The node that has set a timer has an alarm for it
// (alarm.go). Besides, Redis has an index of all timers (Timers:due), where each node looks about once a second for
// those that should have fired and have not (poll.go). An entry is written before the commit that sets its timer,
// since the room may be on another master: an entry without a timer is harmless, and a timer without one
// would be lost with its node. It is removed when the timer has fired, or was cancelled or replaced; one without a
// timer some time after it was due, when no commit can be under way any more that sets it. Who reads a room which has
// timers writes their entries again if they are missing.
//
// A node looks once a minute whether the timers of its alarms are still there (review, in alarm.go). It removes
// alarms and entries of those that Redis has forgotten with their rooms, or another node has cancelled, and writes
// the other entries again.
//
// A node that stops, or has died, leaves timers that are not due yet. Their entries are hastened: who looks at one
// before its time has an alarm for the timer from then on, so it fires on time.
//
// The clock by which timers are due is that of the Redis server that has the index.
//
// One goroutine runs from [Timers.Start] on, others for a moment while timers fire. [Timers.Close] ends them.
package timers

import (
	"context"
	_ "embed"
	"fmt"
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

// Actions run actions on rooms, each under its room's lock.
type Actions interface {
	Run(ctx context.Context, id string, a room.Action) (room.Result, error)
}

// Timers has timers fire. It is safe for concurrent use.
type Timers struct {
	store   *store.Store
	actions Actions
	open    context.Context // of what this node does by itself
	life    context.Context // of requests that Close waits for
	settled time.Duration   // for how long, at most, a commit may be under way
	failed  *ratelog.Log
	clock   clock
	start   sync.Once
	busy    sync.WaitGroup

	mu      sync.Mutex
	alarms  map[string]map[string]*alarm // guarded by mu: by room and name of the timer
	missing []entry                      // guarded by mu: to be written, if they are not there
	over    []entry                      // guarded by mu: to be removed
	closed  bool                         // guarded by mu
}

// New returns Timers that send nothing yet. A commit that sets a timer is done, or never will be, within the time
// settled from when the timer was announced.
func New(open, life context.Context, st *store.Store, actions Actions, settled time.Duration, set *ratelog.Set) *Timers {
	return &Timers{
		store: st, actions: actions, open: open, life: life, settled: settled, alarms: make(map[string]map[string]*alarm),
		failed: set.Warn("timers of rooms could not be looked after, trying again"),
	}
}

// Start begins to look after timers that others have set. Further calls do nothing.
func (t *Timers) Start() {
	t.start.Do(func() { t.busy.Go(t.loop) })
}

// Close ends that, and all alarms. Other nodes adopt the timers.
func (t *Timers) Close() {
	t.start.Do(func() {}) // it does not start any more
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

// Announce writes the entry of a timer that is about to be set, and returns when it is due. It fails with
// [room.ErrUnavailable] or the cause of ctx.
func (t *Timers) Announce(ctx context.Context, id string, in int64) (due int64, err error) {
	sent := time.Now()
	n, err := t.store.RunNumber(ctx, announceScript, []string{t.store.Space.Timers()}, id, in)
	switch {
	case err != nil && ctx.Err() != nil:
		return 0, context.Cause(ctx)
	case err != nil:
		return 0, fmt.Errorf("set a timer of room %s: %w: %w", id, room.ErrUnavailable, err)
	}
	t.clock.measured(sent, time.Now(), int64(n)-1000*in)
	return int64(n) / 1000, nil
}

// Withdraw records that a timer that was announced is not set, and never will be.
func (t *Timers) Withdraw(id string, due int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = append(t.over, entry{id, due})
}

// Committed heeds a commit of this node that has made the room what it is.
func (t *Timers) Committed(r *room.Room, updates []room.Update) {
	for i := range updates {
		if updates[i].Type.Field() == "timers" {
			t.committed(r, updates[i:])
			return
		}
	}
}

func (t *Timers) committed(r *room.Room, updates []room.Update) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range updates {
		if u := &updates[i]; u.Detail != nil && u.Timer != nil {
			if u.Timer.Was != 0 {
				t.over = append(t.over, entry{r.ID, u.Timer.Was})
			}
			t.setLocked(r.ID, u.Timer.Name, u.Timer.Due)
		}
	}
}

// Found heeds a room that was read, whose entries Redis may have lost.
func (t *Timers) Found(r *room.Room) {
	if r.State().Timers.Len() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, timer := range r.State().Timers.ByName {
		t.missing = append(t.missing, entry{r.ID, timer.Due})
	}
}

// entry is one of the index.
type entry struct {
	room string
	due  int64
}

func (e entry) String() string { return e.room + ":" + strconv.FormatInt(e.due, 10) }

func parseEntry(text string) (e entry, ok bool) {
	id, due, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(due, 10, 64)
	return entry{id, n}, err == nil
}

// maxSample is how long a measurement of the clock is kept although later ones were less exact.
const maxSample = 10 * time.Second

// clock is the clock that all nodes share, as this node has measured it: that of a Redis server. Between two
// measurements this node's own clock counts, which nobody can set. Where nothing was measured it is what this node
// takes for the time.
type clock struct {
	mu    sync.Mutex
	at    int64         // guarded by mu: what it showed, in µs since 1970
	when  time.Time     // guarded by mu: then; zero if nothing was measured
	error time.Duration // guarded by mu: how wrong that may be
}

// measured records that the clock showed so many µs since 1970 some time between two moments. A measurement
// that is much less exact than one of late does not count.
func (c *clock) measured(sent, received time.Time, at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	took := received.Sub(sent)
	if !c.when.IsZero() && took > 2*c.error+5*time.Millisecond && received.Sub(c.when) < maxSample {
		return
	}
	c.at, c.when, c.error = at, sent.Add(took/2), took/2
}

// now returns what the clock shows, in ms since 1970.
func (c *clock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.when.IsZero() {
		return time.Now().UnixMilli()
	}
	return (c.at + time.Since(c.when).Microseconds() + 500) / 1000 // the nearest
}
