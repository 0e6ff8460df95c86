package lockmgr

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Run runs a script that is built on [Lua] on the lock of that name: its keys and
// arguments come before those given, so that yours begin at KEYS[4] and ARGV[3].
//
// While a slot moves from one master of a Redis Cluster to another, the keys of a
// lock may be here and there, and Redis refuses to touch them (TRYAGAIN). Run then
// asks again until they are together, or ctx ends.
func (m *Manager) Run(ctx context.Context, script *redis.Script, name string, keys []string, args ...any) *redis.Cmd {
	return m.run(ctx, script, append(m.Keys(name), keys...), args)
}

// run is Run with all keys.
func (m *Manager) run(ctx context.Context, script *redis.Script, keys []string, args []any) *redis.Cmd {
	for {
		reply := script.Run(ctx, m.client, keys, m.args(args...)...)
		if !redis.IsTryAgainError(reply.Err()) || pause(ctx, m.opts.Poll) != nil {
			return reply
		}
	}
}

// runUntil is run that returns as soon as ctx is cancelled. go-redis alone sees
// deadlines, but waits for a reply although its context was cancelled. It costs a
// goroutine, so it is for those who wait anyway.
//
// The script may then still be carried out. late, if not nil, is called when its
// reply comes, in a goroutine that Close waits for.
func (m *Manager) runUntil(ctx context.Context, script *redis.Script, keys []string, args []any, late func()) *redis.Cmd {
	replies := make(chan *redis.Cmd, 1)
	if !m.background(func() { replies <- m.run(ctx, script, keys, args) }) {
		return m.run(ctx, script, keys, args)
	}
	select {
	case reply := <-replies:
		return reply
	case <-ctx.Done():
	}
	if late != nil {
		m.background(func() {
			<-replies
			late()
		})
	}
	cut := redis.NewCmd(ctx)
	cut.SetErr(context.Cause(ctx))
	return cut
}

// background runs f in a goroutine that Close waits for. Once the Manager is
// closed it does nothing and returns false.
func (m *Manager) background(f func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life.Err() != nil {
		return false
	}
	m.wg.Go(f)
	return true
}
