package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// AcquireAll acquires the locks of all names, or none. A name that is given twice counts once. AcquireAll
// always acquires locks in the order of their keys, so two calls cannot wait for each other. A caller that
// already holds one of the locks would wait for itself.
//
// If all are free and nobody waits for any, one request acquires them (on Redis Cluster, if their names share a
// hash tag). Otherwise AcquireAll waits for one after the other, as [Manager.Acquire] does, and meanwhile
// extends those that it holds. So a hold may have less than a whole TTL left at the end; see [Locks.Deadline].
//
// It returns [ErrInvalid] for a bad name, for no name, and for more than 1,000, which would keep Redis busy for
// too long; an [ErrLost] if a lock was lost while AcquireAll waited for another, or Redis answered only after the
// TTL; and the other errors of [Manager.Acquire]. When it returns an error, it has released the locks that it
// acquired; if Redis cannot be reached, they expire.
func (m *Manager) AcquireAll(ctx context.Context, names ...string) (*Locks, error) {
	if len(names) == 0 {
		return nil, invalid("names is empty")
	}
	if len(names) > maxNames {
		return nil, invalid("names has %d, at most %d are allowed", len(names), maxNames)
	}
	for i, name := range names {
		if err := m.names.check(name); err != nil {
			return nil, fmt.Errorf("lockmgr: names[%d]: %w", i, err)
		}
	}
	if err := m.enter(ctx); err != nil {
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", names, err)
	}
	defer m.life.calls.Done()
	names = m.names.inOrder(names)
	if len(names) > 1 && m.names.oneSlot(names) {
		if all, err := m.acquireTogether(ctx, names); all != nil || err != nil {
			return all, err
		}
	}
	return m.acquireEach(ctx, names)
}

// acquireTogether acquires all locks by one request. It returns nil if one of them is not free.
func (m *Manager) acquireTogether(ctx context.Context, names []string) (*Locks, error) {
	slots, attempts := make([]Slot, len(names)), make([]attempt, len(names))
	args := []any{m.opts.TTL.Milliseconds()}
	for i, name := range names {
		slots[i].init(m, name)
		attempts[i] = slots[i].attempt()
		args = append(args, slots[i].tokens)
	}
	sent, first, token := time.Now(), &slots[0], slots[0].Token()
	cmd, err := first.ask(ctx, func(ctx context.Context) *redis.Cmd {
		return m.sender.run(ctx, allScript, m.names.together(attempts), args...)
	}, attempts[1:]...)
	var fences []string
	if err == nil {
		fences, err = cmd.StringSlice()
	}
	if err == nil && len(fences) > 0 && time.Since(sent) >= m.opts.TTL {
		err = errLate
	}
	if err != nil || len(fences) == 0 && first.Token() != token { // an earlier copy may have acquired locks
		abandon(m, first.asked, attempts...)
	}
	if err != nil {
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", names, err)
	}
	if len(fences) == 0 {
		return nil, nil
	}
	all := &Locks{m: m}
	for i := range slots {
		all.list = append(all.list, newLock(&slots[i], m.opts.TTL,
			&grant{slots[i].Token(), parseNumber(fences[i]), sent, m.opts.TTL}))
	}
	return all, nil
}

func (m *Manager) acquireEach(ctx context.Context, names []string) (_ *Locks, err error) {
	all := &Locks{m: m}
	defer func() {
		if err != nil {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			_ = all.Release(ended) // goes on in the background; locks that it cannot release expire
		}
	}()
	waiting := ctx // cancelled when the first hold is lost
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
		if time.Until(lock.Deadline()) < lock.ttl/2 { // another process has just handed it over
			if err := lock.Extend(ctx); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// Locks are the holds that [Manager.AcquireAll] acquired. They are safe for concurrent use.
type Locks struct {
	m    *Manager
	list []*Lock // in the order of their keys

	mu   sync.Mutex
	over error // guarded by mu: how the first lost hold ended
}

// Each returns the locks in the order of their acquisition.
func (s *Locks) Each() iter.Seq[*Lock] { return slices.Values(s.list) }

// Lock returns the lock of that name, or nil if it is not among them.
func (s *Locks) Lock(name string) *Lock {
	for _, lock := range s.list {
		if s.m.names.key(lock.name) == s.m.names.key(name) {
			return lock
		}
	}
	return nil
}

// Deadline returns the moment up to which every hold can be trusted.
func (s *Locks) Deadline() time.Time {
	first := s.list[0].Deadline()
	for _, lock := range s.list[1:] {
		if d := lock.Deadline(); d.Before(first) {
			first = d
		}
	}
	return first
}

// Err returns nil while every hold can be trusted; then the [Lock.Err] of the first that ended, with its name.
func (s *Locks) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		return s.over
	}
	for _, lock := range s.list {
		if err := lock.Err(); err != nil {
			s.over = fmt.Errorf("%q: %w", lock.name, err)
			break
		}
	}
	return s.over
}

// Release releases all locks as [Lock.Release] does, by one request (on Redis Cluster, one for each hash tag),
// and joins the errors. All holds are over as soon as Release is called. An error with one lock does not keep
// the others from being released. A second call tries only the locks that were not released.
func (s *Locks) Release(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("lockmgr: release: %w", errNilContext)
	}
	_ = s.Err() // records a hold that was lost before the release
	calls, byTag := make([]*release, len(s.list)), make(map[string]releases)
	for i, lock := range s.list {
		r, begun := lock.beginRelease()
		calls[i] = r
		if tag := s.m.names.slotTag(lock.name); begun {
			byTag[tag] = append(byTag[tag], r)
		}
	}
	for _, together := range byTag {
		var request releaseRequest = together
		if len(together) == 1 {
			request = together[0]
		}
		s.m.askRelease(ctx, request, len(byTag) == 1)
	}
	awaitReleases(ctx, calls...)
	var errs []error
	for i, lock := range s.list {
		if err := lock.releaseOutcome(ctx, calls[i]); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
