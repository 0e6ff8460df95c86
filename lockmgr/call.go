package lockmgr

import (
	"context"
	"sync/atomic"
	"time"
)

// call asks Redis in a goroutine of its own. Who made it may stop waiting; it then still
// runs, and may have its effect. What has to come after it waits for done.
type call[T any] struct {
	done  chan struct{}
	value T     // written before done is closed
	err   error // written before done is closed
}

func newCall[T any]() *call[T] { return &call[T]{done: make(chan struct{})} }

// start makes a call; see run.
func start[T any](life *lifetime, ask func() (T, error)) *call[T] {
	c := newCall[T]()
	c.run(life, ask)
	return c
}

// run runs ask, once, in a goroutine that Close waits for; or in the caller's if the
// Manager is closed.
func (c *call[T]) run(life *lifetime, ask func() (T, error)) {
	f := func() { c.finish(ask()) }
	if !life.spawn(f) {
		f()
	}
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
