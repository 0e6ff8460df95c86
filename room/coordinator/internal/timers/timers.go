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
