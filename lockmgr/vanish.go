package lockmgr

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Defaults of [VanishOptions].
const (
	DefaultVanishTTL  = 2 * time.Second
	DefaultVanishWait = 5 * time.Second
	DefaultVanishPoll = 100 * time.Millisecond
)

// VanishOptions say how [Manager.AcquireOrVanish] waits. The zero value is ready
// to use.
type VanishOptions struct {
	// TTL is how long the hold lasts if the lock is acquired. Whole
	// milliseconds. Zero means [DefaultVanishTTL].
	TTL time.Duration

	// Wait is how long to wait for another's hold to go away. Zero means
	// [DefaultVanishWait].
	Wait time.Duration

	// Poll is how often to look whether it has. Zero means [DefaultVanishPoll].
	Poll time.Duration
}

func (o VanishOptions) withDefaults() VanishOptions {
	if o.TTL == 0 {
		o.TTL = DefaultVanishTTL
	}
	if o.Wait == 0 {
		o.Wait = DefaultVanishWait
	}
	if o.Poll == 0 {
		o.Poll = DefaultVanishPoll
	}
	return o
}

func (o VanishOptions) validate() error {
	switch {
	case o.TTL < time.Millisecond || o.TTL%time.Millisecond != 0:
		return fmt.Errorf("lockmgr: TTL is %v, it must be at least 1ms, in whole milliseconds: %w", o.TTL, ErrInvalid)
	case o.Wait < 0:
		return fmt.Errorf("lockmgr: Wait is %v, it must be more than zero: %w", o.Wait, ErrInvalid)
	case o.Poll < 0:
		return fmt.Errorf("lockmgr: Poll is %v, it must be more than zero: %w", o.Poll, ErrInvalid)
	}
	return nil
}

// Outcome is what became of an [Manager.AcquireOrVanish].
type Outcome int

const (
	// TimedOut: another holds the lock, and still does after the wait.
	TimedOut Outcome = iota
	// Acquired: the lock was free, and is ours.
	Acquired
	// Vanished: another held the lock, and that hold has ended. The lock was not
	// taken: what it was for should be done.
	Vanished
)

func (o Outcome) String() string {
	switch o {
	case TimedOut:
		return "timed out"
	case Acquired:
		return "acquired"
	case Vanished:
		return "vanished"
	}
	return fmt.Sprintf("Outcome(%d)", int(o))
}

// AcquireOrVanish takes the lock of that name if it is free. If somebody else
// holds it, or is the next to, it waits for that hold to end, and then does not
// take the lock: for work that needs to be done once, by whoever comes first. See
// package cachefill for a cache that is filled this way.
//
// The Lock is nil unless the outcome is [Acquired]. [Vanished] is about the hold
// that was found at first, even if yet another one follows it. It says nothing of
// how that hold ended: by a release, or because its holder died.
//
// It returns [ErrInvalid] for a bad name, or for an option that cannot be used;
// the cause of ctx, together with [ErrHeld], when ctx ends first; [ErrClosed]; and
// the client's error if Redis cannot be asked. The outcome is then TimedOut, and
// the lock is not held.
func (m *Manager) AcquireOrVanish(ctx context.Context, name string, opts VanishOptions) (Outcome, *Lock, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return TimedOut, nil, err
	}
	if err := m.enter(ctx, name); err != nil {
		return TimedOut, nil, fmt.Errorf("lockmgr: acquire %q: %w", name, err)
	}
	defer m.calls.Done()
	lock, holder, err := m.takeOrSee(ctx, name, opts.TTL)
	switch {
	case err != nil:
		return TimedOut, nil, fmt.Errorf("lockmgr: acquire %q: %w", name, err)
	case lock != nil:
		return Acquired, lock, nil
	}
	gone, err := m.seeGone(ctx, name, holder, opts)
	switch {
	case err != nil:
		return TimedOut, nil, fmt.Errorf("lockmgr: acquire %q: %w", name, err)
	case gone:
		return Vanished, nil, nil
	}
	return TimedOut, nil, nil
}

// takeOrSee asks once for the lock, and returns who has it if it is not free.
func (m *Manager) takeOrSee(ctx context.Context, name string, ttl time.Duration) (_ *Lock, holder string, err error) {
	s, sent := m.newSlot(name), time.Now()
	cmd, err := s.ask(ctx, func(ctx context.Context) *redis.Cmd {
		return m.runOn(ctx, vanishScript, s.on, s.token, ttl.Milliseconds())
	})
	if err != nil {
		s.leave()
		return nil, "", err
	}
	reply, err := cmd.Slice()
	if err != nil {
		return nil, "", err
	}
	if len(reply) == 2 {
		holder, _ = reply[1].(string)
		return nil, holder, nil
	}
	g := &grant{parseNumber(reply[0]), sent, ttl}
	if g.over() {
		s.leave()
		return nil, "", errLate
	}
	return m.acquired(&s, g, ttl, sent), "", nil
}

// seeGone looks at the lock until that holder has it no more, or the time is over.
func (m *Manager) seeGone(ctx context.Context, name, holder string, opts VanishOptions) (bool, error) {
	end := time.Now().Add(opts.Wait)
	look := time.NewTimer(min(opts.Poll, opts.Wait))
	defer look.Stop()
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return false, fmt.Errorf("%w: %w", ErrHeld, context.Cause(ctx))
		case <-m.life.Done():
			return false, ErrClosed
		}
		now, err := m.holder(ctx, name)
		switch {
		case err == nil && now != holder:
			return true, nil
		case err != nil && ctx.Err() != nil:
			return false, fmt.Errorf("%w: %w", ErrHeld, context.Cause(ctx))
		case err != nil:
			return false, err
		}
		left := time.Until(end)
		if left <= 0 {
			return false, nil
		}
		look.Reset(min(opts.Poll, left))
	}
}

// holder returns the token that has the lock, or is to have it next; empty if none does.
func (m *Manager) holder(ctx context.Context, name string) (token string, err error) {
	return start(m, func() (string, error) {
		token, err := m.client.Get(m.requests.Context(), m.Key(name)).Result()
		if errors.Is(err, redis.Nil) {
			return "", nil
		}
		return token, err
	}).waitOpen(ctx, m)
}
