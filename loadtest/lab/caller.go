package lab

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"roomd/loadtest/lab/anomaly"
	"roomd/lockmgr/redisconn/pause"
	"roomd/lockmgr/redistest/proxy"
	"roomd/room"
	"roomd/room/coordinator"
)

// errBusy says that the player did not get the lock in time.
var errBusy = errors.New("the room is busy")

// spinPause is the pause between two attempts in articles that spin. It is not scaled.
const spinPause = 5 * time.Millisecond

// caller is a process that asks to join or to leave for one player.
type caller struct {
	*process
	user    string
	leave   bool
	ahead   int64              // published seconds by which its clock is fast
	value   string             // its value for the lock
	end     string             // end of the hold by its clock, as last written into the lock
	drawsAt time.Time          // time from which it draws its value: equal times draw equal values; zero means now
	cancel  context.CancelFunc // cancels its request; nil before that

	asked time.Time
	sent  bool // it has sent its write; an error after that leaves the outcome unknown

	// Guarded by x.mu.
	strikeAt step // step where the driver stops it
	dies     bool // it crashes at strikeAt
	held     bool // it is stopped at a step
	dead     bool // it has crashed
	done     bool // it has its answer, or has died
	waited   bool // it found the lock held
}

// States of a caller that the driver waits for. The cell's mu is held.
func (c *caller) stopped() bool { return c.held || c.ended() }
func (c *caller) idle() bool    { return c.waited || c.ended() }
func (c *caller) ended() bool   { return c.dead || c.done }

// record adds an event of the caller to the history.
func (c *caller) record(e anomaly.Event) {
	e.Caller = c.user
	c.x.record(e)
}

// request runs one join or leave and records its outcome.
func (c *caller) request(ctx context.Context) {
	c.asked, c.sent = time.Now(), false
	c.x.mu.Lock()
	c.waited = false
	c.x.mu.Unlock()
	c.record(anomaly.Event{Kind: anomaly.Asked, Leave: c.leave})
	err := c.ask(ctx)
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	switch {
	case c.dead:
	case err == nil:
		c.record(anomaly.Event{Kind: anomaly.ToldOK})
	case c.sent || errors.Is(err, room.ErrUnknown):
		c.record(anomaly.Event{Kind: anomaly.ToldUnknown})
	default:
		c.record(anomaly.Event{Kind: anomaly.ToldFailed})
	}
}

// turnedAway records that the caller found the lock held.
func (c *caller) turnedAway() {
	c.x.mu.Lock()
	defer c.x.mu.Unlock()
	if !c.waited {
		c.waited = true
		c.record(anomaly.Event{Kind: anomaly.Refused})
		c.x.changed.Broadcast()
	}
}

// pause sleeps between two attempts. It returns errBusy when the player's patience or the cell's time is over.
func (c *caller) pause(ctx context.Context, d time.Duration) error {
	c.turnedAway()
	if x := c.x; time.Since(c.asked) > x.patience || !x.ends.IsZero() && time.Now().After(x.ends) {
		return errBusy
	}
	return pause.For(ctx, d)
}

// now returns the time of the caller's clock in whole published seconds, and nowMillis in published milliseconds.
func (c *caller) now() int64 { return time.Now().UnixNano()/int64(c.x.second) + c.ahead }
func (c *caller) nowMillis() int64 {
	return time.Now().UnixNano()/int64(c.x.second/1000) + 1000*c.ahead
}

// step is a place in a discipline where the driver can stop or crash a caller.
type step string

const (
	stepDrawn     step = "drawn"     // the caller has a value that another may have, too
	stepSet       step = "set"       // SETNX has set the lock, EXPIRE has not been sent
	stepTried     step = "tried"     // SETNX has not set the lock, GET has not been sent
	stepLocked    step = "locked"    // the caller has the lock
	stepRead      step = "read"      // it has read the list, and is about to write it
	stepWrote     step = "wrote"     // it has written the list
	stepGiving    step = "giving"    // before it releases the lock
	stepGave      step = "gave"      // its release has freed the lock
	stepLooking   step = "looking"   // before it asks how many seconds its lock has left
	stepChecked   step = "checked"   // before it deletes the lock, after the check that it may
	stepExpired   step = "expired"   // before it overwrites a lock whose time is past, or that has just gone
	stepOverwrote step = "overwrote" // after that, before it checks whether it has the lock
)

// lockSteps are the steps of every discipline with a lock. keptSteps are the steps of disciplines whose release may
// not free the lock.
var (
	lockSteps = []step{stepLocked, stepRead, stepWrote, stepGiving, stepGave}
	keptSteps = lockSteps[:4]
)

func with(more ...step) []step { return append(more, lockSteps...) }

// at marks a step between a discipline's commands. It does not return if the caller crashes here.
func (c *caller) at(s step) {
	if !c.reach(s) {
		runtime.Goexit()
	}
}

// reach lets the driver strike at a step, and reports whether the caller survives.
func (c *caller) reach(s step) bool {
	x := c.x
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reached[s] = true
	switch {
	case s != c.strikeAt:
	case c.dies:
		c.crashLocked()
	default: // waits until the driver continues it
		c.strikeAt, c.held = "", true
		x.struckLocked(c)
		c.record(anomaly.Event{Kind: anomaly.Paused})
		for c.held && !c.dead {
			x.changed.Wait()
		}
		c.record(anomaly.Event{Kind: anomaly.Resumed})
	}
	return !c.dead
}

// die ends a caller whose published code fails.
func (c *caller) die() {
	c.x.mu.Lock()
	c.crashLocked()
	c.x.mu.Unlock()
	runtime.Goexit()
}

