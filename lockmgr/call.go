package lockmgr

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
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

// run runs f in a goroutine that Close waits for; or itself, once Close waits for the last of them.
func (l *lifetime) run(f func()) {
	l.mu.Lock()
	sealed := l.sealed
	if !sealed {
		l.tasks.Go(f)
	}
	l.mu.Unlock()
	if sealed {
		f()
	}
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

// call asks Redis in a goroutine of its own. Who made it may stop waiting; it then still
// runs, and may have its effect. What has to come after it waits for done.
type call[T any] struct {
	done  chan struct{}
	value T     // written before done is closed
	err   error // written before done is closed
}

// start makes a call: it runs ask, once, in a goroutine that Close waits for; or in the caller's if the
// Manager is closed.
func start[T any](life *lifetime, ask func() (T, error)) *call[T] {
	c := &call[T]{done: make(chan struct{})}
	life.run(func() { c.finish(ask()) })
	return c
}

// finish records the call's result.
func (c *call[T]) finish(value T, err error) {
	c.value, c.err = value, err
	close(c.done)
}

// wait returns the call's result, or the cause of ctx if that ends before.
func (c *call[T]) wait(ctx context.Context) (T, error) {
	select {
	case <-c.done:
		return c.value, c.err
	default:
	}
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// waitOpen is wait that also ends, with ErrClosed, when the Manager is closed.
func (c *call[T]) waitOpen(ctx context.Context, life *lifetime) (T, error) {
	select {
	case <-c.done:
		return c.value, c.err
	case <-ctx.Done():
	case <-life.ctx.Done():
	}
	var none T
	return none, life.ended(ctx)
}

// waitAtMost waits for the call, but no longer than d.
func (c *call[T]) waitAtMost(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	_, _ = c.wait(ctx)
}

// sends is an argument of a request that counts how often the client has put it on the
// wire: more than once means that an earlier copy may have been carried out.
type sends struct {
	arg  string
	sent atomic.Int32
}

// MarshalBinary returns the argument. The client calls it each time it writes it.
func (s *sends) MarshalBinary() ([]byte, error) {
	s.sent.Add(1)
	return []byte(s.arg), nil
}

// again reports whether the request was sent more than once.
func (s *sends) again() bool { return s.sent.Load() > 1 }
