package lockmgr

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

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
	if err := m.enter(ctx); err != nil {
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", names, err)
	}
	defer m.calls.Done()
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
	slots, args := make([]slot, len(names)), []any{m.ttl}
	var keys []string
	for i, name := range names {
		slots[i] = m.newSlot(name)
		keys, args = append(keys, slots[i].on.keys...), append(args, slots[i].token)
	}
	sent, first := time.Now(), &slots[0]
	cmd, err := first.ask(ctx, func(ctx context.Context) *redis.Cmd {
		return m.runOn(ctx, allScript, m.onKeys(keys), args...)
	})
	var fences []string
	if err == nil {
		fences, err = cmd.StringSlice()
	}
	if err == nil && len(fences) > 0 && time.Since(sent) >= m.opts.TTL {
		err = errLate
	}
	if err != nil {
		m.leave(slots...)
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", names, err)
	}
	if len(fences) == 0 {
		return nil, nil
	}
	all := &Locks{m: m}
	for i := range slots {
		all.list = append(all.list, m.acquired(&slots[i], &grant{parseNumber(fences[i]), sent, m.opts.TTL}, m.opts.TTL, sent))
	}
	return all, nil
}

// acquireEach takes one lock after the other.
func (m *Manager) acquireEach(ctx context.Context, names []string) (_ *Locks, err error) {
	all := &Locks{m: m}
	defer func() {
		if err != nil {
			release, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupPatience)
			defer cancel()
			_ = all.Release(release) // goes on without us, and what is not given back expires
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
