package lab

import (
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"roomd/room/coordinator"
)

// process is one of the processes that share Redis: a client with connections of
// its own and, for roomd, a coordinator.
type process struct {
	x     *cell
	name  string
	rdb   *redis.Client
	wire  *wire                    // nil if it reaches Redis directly
	rooms *coordinator.Coordinator // nil unless the discipline is roomd
}

// newProcess starts a process that reaches Redis directly, or over a wire for the
// requests of c if that is not nil.
func newProcess(x *cell, name string, c *caller) (*process, error) {
	p := &process{x: x, name: x.id + "-" + name}
	opts := clientOptions(x)
	if c != nil {
		if x.f.losesReply {
			opts.ReadTimeout = lossTimeout(x)
		}
		var err error
		if p.wire, err = newWire(x, c); err != nil {
			return nil, err
		}
		opts.Network, opts.Addr, opts.Dialer, opts.TLSConfig = "tcp", p.wire.proxy.Addr(), nil, nil
	}
	p.rdb = redis.NewClient(opts)
	if err := x.way.open(p); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// lossTimeout returns how long clients wait for a reply where one gets lost: five
// published seconds, or less, so that the command comes again, after go-redis' own pause,
// when half the TTL is over.
func lossTimeout(x *cell) time.Duration {
	const backoff = 16 * time.Millisecond // at most, before the first retry
	return min(x.seconds(5), x.seconds(x.d.ttl/2)-backoff)
}

// clientOptions returns the options of a client of the cell's Redis. All have go-redis'
// defaults; roomd's are those of its command.
func clientOptions(x *cell) *redis.Options {
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

// stop ends the process and waits for its goroutines.
func (p *process) stop() {
	p.die()
	if p.rooms != nil {
		p.x.way.close(p)
	}
	_ = p.rdb.Close()
	if p.wire != nil {
		p.wire.close()
	}
}
