package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
)

// managed is roomd/lockmgr: waiters queue in Redis and are woken.
type managed struct {
	client  *redis.Client
	manager *lockmgr.Manager
	faults  *faults
}

func openLockmgr(t target, f *faults) (locks, error) { return openManaged(t, f, false) }

// openPipelined lets holds of different locks share round trips, as rueidis does by
// itself.
func openPipelined(t target, f *faults) (locks, error) { return openManaged(t, f, true) }

func openManaged(t target, f *faults, pipelined bool) (locks, error) {
	client, err := t.client()
	if err != nil {
		return nil, err
	}
	manager, err := lockmgr.New(client, lockmgr.Options{TTL: holdTTL, Poll: retryDelay, Pipelined: pipelined})
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return &managed{client, manager, f}, nil
}

func (m *managed) Acquire(ctx context.Context, key string) (func(), error) {
	lock, err := m.manager.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return func() { m.faults.add(lock.Release(context.Background())) }, nil
}

// Close takes a Manager with or without a Close.
func (m *managed) Close() {
	switch c := any(m.manager).(type) {
	case interface{ Close() error }:
		m.faults.add(c.Close())
	case interface{ Close() }:
		c.Close()
	}
	_ = m.client.Close()
}
