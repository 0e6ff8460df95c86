package lockmgr

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// lifetime ends a Manager's waiting, and counts the calls and goroutines that Close waits for.
type lifetime struct {
	ctx context.Context // cancelled when Close is called
	end context.CancelFunc

	calls sync.WaitGroup // callers that may still send requests: grows under mu, until ctx has ended
	tasks sync.WaitGroup // goroutines that ask Redis: grows under mu, until sealed

	mu     sync.Mutex
	sealed bool // guarded by mu: Close waits for the last tasks
}

func newLifetime() *lifetime {
	l := new(lifetime)
	l.ctx, l.end = context.WithCancel(context.Background())
	return l
}

// enter adds a caller to calls, or returns why it is refused. Without an error, the caller has to call
// calls.Done at its end.
func (l *lifetime) enter(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.ended(ctx); err != nil {
		return err
	}
	l.calls.Add(1)
	return nil
}

// run runs f in a goroutine that Close waits for. Once Close waits for the last goroutines, run calls f itself.
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

// call asks Redis in a goroutine of its own. When its caller stops waiting, the call goes on, and may still
// have its effect. Work that has to come after the call waits for done.
type call[T any] struct {
	done  chan struct{}
	value T     // written before done is closed
	err   error // written before done is closed
}

// start runs ask once in a goroutine that Close waits for; see lifetime.run.
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

// wait returns the call's result, or the cause of ctx if ctx ends first.
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

// waitOpen is like wait, but also returns ErrClosed when the Manager is closed.
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

// sends is an argument of a request. It counts how often the client has sent the request: if more than once,
// Redis may have executed an earlier copy.
type sends struct {
	arg  string
	sent atomic.Int32
}

// MarshalBinary returns the argument. The client calls it for each sending.
func (s *sends) MarshalBinary() ([]byte, error) {
	s.sent.Add(1)
	return []byte(s.arg), nil
}

// again reports whether the request was sent more than once.
func (s *sends) again() bool { return s.sent.Load() > 1 }
