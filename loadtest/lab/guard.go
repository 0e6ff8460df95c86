package lab

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/cachefill"
)

// guard is what stands between the callers of an entry and the database.
type guard interface {
	// open prepares a process, and returns the function that undoes it.
	open(e *entry, p *process) (func(), error)
	// leaveOld makes an entry that has only its old value.
	leaveOld(ctx context.Context, e *entry) error
	// get returns the entry's value for a caller, or the old one.
	get(ctx context.Context, e *entry, c *caller) (string, error)
}

var (
	errNoValue  = errors.New("no value, and the caller may not load one")
	errTimedOut = errors.New("the lock did not come free")
	errDied     = errors.New("the loader has died") // it does nothing more
)

// locked is a lock of the articles in front of the database, or nothing. Its holder loads and stores the value, without
// looking again. The others use the old value if there is one and the lock does not wait, and otherwise wait. After
// vanished they read the value, which should be there. timedOut is an error, unless the caller may look once more.
type locked struct{ lock *lock }

func (locked) open(*entry, *process) (func(), error) { return func() {}, nil }

// leaveOld leaves a copy of the old value beside the entry.
func (locked) leaveOld(ctx context.Context, e *entry) error {
	return e.x.home.rdb.Set(ctx, e.old, oldValue, e.x.seconds(cacheFresh)).Err()
}

func (l locked) get(ctx context.Context, e *entry, c *caller) (string, error) {
	if value, err := c.get(ctx, e.value); !errors.Is(err, redis.Nil) {
		return value, err
	}
	switch {
	case l.lock == nil:
		return e.rebuild(ctx, c, false)
	case l.lock.wait == nil:
		took, err := l.lock.try(ctx, c)
		switch {
		case err != nil:
			return "", err
		case took:
			return l.rebuild(ctx, e, c)
		case e.keeps:
			return c.read(ctx, e.old)
		}
		return e.await(ctx, c)
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

// rebuild loads the value and stores it. It stores also that there is none, if it keeps empty results.
func (e *entry) rebuild(ctx context.Context, c *caller, keepsEmpty bool) (string, error) {
	value, err := e.load(ctx, c)
	if err != nil || value == "" && !keepsEmpty {
		return "", err
	}
	if value == "" {
		value = emptyCode
	}
	return value, c.do(ctx, "SETEX", e.value, seconds(cacheFresh), value).Err()
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
type filled map[*process]*cachefill.Cache

// cacheKey is the entry's key in the cache.
const cacheKey = "lobby"

func (f filled) open(e *entry, p *process) (func(), error) {
	locks, err := lockmgr.New(p.rdb, lockmgr.Options{})
	if err != nil {
		return nil, err
	}
	opts := cachefill.Options{
		Prefix: e.value + ":", Fresh: e.x.seconds(cacheFresh),
		LockTTL: e.x.seconds(timestampTTL), Wait: e.x.seconds(timestampMax), Poll: e.x.seconds(timestampPause),
	}
	if e.keeps {
		opts.Stale = e.x.seconds(cacheFresh)
	}
	f[p], err = cachefill.New(locks, opts)
	if err != nil {
		locks.Close()
		return nil, err
	}
	return func() { f[p].Close(); locks.Close() }, nil
}

// leaveOld stores a value, and sets back its time.
func (f filled) leaveOld(ctx context.Context, e *entry) error {
	done, err := f.open(e, e.x.home)
	if err != nil {
		return err
	}
	defer done()
	if _, err = f[e.x.home].Get(ctx, cacheKey, func(context.Context) ([]byte, error) { return []byte(oldValue), nil }); err != nil {
		return err
	}
	return e.x.home.rdb.HIncrBy(ctx, e.value+":"+cacheKey, "at", -e.x.seconds(cacheFresh).Microseconds()).Err()
}

func (f filled) get(ctx context.Context, e *entry, c *caller) (string, error) {
	value, err := f[c.process].Get(ctx, cacheKey, func(ctx context.Context) ([]byte, error) {
		value, err := e.load(ctx, c)
		return []byte(value), err
	})
	return string(value), err
}
