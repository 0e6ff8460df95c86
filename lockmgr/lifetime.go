package lockmgr

import (
	"context"
	"sync"
)

// lifetime ends a Manager's waiting, and counts what Close has to wait for.
type lifetime struct {
	ctx context.Context // ends when Close begins
	end context.CancelFunc

	calls sync.WaitGroup // callers that may begin requests: grows under mu, until ctx has ended
	tasks sync.WaitGroup // goroutines that ask Redis: grows under mu, until sealed

	mu     sync.Mutex
	sealed bool // guarded by mu: Close waits for the last tasks
}

func newLifetime() *lifetime {
	l := new(lifetime)
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// enter counts a caller in calls, or returns why it may not begin. Without an error the
// caller says calls.Done when it has ended.
func (l *lifetime) enter(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ended(ctx); err != nil {
		return err
	}
	l.calls.Add(1)
	return nil
}

// spawn runs f in a goroutine that Close waits for. Once Close waits for the last of
// them, spawn does nothing and returns false.
func (l *lifetime) spawn(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sealed {
		return false
	}
	l.tasks.Go(f)
	return true
}

// ended returns why a caller has to stop waiting, or nil.
func (l *lifetime) ended(ctx context.Context) error {
	if l.ctx.Err() != nil {
		return ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// shut ends all waiting.
func (l *lifetime) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end()
}

// wait waits for the callers, and then for the goroutines.
func (l *lifetime) wait() {
	l.calls.Wait()
	l.mu.Lock()
	l.sealed = true
	l.mu.Unlock()
	l.tasks.Wait()
}
