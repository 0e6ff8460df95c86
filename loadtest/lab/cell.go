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

// The players. 李四 and 王五 are in the room from the start; 张三 meets the fault.
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
	hashKey string // hash with the lock as a field, for hsetnx
	listKey string

	second, patience time.Duration // duration of a published second, and a player's patience
	begun, ends      time.Time     // start of the history; when callers stop waiting, or zero

	observer *observer
	home     *process // the driver's own

	processes             []*process
	victim, joins, leaves *caller        // callers that meet the fault, see playFault
	running               sync.WaitGroup // the callers

	mu      sync.Mutex
	changed *sync.Cond    // signals changes of the fields below
	reached map[step]bool // guarded by mu; steps that some caller has reached
	struck  bool          // guarded by mu; the victim has met the fault
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
	if !x.d.phpArray { // its list cannot be stored
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

func (x *cell) end() {
	var all sync.WaitGroup
	for _, p := range append(x.processes, x.home) {
		all.Go(p.stop)
	}
	all.Wait()
	x.running.Wait()
}

func (x *cell) seconds(n float64) time.Duration { return time.Duration(n * float64(x.second)) }

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

// addTo gives each caller a process with a wire. If there are many callers, they share a few processes without
// an observer, so that nothing delays them.
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

// goOn starts or continues the caller's request up to a step; "" is none.
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
		defer func() { // deferred, because a crash skips the rest
			c.cancel()
			x.mu.Lock()
			defer x.mu.Unlock()
			c.done = true
			x.changed.Broadcast()
		}()
		c.request(ctx)
	})
}

// stop is like goOn, and waits until the caller is stopped at the step, or has ended. crash is the same for a
// caller that dies there.
func (x *cell) stop(ctx context.Context, c *caller, at step) {
	x.goOn(ctx, c, at)
	x.until(ctx, x.patience, c.stopped)
}

func (x *cell) crash(ctx context.Context, c *caller, at step) {
	c.dies = true // it has not started yet
	x.stop(ctx, c, at)
}

// come calls goOn for one caller after the other, each as soon as the one before has ended or waits. So no two
// race, even without a lock.
func (x *cell) come(ctx context.Context, callers ...*caller) {
	for _, c := range callers {
		x.goOn(ctx, c, "")
		x.until(ctx, x.patience, c.idle)
	}
}

// until waits for a condition, for d at most. x.mu is held while it is evaluated.
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

// fail records an error that makes the cell's history worthless.
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
