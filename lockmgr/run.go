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
		reply := m.eval(ctx, script, keys, args)
		if !redis.IsTryAgainError(reply.Err()) || pause(ctx, m.opts.Poll) != nil {
			return reply
		}
	}
}

// eval sends a script once: by its hash, and as a whole only to a server that does
// not know it.
func (m *Manager) eval(ctx context.Context, script *redis.Script, keys []string, args []any) *redis.Cmd {
	all := make([]any, 0, 3+len(keys)+len(m.lockAt)+len(args))
	all = append(all, "evalsha", script.Hash(), len(keys))
	for _, key := range keys {
		all = append(all, key)
	}
	all = append(append(all, m.lockAt...), args...)
	cmd := redis.NewCmd(ctx, all...)
	cmd.SetFirstKeyPos(3)
	err := m.process(ctx, cmd)
	switch {
	case err != nil && ctx.Err() != nil:
		return failed(ctx) // the pipeline may still be writing to cmd
	case redis.HasErrorPrefix(err, "NOSCRIPT"):
		return script.Eval(ctx, m.client, keys, all[3+len(keys):]...)
	}
	return cmd
}

// process sends a command, together with others if the Manager is Pipelined. When
// ctx ended cmd must not be looked at.
func (m *Manager) process(ctx context.Context, cmd redis.Cmder) error {
	if m.pipe == nil {
		return m.client.Process(ctx, cmd)
	}
	return m.pipe.Submit(ctx, cmd).WaitContext(ctx)
}

// failed returns a command that ended with its context.
func failed(ctx context.Context) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(context.Cause(ctx))
	return cmd
}

// pipelining says how requests share round trips: as soon as one can be sent it is,
// and those that come meanwhile go together. They are of different callers, each
// of whom waits for its reply, so their order does not matter.
func pipelining() *redis.AutoPipelineOptions {
	return &redis.AutoPipelineOptions{MaxConcurrentBatches: maxConcurrentBatches, Unordered: true}
}

// maxConcurrentBatches is how many pipelines of one client may be under way.
const maxConcurrentBatches = 8

// runUntil is run that returns as soon as ctx is cancelled. go-redis alone sees
// deadlines, but waits for a reply although its context was cancelled. It costs a
// goroutine, so it is for those who wait anyway.
//
// The script may then still be carried out. late, if not nil, is called when its
// reply comes, in a goroutine that Close waits for.
func (m *Manager) runUntil(ctx context.Context, script *redis.Script, keys []string, args []any, late func()) *redis.Cmd {
	if m.pipe != nil && late == nil {
		return m.run(ctx, script, keys, args)
	}
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
	return failed(ctx)
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
