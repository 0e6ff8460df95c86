package lockmgr

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// maxQuiet bounds how many names of quiet locks a Manager remembers.
const maxQuiet = 1 << 12

// minFence is less than any fence, and more than a count that began at zero, because
// the last fence was not known any more: see lock_number.
const minFence = 1_000_000

// quietLocked reports whether nobody else was met at that lock of late.
func (m *Manager) quietLocked(name string) bool {
	_, quiet := m.quiet[name]
	return quiet
}

// met notes whether somebody else was met at a lock.
func (m *Manager) met(name string, somebody bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.single == nil || m.quietLocked(name) != somebody: // plain commands are not used, or it is known
	case somebody:
		delete(m.quiet, name)
	default:
		if len(m.quiet) == maxQuiet {
			clear(m.quiet)
		}
		m.quiet[name] = struct{}{}
	}
}

// takePlainly takes a lock that is probably free by plain commands in one round trip,
// which cost Redis a quarter of what the script does. A nil grant leaves it to the
// script, which knows a token that it finds in the lock already.
//
// The three commands are no one step, and need not be. The fence is later than that
// of every earlier hold if it was counted while the lock was ours, which is so if
// the replies come within the TTL. And if somebody turns out to have waited longer,
// the lock is handed on before it was ever used.
//
// It is for one server only: on Redis Cluster a command that is redirected goes out
// again behind the others, and so a fence could be counted before the lock is taken.
func (m *Manager) takePlainly(ctx context.Context, keys []string, token string) (*grant, error) {
	if err := m.ended(ctx); err != nil {
		return nil, err
	}
	lock, queue, count := keys[0], keys[1], keys[2]
	taken := redis.NewStatusCmd(ctx, "set", lock, token, "nx", "px", m.ttl)
	fence := redis.NewIntCmd(ctx, "incr", count)
	waiting := redis.NewIntCmd(ctx, "exists", queue)
	sent := time.Now()
	pipe := m.single.Pipeline()
	_ = pipe.BatchProcess(ctx, taken, fence, waiting)
	if _, err := pipe.Exec(ctx); err != nil && taken.Err() != redis.Nil {
		if ended := m.ended(ctx); ended != nil {
			err = ended
		}
		return nil, err
	}
	switch {
	case taken.Err() != nil, fence.Val() < minFence, time.Since(sent) >= m.opts.TTL:
		return nil, nil
	case waiting.Val() > 0:
		// Handed on, and queued behind them. The script finds out what came of it.
		return nil, m.run(ctx, releaseScript, keys, []any{token, token, m.ttl, m.keep}).Err()
	}
	return &grant{fence.Val(), sent, m.opts.TTL}, nil
}

// give gives a token's lock back to nobody. If that was not to be, it leaves it to the
// script that knows who else there is.
func (m *Manager) give(ctx context.Context, keys []string, token string) (given bool, err error) {
	return giveScript.Run(ctx, m.single, keys[:2], token).Bool()
}
