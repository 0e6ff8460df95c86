package lab

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"roomd/loadtest/lab/anomaly"
	"roomd/lockmgr/redistest/proxy"
	"roomd/room/coordinator"
)

// process is one of the processes that share Redis: a client with connections of its own and, for roomd, a
// coordinator.
//
// The process of a single caller reaches Redis over a wire, a proxy that sends the requests of all its
// connections one by one through the observer, and so knows the effect of each. It can swallow a reply, and
// stops all traffic while its caller is stopped. It recognizes the steps of roomd, which does not call
// caller.at, by their effects.
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
// clients have go-redis' defaults; roomd's have those of its command.
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
