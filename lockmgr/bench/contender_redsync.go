package main

import (
	"context"
	"errors"
	"math"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// synced is redsync with a single Redis: waiters ask again at even intervals, and
// make sure after each refusal that they have left nothing behind.
type synced struct {
	client *redis.Client
	sync   *redsync.Redsync
	faults *faults
}

func openRedsync(t target, f *faults) (locks, error) {
	client, err := t.client()
	if err != nil {
		return nil, err
	}
	return &synced{client, redsync.New(goredis.NewPool(client)), f}, nil
}

func (s *synced) Acquire(ctx context.Context, key string) (func(), error) {
	mutex := s.sync.NewMutex(key,
		redsync.WithExpiry(holdTTL),
		redsync.WithRetryDelay(retryDelay),
		redsync.WithTries(math.MaxInt32), // the context ends it
	)
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return func() {
		ok, err := mutex.UnlockContext(context.Background())
		if err == nil && !ok {
			err = errors.New("redsync: the lock was not ours at its release")
		}
		s.faults.add(err)
	}, nil
}

func (s *synced) Close() { _ = s.client.Close() }
