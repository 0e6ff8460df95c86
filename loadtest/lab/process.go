package lab

import (
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"roomd/room"
)

// process is one of the processes that share Redis: a client with connections of
// its own and, for roomd, a coordinator.
type process struct {
	x     *cell
	name  string
	rdb   *redis.Client
	wire  *wire             // nil if it reaches Redis directly
	rooms *room.Coordinator // nil unless the discipline is roomd
}

// newProcess starts a process that reaches Redis directly, or over a wire that
// carries the requests of c.
func newProcess(x *cell, name string, c *caller) (*process, error) {
	p := &process{x: x, name: x.id + "-" + name}
	opts := x.client()
	if c != nil {
		if x.f.losesReply {
			opts.ReadTimeout = x.noticesAfter()
		}
		var err error
		if p.wire, err = newWire(x, c); err != nil {
			return nil, err
		}
		opts.Network, opts.Addr, opts.Dialer, opts.TLSConfig = "tcp", p.wire.addr(), nil, nil
	}
	p.rdb = redis.NewClient(opts)
	if err := x.d.way.open(p); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// noticesAfter is for how long callers wait for a reply where one gets lost: five
// published seconds, or so long that what is sent again, after go-redis' own pause,
// comes when half the TTL is over.
func (x *cell) noticesAfter() time.Duration {
	const backoff = 16 * time.Millisecond // at most, before the first retry
	return min(x.seconds(5), x.seconds(x.d.ttl/2)-backoff)
}

// client returns what a client of the cell's Redis needs. All have go-redis'
// defaults; roomd's are as its command has them.
func (x *cell) client() *redis.Options {
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
	return opts
}

// die cuts all connections of the process, for good.
func (p *process) die() {
	if p.wire != nil {
		p.wire.cut()
	}
}

// stop ends the process and waits for what it has started.
func (p *process) stop() {
	p.die()
	if p.rooms != nil {
		p.x.d.way.close(p)
	}
	_ = p.rdb.Close()
	if p.wire != nil {
		p.wire.close()
	}
}
