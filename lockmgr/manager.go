package lockmgr

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// cleanupTimeout bounds the clean-up after an acquire that gave up. The context
// that ended can no longer be used for it.
const cleanupTimeout = time.Second

// Manager takes locks on one Redis. It is safe for concurrent use.
type Manager struct {
	client redis.UniversalClient
	opts   Options
}

// New returns a Manager that keeps its locks on client. It sends nothing.
//
// For calls to end with their contexts the client needs ContextTimeoutEnabled;
// without it go-redis waits for its own ReadTimeout first.
//
// New returns an error that names the field if client is nil or opts cannot be
// used.
func New(client redis.UniversalClient, opts Options) (*Manager, error) {
	if client == nil {
		return nil, fmt.Errorf("lockmgr: client is nil: %w", ErrInvalid)
	}
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrInvalid)
	}
	return &Manager{client: client, opts: opts}, nil
}

// Key returns the key under which the lock of that name is kept.
func (m *Manager) Key(name string) string { return m.opts.Prefix + name }

// TTL returns how long a hold lasts.
func (m *Manager) TTL() time.Duration { return m.opts.TTL }

// Acquire takes the lock of that name, and waits while somebody else holds it,
// asking again every Options.Poll.
//
// It returns the cause of ctx (wrapped with [ErrHeld] if the lock was seen held)
// when ctx ends first, [ErrInvalid] for a bad name, and the client's error if
// Redis cannot be asked. Whenever it returns an error the lock is not held.
func (m *Manager) Acquire(ctx context.Context, name string) (*Lock, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	token := newToken(name)
	var pause *time.Timer
	for {
		lock, err := m.try(ctx, name, token)
		if lock != nil || err != nil {
			return lock, err
		}
		if pause == nil {
			pause = time.NewTimer(m.opts.Poll)
			defer pause.Stop()
		} else {
			pause.Reset(m.opts.Poll)
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return nil, fmt.Errorf("lockmgr: acquire %q: %w: %w", name, ErrHeld, context.Cause(ctx))
		}
	}
}

// TryAcquire takes the lock of that name if it is free and returns [ErrHeld] if
// it is not. Its other errors are those of [Manager.Acquire].
func (m *Manager) TryAcquire(ctx context.Context, name string) (*Lock, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	lock, err := m.try(ctx, name, newToken(name))
	if err == nil && lock == nil {
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", name, ErrHeld)
	}
	return lock, err
}

// try asks once for the lock. Neither a lock nor an error means that somebody
// else holds it.
func (m *Manager) try(ctx context.Context, name, token string) (*Lock, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", name, context.Cause(ctx))
	}
	sent := time.Now()
	taken, err := acquireScript.Run(ctx, m.client, []string{m.Key(name)}, token, m.opts.TTL.Milliseconds()).Int()
	if err != nil {
		// The request may have arrived although its reply did not.
		m.giveBack(ctx, name, token)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("lockmgr: acquire %q: %w", name, err)
	}
	if taken == 0 {
		return nil, nil
	}
	return &Lock{m: m, name: name, token: token, deadline: sent.Add(m.opts.TTL)}, nil
}

// giveBack removes what an acquire of unknown outcome may have left. If Redis
// cannot be reached, the TTL does it.
func (m *Manager) giveBack(ctx context.Context, name, token string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	_ = releaseScript.Run(ctx, m.client, []string{m.Key(name)}, token).Err()
}

// newToken returns a value that no other hold has or will have.
func newToken(name string) string { return name + ":" + uuid.NewString() }

func checkName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("lockmgr: name is empty: %w", ErrInvalid)
	case len(name) > MaxName:
		return fmt.Errorf("lockmgr: name is %d bytes long, at most %d are allowed: %w", len(name), MaxName, ErrInvalid)
	}
	return nil
}