// crashLocked ends a caller and its process at once.
func (c *caller) crashLocked() {
	c.record(anomaly.Event{Kind: anomaly.Crashed})
	c.dead = true
	c.process.die()
	if c.cancel != nil {
		c.cancel()
	}
	c.x.struckLocked(c)
}

// process is one of the processes that share Redis: a client with connections of its own and, for roomd, a
// coordinator.
//
// The process of a single caller reaches Redis over a wire, a proxy that sends the requests of all its connections
// one by one through the observer, and so knows the effect of each. It can swallow a reply, and stops all traffic
// while its caller is stopped. It recognizes the steps of roomd, which does not call caller.at, by their effects.
type process struct {
	x     *cell
	rdb   *redis.Client
	rooms *coordinator.Coordinator // nil unless the discipline is roomd

	caller *caller      // nil without a wire
	wire   *proxy.Proxy // nil without a wire
	ended  atomic.Bool
	turn   sync.Mutex        // locked from a request to its reply
	loses  func(effect) bool // guarded by turn; selects a reply to swallow, once
}

// newProcess starts a process. It reaches Redis over a wire for the requests of c, or directly if c is nil. All
// clients have go-redis' defaults; roomd's have its command's.
func newProcess(x *cell, name string, c *caller) (p *process, err error) {
	p = &process{x: x, caller: c}
	model := x.lab.redis.Options()
	opts := &redis.Options{
		Network: model.Network, Addr: model.Addr, Dialer: model.Dialer, TLSConfig: model.TLSConfig,
		Username: model.Username, Password: model.Password, DB: model.DB,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if x.d == &roomd {
		opts.ContextTimeoutEnabled, opts.MaxRetries, opts.DialerRetries = true, 1, 1
		opts.ReadTimeout, opts.DialTimeout = time.Second, 2*time.Second
	}
	if c != nil {
		// a lost reply takes five published seconds or less, so that half the TTL is over after go-redis' pause
		if x.f.loses != nil {
			const backoff = 16 * time.Millisecond // largest pause before the first retry
			opts.ReadTimeout = min(x.seconds(5), x.seconds(x.d.ttl/2)-backoff)
		}
		dial := func(ctx context.Context) (net.Conn, error) { return model.Dialer(ctx, model.Network, model.Addr) }
		p.wire, err = proxy.Start(dial, p.exchange, func() { // blocks while the wire is stopped
			p.turn.Lock()
			defer p.turn.Unlock()
		})
		if err != nil {
			return nil, err
		}
		opts.Network, opts.Addr, opts.Dialer, opts.TLSConfig = "tcp", p.wire.Addr(), nil, nil
	}
	p.rdb = redis.NewClient(opts)
	if x.d == &roomd {
		p.rooms, err = coordinator.New(p.rdb, coordinator.Options{Node: x.id + "-" + name,
			LockTTL: x.seconds(roomd.ttl), LockWait: x.patience})
		if err != nil {
			p.stop()
			return nil, err
		}
	}
	return p, nil
}

// lose makes the wire swallow the reply to the next request with that effect.
func (p *process) lose(has func(effect) bool) {
	p.turn.Lock()
	defer p.turn.Unlock()
	p.loses = has
}

// exchange runs a request, and decides about its reply. It cuts the connection if the caller is dead.
func (p *process) exchange(args []string, carryOut func() ([]byte, error)) proxy.Action {
	x, c := p.x, p.caller
	if p.ended.Load() {
		return proxy.Cut
	}
	streams := strings.HasSuffix(args[0], "SUBSCRIBE")
	if !streams {
		p.turn.Lock()
		defer p.turn.Unlock()
	}
	onLock := slices.Contains(args, x.lockKey)
	if streams || !onLock && args[0] != "EXEC" && !slices.Contains(args, x.listKey) {
		_, _ = carryOut() // the proxy knows its error
		return proxy.Pass
	}
	follows := onLock && x.d == &roomd
	if follows && x.observer.last().owner == c.user && !c.reach(stepRead) {
		return proxy.Cut
	}
	var reply []byte
	did, err := x.observer.around(context.Background(), c.user, args, func() (err error) {
		reply, err = carryOut()
		return err
	})
	if err != nil {
		if !p.ended.Load() {
			x.fail(err)
		}
		return proxy.Cut
	}
	if did.gave {
		c.reach(stepGave)
	}
	if follows && reply[0] != '-' { // the step of roomd's caller
		switch {
		case did.stored && !(c.reach(stepWrote) && c.reach(stepGiving)), did.took && !did.stored &&
			!c.reach(stepLocked):
			return proxy.Cut
		case !did.stored && !did.took && !did.owns:
			c.turnedAway()
		}
	}
	if p.loses == nil || !p.loses(did) {
		return proxy.Pass
	}
	p.loses = nil
	c.record(anomaly.Event{Kind: anomaly.ReplyLost})
	x.mu.Lock()
	defer x.mu.Unlock()
	x.struckLocked(c)
	return proxy.Silence
}

// die cuts all connections of the process, and every new one at its first request.
func (p *process) die() {
	if p.wire != nil {
		p.ended.Store(true)
		p.wire.Cut()
	}
}

// stop ends the process and waits for its goroutines.
func (p *process) stop() {
	p.die()
	if p.rooms != nil { // it may have lost Redis, and must not wait for that
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = p.rooms.Close(ctx)
	}
	_ = p.rdb.Close()
	if p.wire != nil {
		p.wire.Close()
	}
}
