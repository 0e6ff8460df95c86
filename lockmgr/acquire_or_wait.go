package lockmgr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Defaults of [WaitOptions].
const (
	DefaultWaitTTL     = 2 * time.Second
	DefaultWaitTimeout = 5 * time.Second
	DefaultWaitPoll    = 100 * time.Millisecond
)

// WaitOptions say how [Manager.AcquireOrWait] waits. The zero value is ready to use.
type WaitOptions struct {
	// TTL is how long the hold lasts if the lock is acquired. Whole milliseconds. Zero means [DefaultWaitTTL].
	TTL time.Duration

	// Wait is how long to wait for another's hold to end. Zero means [DefaultWaitTimeout].
	Wait time.Duration

	// Poll is how often to ask whether that hold has ended. Zero means [DefaultWaitPoll].
	Poll time.Duration
}

func (o WaitOptions) withDefaults() WaitOptions {
	o.TTL = cmp.Or(o.TTL, DefaultWaitTTL)
	o.Wait = cmp.Or(o.Wait, DefaultWaitTimeout)
	o.Poll = cmp.Or(o.Poll, DefaultWaitPoll)
	return o
}

func (o WaitOptions) validate() error {
	switch {
	case o.Wait < 0:
		return invalid("Wait is %v, it must be more than zero", o.Wait)
	case o.Poll < 0:
		return invalid("Poll is %v, it must be more than zero", o.Poll)
	}
	return wholeMilliseconds("TTL", o.TTL)
}

// Outcome says how a [Manager.AcquireOrWait] ended.
type Outcome int

const (
	// TimedOut: another holds the lock, and still does after the wait.
	TimedOut Outcome = iota
	// Acquired: the lock was free, and is ours.
	Acquired
	// Ended: another held the lock, and that hold has ended. The lock was not acquired, because the other has
	// most likely done the work.
	Ended
)

func (o Outcome) String() string {
	names := [...]string{TimedOut: "timed out", Acquired: "acquired", Ended: "ended"}
	if o < 0 || int(o) >= len(names) {
		return fmt.Sprintf("Outcome(%d)", int(o))
	}
	return names[o]
}

// AcquireOrWait acquires the lock of that name if it is free. If somebody else holds it, or is next in the
// queue, AcquireOrWait waits for that hold to end and does not acquire the lock. It is for work that needs to
// be done only once, by the first caller. Package cachefill fills a cache this way.
//
// The Lock is nil unless the outcome is [Acquired]. [Ended] is about the hold that AcquireOrWait found first, even
// if another one follows it. It does not say how that hold ended: by a release, or because its holder died.
//
// It returns the errors of [Manager.TryAcquire] except ErrHeld; [ErrInvalid] for a bad option; and the cause of ctx
// together with [ErrHeld] if ctx ends during the wait. The outcome is then TimedOut, and the caller does not hold
// the lock.
func (m *Manager) AcquireOrWait(ctx context.Context, name string, opts WaitOptions) (Outcome, *Lock, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return TimedOut, nil, err
	}
	lock, holder, err := m.try(ctx, name, opts.TTL)
	outcome := TimedOut
	switch {
	case lock != nil:
		outcome = Acquired
	case err == nil:
		outcome, err = m.waitForEnd(ctx, name, holder, opts)
	}
	if err != nil {
		return TimedOut, nil, fmt.Errorf("lockmgr: acquire %q: %w", name, err)
	}
	return outcome, lock, nil
}

// waitForEnd polls the lock until the hold of holder has ended, or opts.Wait is over.
func (m *Manager) waitForEnd(ctx context.Context, name, holder string, opts WaitOptions) (Outcome, error) {
	if err := m.enter(ctx, name); err != nil {
		return TimedOut, err
	}
	defer m.life.calls.Done()
	end := time.Now().Add(opts.Wait)
	poll := time.NewTimer(min(opts.Poll, opts.Wait))
	defer poll.Stop()
	for {
		select {
		case <-poll.C:
		case <-ctx.Done():
			return TimedOut, fmt.Errorf("%w: %w", ErrHeld, context.Cause(ctx))
		case <-m.life.ctx.Done():
			return TimedOut, ErrClosed
		}
		now, err := m.holdOf(ctx, name, holder)
		switch {
		case err != nil && ctx.Err() != nil:
			return TimedOut, fmt.Errorf("%w: %w", ErrHeld, context.Cause(ctx))
		case err != nil:
			return TimedOut, err
		case now == "":
			return Ended, nil
		}
		holder = now
		left := time.Until(end)
		if left <= 0 {
			return TimedOut, nil
		}
		poll.Reset(min(opts.Poll, left))
	}
}

// holdOf returns the token that continues the hold of holder, or "" if that hold has ended. The token changes
// when the holder's caller got no answer and asked again: lock_inherit then buries the first token. If the hold
// of the new token has ended as well, holdOf mistakes a later hold for it.
func (m *Manager) holdOf(ctx context.Context, name, holder string) (token string, err error) {
	return start(m.life, func() (string, error) {
		own, client := m.sender.own.Context(), m.sender.client
		now, err := client.Get(own, m.Key(name)).Result()
		if err == nil && now != holder {
			var score float64
			if score, err = client.ZScore(own, m.Keys(name)[1], holder).Result(); score < 1e18 {
				now = ""
			}
		}
		if errors.Is(err, redis.Nil) {
			return "", nil
		}
		return now, err
	}).waitOpen(ctx, m.life)
}
