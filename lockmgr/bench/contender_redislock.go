package main

import (
	"context"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// spinning is bsm/redislock: waiters ask again at even intervals.
type spinning struct {
	client *redis.Client
	locker *redislock.Client
	faults *faults
}

func openRedislock(t target, f *faults) (locks, error) {
	client, err := t.client()
	if err != nil {
		return nil, err
	}
	return &spinning{client, redislock.New(client), f}, nil
}

func (s *spinning) Acquire(ctx context.Context, key string) (func(), error) {
	lock, err := s.locker.Obtain(ctx, key, holdTTL, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(retryDelay),
	})
	if err != nil {
		return nil, err
	}
	return func() { s.faults.add(lock.Release(context.Background())) }, nil
}

func (s *spinning) Close() { _ = s.client.Close() }
