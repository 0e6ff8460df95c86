package main

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// tracked is rueidislock: waiters hear of a release by client tracking.
type tracked struct{ locker rueidislock.Locker }

func openRueidislock(t target, _ *faults) (locks, error) {
	o, err := rueidis.ParseURL(t.url)
	if err != nil {
		return nil, err
	}
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   o,
		KeyMajority:    1,    // there is one Redis
		NoLoopTracking: true, // what its README advises from Redis 7.0.5 on
	})
	if err != nil {
		return nil, err
	}
	return &tracked{locker}, nil
}

// Acquire keeps the hold from ending with ctx, which is rueidislock's way but
// nobody else's.
func (t *tracked) Acquire(ctx context.Context, key string) (func(), error) {
	if ctx.Done() == nil {
		_, release, err := t.locker.WithContext(ctx, key)
		return release, err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, end)
	_, release, err := t.locker.WithContext(life, key)
	if !detach() && err == nil {
		release()
		err = context.Cause(ctx)
	}
	if err != nil {
		end()
		return nil, err
	}
	return func() { release(); end() }, nil
}

func (t *tracked) Close() { t.locker.Close() }
