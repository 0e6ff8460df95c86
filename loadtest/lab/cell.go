package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"roomd/loadtest/lab/anomaly"
)

// patience is how many published seconds a player waits: three times the longest TTL.
const patience = 30

// The players. 李四 and 王五 are there from the start, 张三 meets the fault.
const (
	victimUser = "张三"
	joinsUser  = "赵六"
	leavesUser = "王五"
	staysUser  = "李四"
)

// cell is one discipline under one fault: a room, its callers and their history.
type cell struct {
	lab     *lab
	d       *discipline
	f       *fault
	id      string // of the room
	lockKey string
	hashKey string // of the hash that has the lock as a field, for hsetnx
	listKey string

	second, patience time.Duration // how long a published second lasts, and how long a player waits
	begun, ends      time.Time     // of the history; when callers wait no longer, which may be zero

	observer *observer
	home     *process // of the driver itself

	processes             []*process
	victim, joins, leaves *caller        // those who meet the fault, see playFault
	running               sync.WaitGroup // the callers

	mu      sync.Mutex
	changed *sync.Cond    // of what mu guards
	reached map[step]bool // guarded by mu; by any caller
	struck  bool          // guarded by mu; the fault has happened to the victim
	failure error         // guarded by mu; makes the history worthless

	recording sync.Mutex
	history   []anomaly.Event // guarded by recording
}

func newCell(l *lab, d *discipline, f *fault, second time.Duration) *cell {
	x := &cell{
		lab: l, d: d, f: f, second: second, begun: time.Now(), reached: make(map[step]bool),
		id: fmt.Sprintf("lab-%s-%s-%s-%d", l.run, d.name, f.name, l.cells.Add(1)),
	}
	x.lockKey, x.hashKey, x.listKey = "LockRoom:"+x.id, "Locks:"+x.id, "Room:"+x.id+":Users"
	x.patience = x.seconds(patience)
	x.changed = sync.NewCond(&x.mu)
	x.observer = &observer{x: x, sentBy: make(map[string]string)}
	return x
}

// play runs a scenario, and returns its history.
func (x *cell) play(ctx context.Context, scenario func(context.Context) error) (h anomaly.History, err error) {
	if x.home, err = newProcess(x, "home", nil); err != nil {
		return h, err
	}
	defer x.end()
	h.TTL = x.seconds(x.d.ttl)
	if !x.d.phpArray { // whose list cannot be stored
		h.Initial = []string{staysUser, leavesUser}
		err = x.fill(ctx, h.Initial)
	}
	var seen error
	x.observer.now, seen = x.observer.look(ctx)
	x.begun = time.Now()
	if err = cmp.Or(err, seen); err == nil {
		err = scenario(ctx)
	}
	if err != nil {
		return h, err
	}
	x.running.Wait()
	end, err := x.observer.look(ctx)
	h.Events, h.Final, h.Forever = x.events(), end.users, end.held && end.expires == 0
	x.mu.Lock()
	defer x.mu.Unlock()
	return h, errors.Join(err, x.failure)
}

// end ends all processes and callers of the cell.
func (x *cell) end() {
	var all sync.WaitGroup
	for _, p := range append(x.processes, x.home) {
		all.Go(p.stop)
	}
	all.Wait()
	x.running.Wait()
}

// seconds returns how long published seconds last.
func (x *cell) seconds(n float64) time.Duration { return time.Duration(n * float64(x.second)) }

// now returns the time since the history began.
func (x *cell) now() time.Duration { return time.Since(x.begun) }

// record adds an event to the history. A zero At means now.
func (x *cell) record(e anomaly.Event) {
	x.recording.Lock()
	defer x.recording.Unlock()
	e.At = cmp.Or(e.At, x.now())
	x.history = append(x.history, e)
}

// events returns the history in order of time.
func (x *cell) events() []anomaly.Event {
	x.recording.Lock()
	defer x.recording.Unlock()
	return slices.SortedStableFunc(slices.Values(x.history),
		func(a, b anomaly.Event) int { return cmp.Compare(a.At, b.At) })
}

// addTo gives each caller a process of its own, over a wire, or if there are many lets them share a few, without an
// observer, so that nothing delays them.
func (x *cell) addTo(callers ...*caller) error {
	for i, c := range callers {
		wired := c
		if len(callers) > manyProcesses {
			wired = nil
		}
		if wired == nil && i >= manyProcesses {
			c.process = x.processes[i%manyProcesses]
			continue
		}
		p, err := newProcess(x, fmt.Sprint(i+1), wired)
		if err != nil {
			return err
		}
		c.process, x.processes = p, append(x.processes, p)
	}
	return nil
}

// goOn lets a caller begin its one request, or continue, as far as a step; "" is none.
func (x *cell) goOn(ctx context.Context, c *caller, upTo step) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c.strikeAt, c.held = upTo, false
	x.changed.Broadcast()
	if c.cancel != nil {
		return
	}
	ctx, c.cancel = context.WithCancel(ctx)
	x.running.Go(func() {
		defer func() { // also when it crashes
			c.cancel()
			x.mu.Lock()
			defer x.mu.Unlock()
			c.done = true
			x.changed.Broadcast()
		}()
		c.request(ctx)
	})
}

// stop is goOn, and waits until the caller is stopped at the step, or has ended. crash is the same for a caller that
// dies there.
func (x *cell) stop(ctx context.Context, c *caller, at step) {
	x.goOn(ctx, c, at)
	x.until(ctx, x.patience, c.stopped)
}

func (x *cell) crash(ctx context.Context, c *caller, at step) {
	c.dies = true // it has not begun
	x.stop(ctx, c, at)
}

// come is goOn for callers one after the other, each as soon as the one before has ended or waits. So no two race, even
// without a lock.
func (x *cell) come(ctx context.Context, callers ...*caller) {
	for _, c := range callers {
		x.goOn(ctx, c, "")
		x.until(ctx, x.patience, c.idle)
	}
}

// until waits for a condition, for d at most. The condition may use what x.mu guards.
func (x *cell) until(ctx context.Context, d time.Duration, cond func() bool) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.changed.Broadcast()
	})
	defer stop()
	x.mu.Lock()
	defer x.mu.Unlock()
	for !cond() && ctx.Err() == nil {
		x.changed.Wait()
	}
}

// fail records why the cell's history is worthless.
func (x *cell) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failure = errors.Join(x.failure, err)
}

// struckLocked records that the fault has happened, if c is the victim.
func (x *cell) struckLocked(c *caller) {
	x.struck = x.struck || c.user == victimUser
	x.changed.Broadcast()
}
