package transport

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
)

// noRooms do nothing, where a test needs nothing of them.
type noRooms struct{ Rooms }

func (noRooms) AnswerFor(func(room, session string) bool) {}

func (noRooms) Match(context.Context, coordinator.Wanted,
	func(context.Context, string, *room.Settings) (room.Result, error)) error {
	return room.ErrUnavailable
}

func (noRooms) Move(context.Context, string, string, string, ...string) (left, joined room.Result, err error) {
	return left, joined, room.ErrUnavailable
}

func (noRooms) Now() int64                                           { return 0 }
func (noRooms) Kept(context.Context, string, int) (room.Kept, error) { return room.Kept{}, nil }
func (noRooms) Ping(context.Context) error                           { return nil }
func (noRooms) Ready(context.Context) error                          { return nil }

// sizedRooms answers reads. The room with the id 9 has nine members; the room 9s, too, and
// takes nine seconds.
type sizedRooms struct{ noRooms }

func (sizedRooms) Read(_ context.Context, id string) (room.Snapshot, error) {
	if id == "panic" {
		panic("on purpose")
	}
	n, unit := 0, ""
	fmt.Sscanf(id, "%d%s", &n, &unit)
	if unit == "s" {
		time.Sleep(time.Duration(n) * time.Second)
	}
	members := make(map[string]room.Member)
	for seat := range n {
		members[fmt.Sprint("player-", seat)] = room.Member{Seat: seat}
	}
	return room.NewRoom(id, room.Position{Epoch: "e", Version: 1}, members).Snapshot(), nil
}

// hookedRooms lets a test decide how an action ends. It calls before, if set, for each action,
// and an error of before is the action's; it calls after when the action is done, before its
// caller knows. It calls reading, if set, before each read, and keeping before and after it reads what a room has kept: an error
// is that of the read.
type hookedRooms struct {
	Rooms
	reading     func(ctx context.Context, id string) error
	watching    func(id string) // called before a subscription begins
	keeping     func(before bool) error
	move        func(ctx context.Context, to, session string, users []string) error
	mu          sync.Mutex
	before      func(ctx context.Context, a room.Action) error // guarded by mu
	after       func(a room.Action)                            // guarded by mu
	unreachable atomic.Bool                                    // Redis answers no subscription and no ping
}

func (noRooms) MoveParty(context.Context, string, string, string, room.Settings, string, ...string) (left, joined room.Result, err error) {
	return left, joined, room.ErrUnavailable
}

func (r *hookedRooms) Move(ctx context.Context, from, to, session string, users ...string) (left, joined room.Result, err error) {
	if r.move != nil {
		return left, joined, r.move(ctx, to, session, users)
	}
	return r.Rooms.Move(ctx, from, to, session, users...)
}

func (r *hookedRooms) Ping(ctx context.Context) error {
	if r.unreachable.Load() {
		return room.ErrUnavailable
	}
	return r.Rooms.Ping(ctx)
}

func (r *hookedRooms) Ready(ctx context.Context) error {
	if r.unreachable.Load() {
		return room.ErrUnavailable
	}
	return r.Rooms.Ready(ctx)
}

func (r *hookedRooms) Watch(ctx context.Context, id string, fn func(*room.Event)) (func(), error) {
	if r.unreachable.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if r.watching != nil {
		r.watching(id)
	}
	return r.Rooms.Watch(ctx, id, fn)
}

func (r *hookedRooms) Read(ctx context.Context, id string) (room.Snapshot, error) {
	if r.reading != nil {
		if err := r.reading(ctx, id); err != nil {
			return room.Snapshot{}, err
		}
	}
	return r.Rooms.Read(ctx, id)
}

func (r *hookedRooms) Kept(ctx context.Context, id string, most int) (kept room.Kept, err error) {
	if r.keeping == nil {
		return r.Rooms.Kept(ctx, id, most)
	}
	if err = r.keeping(true); err == nil {
		kept, err = r.Rooms.Kept(ctx, id, most)
	}
	if err == nil {
		err = r.keeping(false)
	}
	return kept, err
}

func (r *hookedRooms) setBefore(before func(ctx context.Context, a room.Action) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = before
}

// failing lets every action fail with err until heal is called, and counts the attempts.
func (r *hookedRooms) failing(err error) (attempts *atomic.Int64, heal func()) {
	attempts, healed := new(atomic.Int64), new(atomic.Bool)
	r.setBefore(func(context.Context, room.Action) error {
		attempts.Add(1)
		if healed.Load() {
			return nil
		}
		return fmt.Errorf("for now: %w", err)
	})
	return attempts, func() { healed.Store(true) }
}

// setAfter sets after.
func (r *hookedRooms) setAfter(after func(a room.Action)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after = after
}

