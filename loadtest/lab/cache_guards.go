package lab

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/cachefill"
)

// errNoValue says that there is no value, and that the caller may not load one.
var errNoValue = errors.New("no value")

// unguarded lets all callers ask the database.
type unguarded struct{}

func (unguarded) open(*entry, *process) (func(), error) { return func() {}, nil }

func (unguarded) leaveOld(ctx context.Context, e *entry) error { return e.keepOld(ctx) }

func (unguarded) get(ctx context.Context, e *entry, c *caller) (string, error) {
	if value, err := c.get(ctx, e.value); !errors.Is(err, redis.Nil) {
		return value, err
	}
	return e.rebuild(ctx, c, false)
}

// rebuild loads the value and stores it. It stores also that there is none, if it keeps
// empty results.
func (e *entry) rebuild(ctx context.Context, c *caller, keepsEmpty bool) (string, error) {
	value, err := e.load(ctx, c)
	if err != nil {
		return "", err
	}
	if value == "" {
		if !keepsEmpty {
			return "", nil
		}
		value = emptyCode
	}
	return value, c.do(ctx, "SETEX", e.value, seconds(cacheFresh), value).Err()
}

// keepOld leaves a copy of the old value beside the entry.
func (e *entry) keepOld(ctx context.Context) error {
	return e.x.processes[0].rdb.Set(ctx, e.old, oldValue, e.x.seconds(cacheFresh)).Err()
}

// errTimedOut says that the caller has waited for the lock in vain.
var errTimedOut = errors.New("the lock did not come free")

// locked is a lock of the articles in front of the database. Its holder loads and stores
// the value, without looking again. The others use the old value if there is one and the
// lock does not wait, and otherwise wait. After vanished they read the value, which should be there.
// timedOut is an error, unless the caller may look once more.
type locked struct{ lock *lock }

func (locked) open(*entry, *process) (func(), error) { return func() {}, nil }

func (locked) leaveOld(ctx context.Context, e *entry) error { return e.keepOld(ctx) }

func (l locked) get(ctx context.Context, e *entry, c *caller) (string, error) {
	if value, err := c.get(ctx, e.value); !errors.Is(err, redis.Nil) {
		return value, err
	}
	if l.lock.wait == nil {
		if took, err := l.lock.try(ctx, c); err != nil {
			return "", err
		} else if !took && e.keeps {
			return c.read(ctx, e.old)
		} else if !took {
			return e.await(ctx, c)
		}
		return l.rebuild(ctx, e, c)
	}
	got, err := l.lock.wait(ctx, c)
	switch {
	case err != nil:
		return "", err
	case got == vanished, got == timedOut && l.lock.looksAfterTimeout:
		return c.read(ctx, e.value)
	case got == timedOut:
		return "", errTimedOut
	}
	return l.rebuild(ctx, e, c)
}

// rebuild loads and stores the value, and releases the lock.
func (l locked) rebuild(ctx context.Context, e *entry, c *caller) (string, error) {
	value, err := e.rebuild(ctx, c, l.lock.keepsEmpty)
	if err != nil {
		return "", err
	}
	return value, l.lock.unlock(ctx, c)
}

// await reads until somebody else has stored the value.
func (e *entry) await(ctx context.Context, c *caller) (string, error) {
	for {
		if err := c.pause(ctx, spinPause); err != nil {
			return "", err
		}
		if value, err := c.read(ctx, e.value); !errors.Is(err, errNoValue) {
			return value, err
		}
	}
}

// read returns a value that should be there.
func (p *process) read(ctx context.Context, key string) (string, error) {
	value, err := p.get(ctx, key)
	if errors.Is(err, redis.Nil) {
		return "", errNoValue
	}
	return value, err
}

// filled is lockmgr's guard, with the published numbers.
type filled struct{ caches map[*process]*cachefill.Cache }

func newFilled() filled { return filled{make(map[*process]*cachefill.Cache)} }

// fillTTL is the TTL of its lock, in published seconds.
const fillTTL = timestampTTL

// cacheKey is the entry's key in the cache.
const cacheKey = "lobby"

func (f filled) open(e *entry, p *process) (func(), error) {
	cache, done, err := openCache(e, p)
	f.caches[p] = cache
	return done, err
}

func openCache(e *entry, p *process) (*cachefill.Cache, func(), error) {
	locks, err := lockmgr.New(p.rdb, lockmgr.Options{})
	if err != nil {
		return nil, nil, err
	}
	opts := cachefill.Options{
		Prefix: e.value + ":", Fresh: e.x.seconds(cacheFresh),
		LockTTL: e.x.seconds(fillTTL), Wait: e.x.seconds(timestampMax), Poll: e.x.seconds(timestampPause),
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

// leaveOld stores a value, and sets back its time.
func (f filled) leaveOld(ctx context.Context, e *entry) error {
	p := e.x.processes[0]
	cache, done, err := openCache(e, p)
	if err != nil {
		return err
	}
	defer done()
	if _, err = cache.Get(ctx, cacheKey, func(context.Context) ([]byte, error) { return []byte(oldValue), nil }); err != nil {
		return err
	}
	return p.rdb.HIncrBy(ctx, e.value+":"+cacheKey, "at", -e.x.seconds(cacheFresh).Microseconds()).Err()
}

func (f filled) get(ctx context.Context, e *entry, c *caller) (string, error) {
	value, err := f.caches[c.process].Get(ctx, cacheKey, func(ctx context.Context) ([]byte, error) {
		value, err := e.load(ctx, c)
		return []byte(value), err
	})
	return string(value), err
}
