package lab

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/cachefill"
)

// errNoValue is what a caller is told who finds no value and may not load one.
var errNoValue = errors.New("no value")

// unguarded callers all ask the database.
type unguarded struct{}

func (unguarded) open(*entry, *process) (func(), error) { return func() {}, nil }

func (unguarded) leaveOld(ctx context.Context, e *entry) error { return e.keepOld(ctx) }

func (unguarded) get(ctx context.Context, e *entry, c *caller) (string, error) {
	if value, err := c.process.rdb.Get(ctx, e.value).Result(); !errors.Is(err, redis.Nil) {
		return value, err
	}
	return e.rebuild(ctx, c)
}

// rebuild loads the value and stores it.
func (e *entry) rebuild(ctx context.Context, c *caller) (string, error) {
	value, err := e.load(ctx)
	if err != nil {
		return "", err
	}
	return value, c.process.rdb.Set(ctx, e.value, value, c.seconds(cacheFresh)).Err()
}

// keepOld leaves a copy of the old value beside the entry.
func (e *entry) keepOld(ctx context.Context) error {
	return e.x.processes[0].rdb.Set(ctx, e.old, oldValue, e.x.seconds(cacheFresh)).Err()
}

// locked is a lock of the articles in front of the database: who has it loads and
// stores, without looking again. With a lock that does not wait, the others use the
// old value; with one that does, they wait. After the outcome "vanished" the value
// is read, and should be there.
type locked struct{ lock *lock }

func (locked) open(*entry, *process) (func(), error) { return func() {}, nil }

func (locked) leaveOld(ctx context.Context, e *entry) error { return e.keepOld(ctx) }

func (l locked) get(ctx context.Context, e *entry, c *caller) (string, error) {
	if value, err := c.process.rdb.Get(ctx, e.value).Result(); !errors.Is(err, redis.Nil) {
		return value, err
	}
	got, err := l.acquire(ctx, c)
	switch {
	case err != nil:
		return "", err
	case got == vanished:
		return c.read(ctx, e.value)
	case got == timedOut:
		return c.read(ctx, e.old)
	}
	value, err := e.rebuild(ctx, c)
	if err != nil {
		return "", err
	}
	return value, l.lock.unlock(ctx, c)
}

// acquire asks once if nothing is published about waiting.
func (l locked) acquire(ctx context.Context, c *caller) (outcome, error) {
	if l.lock.wait != nil {
		got, err := l.lock.wait(ctx, c)
		if errors.Is(err, errBusy) {
			return timedOut, nil
		}
		return got, err
	}
	took, err := l.lock.try(ctx, c)
	if took {
		return acquired, err
	}
	return timedOut, err
}

func (c *caller) read(ctx context.Context, key string) (string, error) {
	value, err := c.process.rdb.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return "", errNoValue
	}
	return value, err
}

// filled is lockmgr's guard, with the published numbers.
type filled struct{ caches map[*process]*cachefill.Cache }

func newFilled() filled { return filled{make(map[*process]*cachefill.Cache)} }

// cacheKey is the entry's key in the cache.
const cacheKey = "lobby"

func (f filled) open(e *entry, p *process) (func(), error) {
	cache, done, err := openCache(e, p, e.x.seconds(cacheFresh))
	f.caches[p] = cache
	return done, err
}

func openCache(e *entry, p *process, fresh time.Duration) (*cachefill.Cache, func(), error) {
	locks, err := lockmgr.New(p.rdb, lockmgr.Options{})
	if err != nil {
		return nil, nil, err
	}
	opts := cachefill.Options{
		Prefix: e.value + ":", Fresh: fresh,
		LockTTL: e.x.seconds(2), Wait: e.x.seconds(5), Poll: e.x.seconds(0.1),
	}
	if e.keeps {
		opts.Stale = e.x.seconds(cacheFresh)
	}
	cache, err := cachefill.New(locks, opts)
	if err != nil {
		locks.Close()
		return nil, nil, err
	}
	return cache, func() { cache.Close(); locks.Close() }, nil
}

// leaveOld stores a value that is fresh for a moment only.
func (f filled) leaveOld(ctx context.Context, e *entry) error {
	const moment = time.Millisecond
	cache, done, err := openCache(e, e.x.processes[0], moment)
	if err != nil {
		return err
	}
	defer done()
	_, err = cache.Get(ctx, cacheKey, func(context.Context) ([]byte, error) { return []byte(oldValue), nil })
	<-time.After(2 * moment)
	return err
}

func (f filled) get(ctx context.Context, e *entry, c *caller) (string, error) {
	value, err := f.caches[c.process].Get(ctx, cacheKey, func(ctx context.Context) ([]byte, error) {
		value, err := e.load(ctx)
		return []byte(value), err
	})
	return string(value), err
}