// holdNext has the next action wait until goOn is closed. entered is closed when it waits.
func (r *hookedRooms) holdNext() (entered, goOn chan struct{}) {
	entered, goOn = make(chan struct{}), make(chan struct{})
	r.setBefore(func(context.Context, room.Action) error {
		r.setBefore(nil)
		close(entered)
		<-goOn
		return nil
	})
	return entered, goOn
}

func (r *hookedRooms) Do(ctx context.Context, id string, a room.Action) (room.Result, error) {
	r.mu.Lock()
	before, after := r.before, r.after
	r.mu.Unlock()
	if before != nil {
		if err := before(ctx, a); err != nil {
			return room.Result{}, err
		}
	}
	if after != nil {
		defer after(a)
	}
	return r.Rooms.Do(ctx, id, a)
}

// removeAOnce removes a from room 42 through the other node when the next action is done, and
// waits until that was announced.
func (r *hookedRooms) removeAOnce(t *testing.T, first, second *testNode) {
	r.setAfter(func(room.Action) {
		r.setAfter(nil)
		time.Sleep(time.Millisecond) // so that the action's event is sent alone
		removeA(t, first, second)
		time.Sleep(time.Second)
	})
}

// redisNet is a node's network to Redis. A test can break the connection for events, delay
// the events, or delay everything. Add it to the node's client as a hook.
type redisNet struct {
	redistest.Hook

	mu      sync.Mutex
	conns   map[*redisNetConn]struct{} // guarded by mu
	held    bool                       // guarded by mu: events from Redis wait
	stopped bool                       // guarded by mu: all waits, both ways
	changed *sync.Cond                 // on mu: bytes came, or may pass again
}

// redisNetConn is one connection of the node. The node reads from a pipe, to which pass
// copies what has come from Redis.
type redisNetConn struct {
	net.Conn // the pipe's near end
	raw      net.Conn
	net      *redisNet

	// Guarded by net.mu.
	events   bool // it has subscribed
	closed   bool
	fromNode []byte // not sent to Redis yet
	toNode   []byte // not passed to the node yet
}

func newRedisNet() *redisNet {
	n := &redisNet{conns: make(map[*redisNetConn]struct{})}
	n.changed = sync.NewCond(&n.mu)
	return n
}

func (n *redisNet) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		raw, err := next(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		near, far := net.Pipe()
		c := &redisNetConn{Conn: near, raw: raw, net: n}
		n.mu.Lock()
		n.conns[c] = struct{}{}
		n.mu.Unlock()
		go c.receive()
		go c.pass(far)
		return c, nil
	}
}

// cutEvents breaks the connection for events. The node makes a new one a moment later.
func (n *redisNet) cutEvents() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.events {
			_ = c.raw.Close()
		}
	}
}

// loseEvents breaks the connection for events, and drops those that are held.
func (n *redisNet) loseEvents() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.events {
			c.toNode = nil
			_ = c.raw.Close()
		}
	}
}

// holdEvents delays the events until resume.
func (n *redisNet) holdEvents() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held = true
}

// stop delays everything until resume, as if the node did not run.
func (n *redisNet) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = true
}

func (n *redisNet) resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.held, n.stopped = false, false
	for c := range n.conns {
		_, _ = c.raw.Write(c.fromNode)
		c.fromNode = nil
	}
	n.changed.Broadcast()
}

// receive reads from Redis all the time, so that Redis never waits.
func (c *redisNetConn) receive() {
	buffer := make([]byte, 4096)
	for {
		n, err := c.raw.Read(buffer)
		c.net.mu.Lock()
		c.toNode = append(c.toNode, buffer[:n]...)
		c.closed = c.closed || err != nil
		c.net.changed.Broadcast()
		c.net.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// pass passes what was received to the node, when it may pass.
func (c *redisNetConn) pass(to net.Conn) {
	defer to.Close()
	for {
		c.net.mu.Lock()
		for !c.closed && (len(c.toNode) == 0 || c.net.stopped || c.net.held && c.events) {
			c.net.changed.Wait()
		}
		received, closed := c.toNode, c.closed
		c.toNode = nil
		c.net.mu.Unlock()
		if closed {
			return
		}
		if _, err := to.Write(received); err != nil {
			return
		}
	}
}

func (c *redisNetConn) Write(p []byte) (int, error) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	c.events = c.events || bytes.Contains(p, []byte("subscribe"))
	if c.net.stopped {
		c.fromNode = append(c.fromNode, p...)
		return len(p), nil
	}
	return c.raw.Write(p)
}

func (c *redisNetConn) Close() error {
	c.net.mu.Lock()
	delete(c.net.conns, c)
	c.closed = true
	c.net.changed.Broadcast()
	c.net.mu.Unlock()
	_ = c.raw.Close()
	return c.Conn.Close()
}
