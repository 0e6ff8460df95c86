package lockmgr

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/all.lua
var allLua string

var allScript = redis.NewScript(Lua + allLua)

// AcquireAll takes the locks of all those names, or none. A name that is given
// twice counts once. However the names are ordered, two calls cannot wait for each
// other: locks are always taken in the order of their keys. A caller that holds
// one of the locks already would wait for itself.
//
// If all are free, and nobody waits for any, one request takes them (on Redis
// Cluster, if their names have one hash tag). Otherwise each is waited for in its
// turn, as by [Manager.Acquire], while those that are held already are extended.
// Holds that began while others were waited for have less than a TTL left; see
// [Locks.Deadline].
//
// It returns [ErrInvalid] if there is no name, or for a bad one; an [ErrLost] if a
// lock was lost while another was waited for; and the other errors of
// [Manager.Acquire]. Whenever it returns an error, what it had taken has been
// given back, or goes away with its TTL if Redis cannot be reached.
func (m *Manager) AcquireAll(ctx context.Context, names ...string) (*Locks, error) {
	if len(names) == 0 {
		return nil, fmt.Errorf("lockmgr: names is empty: %w", ErrInvalid)
	}
	for i, name := range names {
		if err := m.checkName(name); err != nil {
			return nil, fmt.Errorf("names[%d]: %w", i, err)
		}
	}
	names = m.inOrder(names)
	if len(names) > 1 && m.oneSlot(names) {
		if all, err := m.takeAll(ctx, names); all != nil || err != nil {
			return all, err
		}
	}
	return m.acquireEach(ctx, names)
}

// inOrder sorts names by their keys, each key once: on Redis Cluster two names may
// mean one.
func (m *Manager) inOrder(names []string) []string {
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(m.Key(a), m.Key(b)) })
	return slices.CompactFunc(names, func(a, b string) bool { return m.Key(a) == m.Key(b) })
}

// oneSlot reports whether a script may touch all those locks.
func (m *Manager) oneSlot(names []string) bool {
	if m.cluster == nil {
		return true
	}
	first := hashTag(m.Key(names[0]))
	return !slices.ContainsFunc(names, func(name string) bool { return hashTag(m.Key(name)) != first })
}

// takeAll takes all locks at once, or none and returns nil.
func (m *Manager) takeAll(ctx context.Context, names []string) (*Locks, error) {
	if err := m.ended(ctx); err != nil {
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", names, err)
	}
	var keys, tokens []string
	args := []any{m.opts.TTL.Milliseconds()}
	for _, name := range names {
		token := m.newToken(name)
		keys, tokens, args = append(keys, m.Keys(name)...), append(tokens, token), append(args, token)
	}
	sent := time.Now()
	fences, err := m.run(ctx, allScript, keys, args).Int64Slice()
	if err != nil {
		m.leaveAll(names, tokens) // it may have been carried out
		if ended := m.ended(ctx); ended != nil {
			err = ended
		}
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", names, err)
	}
	if len(fences) == 0 {
		return nil, nil
	}
	all := &Locks{m: m}
	for i, name := range names {
		if m.opts.Observer.Acquired != nil {
			m.opts.Observer.Acquired(name, time.Since(sent))
		}
		all.list = append(all.list, newLock(m, name, keys[3*i:3*i+3], tokens[i], m.opts.TTL, &grant{fences[i], sent, m.opts.TTL}))
	}
	return all, nil
}

func (m *Manager) leaveAll(names, tokens []string) {
	for i, name := range names {
		m.leave(name, tokens[i])
	}
}

// acquireEach takes one lock after the other.
func (m *Manager) acquireEach(ctx context.Context, names []string) (_ *Locks, err error) {
	all := &Locks{m: m}
	defer func() {
		if err != nil {
			release, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
			defer cancel()
			_ = all.Release(release) // what is not given back expires
		}
	}()
	waiting := ctx // ends with the first hold that is lost
	for i, name := range names {
		lock, err := m.Acquire(waiting, name)
		if lock != nil {
			all.list = append(all.list, lock)
		}
		if lost := all.Err(); lost != nil {
			return nil, fmt.Errorf("lockmgr: acquire %q: meanwhile %w", name, lost)
		}
		if err != nil {
			return nil, err
		}
		if i < len(names)-1 {
			lock.KeepAlive()
			held, cancel := lock.Context(waiting)
			defer cancel()
			waiting = held
		}
	}
	for _, lock := range all.list {
		lock.StopKeepAlive()
		if time.Until(lock.Deadline()) < lock.ttl/2 { // handed over just now
			if err := lock.Extend(ctx); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}
