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

func (m *Manager) run(ctx context.Context, script *redis.Script, keys []string, args []any) *redis.Cmd {
	for {
		reply := script.Run(ctx, m.client, keys, m.args(args...)...)
		if !redis.IsTryAgainError(reply.Err()) || pause(ctx, m.opts.Poll) != nil {
			return reply
		}
	}
}
