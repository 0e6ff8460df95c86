package lockmgr

import (
	"sync"
	"time"
)

// lifespan is how long a hold can be trusted, and how it ended. All of it is guarded by mu,
// its Lock's.
type lifespan struct {
	mu         *sync.Mutex
	lost       func()        // called with mu when the hold was lost
	deadline   time.Time     // carries a monotonic reading
	unanswered bool          // Redis has not answered the last extension
	over       error         // ErrReleased, or how it was lost
	done       chan struct{} // nil until somebody asks for it
	expiry     *time.Timer   // runs if done is not nil
}

// errLocked returns how the hold ended, or nil.
func (s *lifespan) errLocked() error {
	if s.over == nil && !time.Now().Before(s.deadline) {
		if s.unanswered {
			s.loseLocked(ErrUnreachable)
		} else {
			s.loseLocked(ErrExpired)
		}
	}
	return s.over
}

// doneLocked returns a channel that is closed when the hold ends.
func (s *lifespan) doneLocked() <-chan struct{} {
	if s.done == nil {
		over := s.errLocked()
		s.done = make(chan struct{})
		if over != nil {
			close(s.done)
		} else {
			s.watchDeadlineLocked()
		}
	}
	return s.done
}

// watchDeadlineLocked closes done when the deadline passes. An extension moves it.
func (s *lifespan) watchDeadlineLocked() {
	s.expiry = time.AfterFunc(time.Until(s.deadline), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.errLocked() == nil {
			s.expiry.Reset(time.Until(s.deadline))
		}
	})
}

// endLocked ends the hold, unless it is over.
func (s *lifespan) endLocked(why error) bool {
	if s.over != nil {
		return false
	}
	s.over = why
	if s.done != nil {
		close(s.done)
	}
	if s.expiry != nil {
		s.expiry.Stop()
	}
	return true
}

// loseLocked ends the hold without a release.
func (s *lifespan) loseLocked(cause error) {
	if s.endLocked(cause) {
		s.lost()
	}
}
