package lab

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"roomd/room/coordinator"
)

// process is one of the processes that share Redis: a client with connections of its own and, for roomd, a coordinator.
type process struct {
	x     *cell
	rdb   *redis.Client
	wire  *wire                    // nil if it reaches Redis directly
	rooms *coordinator.Coordinator // nil unless the discipline is roomd
}

// newProcess starts a process that reaches Redis directly, or over a wire for the requests of c if that is not nil. All
// clients have go-redis' defaults; roomd's are those of its command.
func newProcess(x *cell, name string, c *caller) (p *process, err error) {
	p = &process{x: x}
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
		if x.f.loses != nil { // they wait for five published seconds, or less, so that, after go-redis' pause, half the TTL is over
			const backoff = 16 * time.Millisecond // at most, before the first retry
			opts.ReadTimeout = min(x.seconds(5), x.seconds(x.d.ttl/2)-backoff)
		}
		if p.wire, err = newWire(x, c); err != nil {
			return nil, err
		}
		opts.Network, opts.Addr, opts.Dialer, opts.TLSConfig = "tcp", p.wire.proxy.Addr(), nil, nil
	}
	p.rdb = redis.NewClient(opts)
	if x.d == &roomd {
		p.rooms, err = coordinator.New(p.rdb, coordinator.Options{Node: x.id + "-" + name, LockTTL: x.seconds(roomd.ttl), LockWait: x.patience})
		if err != nil {
			p.stop()
			return nil, err
		}
	}
	return p, nil
}

// die cuts all connections of the process, for good.
func (p *process) die() {
	if p.wire != nil {
		p.wire.cut()
	}
}

// closePatience is how long a coordinator without its Redis may take to close.
const closePatience = 100 * time.Millisecond

// stop ends the process and waits for its goroutines.
func (p *process) stop() {
	p.die()
	if p.rooms != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		_ = p.rooms.Close(ctx)
	}
	_ = p.rdb.Close()
	if p.wire != nil {
		p.wire.proxy.Close()
	}
}
