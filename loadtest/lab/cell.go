package lab

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"roomd/loadtest/internal/tally"
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
	way     way
	id      string // of the room
	lockKey string
	hashKey string // of the hash that has the lock as a field, for hsetnx
	listKey string
	timescale
	patience time.Duration
	history  *recorder
	observer *observer
	home     *process        // of the driver itself
	over     <-chan struct{} // closed when callers must end

	processes []*process
	running   sync.WaitGroup // the callers
	elapsed   time.Duration  // while they ran
	tally     *tally.Tally   // of all requests

	mu      sync.Mutex
	changed *sync.Cond    // of what mu guards
	reached map[step]bool // guarded by mu; by any caller
	struck  bool          // guarded by mu; the fault has happened to the victim
	failure error         // guarded by mu; makes the history worthless
}

func newCell(l *lab, d *discipline, f *fault, second time.Duration) *cell {
	x := &cell{
		lab: l, d: d, f: f, way: d.way(), timescale: timescale{second},
		id:      fmt.Sprintf("lab-%s-%s-%s-%d", l.run, d.name, f.name, l.cells.Add(1)),
		history: &recorder{start: time.Now()},
		tally:   new(tally.Tally),
		reached: make(map[step]bool),
	}
	x.lockKey, x.hashKey, x.listKey = "LockRoom:"+x.id, "Locks:"+x.id, "Room:"+x.id+":Users"
	x.patience = x.seconds(patience)
	x.changed = sync.NewCond(&x.mu)
	x.observer = &observer{x: x, sentBy: make(map[string]string)}
	return x
}

// play runs the fault's scenario and returns its history.
func (x *cell) play(ctx context.Context) (anomaly.History, error) {
	var err error
	if x.home, err = newProcess(x, "home", nil); err != nil {
		return anomaly.History{}, err
	}
	defer x.end()
	initial := x.d.initial()
	if err := x.way.fill(ctx, x, initial); err != nil {
		return anomaly.History{}, err
	}
	if err := x.observer.begin(ctx); err != nil {
		return anomaly.History{}, err
	}
	x.history.start = time.Now()
	if err := x.f.play(ctx, x); err != nil {
		return anomaly.History{}, err
	}
	x.running.Wait()
	x.elapsed = time.Since(x.history.start)
	end, err := x.observer.look(ctx)
	return anomaly.History{
		Events: x.history.all(), Initial: initial, Final: end.users,
		TTL: x.seconds(x.d.ttl), Forever: end.held && end.expires == 0,
	}, errors.Join(err, x.failed())
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

// caller adds a caller in a process of its own, over a wire.
func (x *cell) caller(user string, leave bool) (*caller, error) {
	c := x.callerIn(nil, user, leave)
	var err error
	if c.process, err = newProcess(x, fmt.Sprint(len(x.processes)+1), c); err != nil {
		return nil, err
	}
	x.processes = append(x.processes, c.process)
	return c, nil
}

// callerIn adds a caller in a process that runs.
func (x *cell) callerIn(p *process, user string, leave bool) *caller {
	h := fnv.New64a()
	_, _ = h.Write([]byte(x.d.name + x.f.name + user))
	return &caller{
		x: x, process: p, user: user, leave: leave,
		random: rand.New(rand.NewPCG(x.lab.seed, h.Sum64())),
		plan:   make(map[step]strike),
	}
}

// start begins a caller's one request.
func (x *cell) start(ctx context.Context, c *caller) {
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

// letGo lets a caller continue, up to a step if one is given.
func (x *cell) letGo(c *caller, upTo ...step) {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(c.plan)
	for _, s := range upTo {
		c.plan[s] = hold
	}
	c.held = false
	x.changed.Broadcast()
}

// fail records why the cell's history is worthless.
func (x *cell) fail(err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.failure = errors.Join(x.failure, err)
}

func (x *cell) failed() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.failure
}

func (x *cell) wasStruck() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.struck
}
