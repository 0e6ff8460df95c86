package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"
)

// Locks are several holds that began together; see [Manager.AcquireAll]. They are
// safe for concurrent use.
type Locks struct {
	m    *Manager
	list []*Lock // in the order of their keys

	mu       sync.Mutex
	over     error          // guarded by mu: how the first hold ended
	done     chan struct{}  // guarded by mu: nil until somebody asks for it
	watchers sync.WaitGroup // those who close done: one for each lock, ends with its hold
}

// Each returns the locks in the order in which they were taken.
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

// Deadline returns the moment up to which all of the holds can be trusted.
func (s *Locks) Deadline() time.Time {
	first := s.list[0].Deadline()
	for _, lock := range s.list[1:] {
		if d := lock.Deadline(); d.Before(first) {
			first = d
		}
	}
	return first
}

// KeepAlive starts the watchdog of each; see [Lock.KeepAlive].
func (s *Locks) KeepAlive() {
	for _, lock := range s.list {
		lock.KeepAlive()
	}
}

// Done returns a channel that is closed when the first of the holds is over: it
// was lost, or released. [Locks.Err] says which. The others may still be held:
// call Release in any case.
func (s *Locks) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done != nil {
		return s.done
	}
	s.done = make(chan struct{})
	if s.errLocked() != nil {
		close(s.done)
		return s.done
	}
	closeDone := sync.OnceFunc(func() { close(s.done) })
	for _, lock := range s.list {
		s.watchers.Go(func() {
			<-lock.Done()
			_ = s.Err() // notes how it ended
			closeDone()
		})
	}
	return s.done
}

// Err returns nil while all of the holds can be trusted; then how the first one
// ended, as [Lock.Err] does, with its name.
func (s *Locks) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.errLocked()
}

func (s *Locks) errLocked() error {
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

// Release gives all locks back, the last one taken first, as [Lock.Release] does,
// and returns the errors joined. If one cannot be given back the others are all
// the same. Calling it again tries those that were not given back; when there are
// none it does nothing.
func (s *Locks) Release(ctx context.Context) error {
	_ = s.Err() // notes what was lost before
	var errs []error
	for _, lock := range slices.Backward(s.list) {
		errs = append(errs, lock.Release(ctx))
	}
	if !slices.ContainsFunc(s.list, func(lock *Lock) bool { return lock.Err() == nil }) {
		_ = s.Err() // a Done that was under way has started its watchers; a later one starts none
		s.watchers.Wait()
	}
	return errors.Join(errs...)
}
