package cachefill

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"roomd/lockmgr"
)

var (
	//go:embed lua/look.lua
	lookLua string
	//go:embed lua/finish.lua
	finishLua string
)

var (
	lookScript   = lockmgr.NewScript(lookLua)
	finishScript = lockmgr.NewScript(finishLua)
)

// maxMessage is how much of an error's text other processes get to see, in bytes.
const maxMessage = 1000

// errNotKept says that the lock was given back, but that Redis did not take what
// was to be stored.
var errNotKept = errors.New("redis did not keep it")

// entry is where a caller's key lives.
type entry struct {
	key     string // the caller's
	lock    string // the lock's name; its end keeps the lock's keys apart from those of all entries
	value   string // in Redis
	failure string // in Redis
}

// entry checks a key before anything is sent.
func (c *Cache) entry(key string) (entry, error) {
	switch {
	case key == "":
		return entry{}, fmt.Errorf("cachefill: key is empty: %w", ErrInvalid)
	case len(key) > MaxKey:
		return entry{}, fmt.Errorf("cachefill: key is %d bytes long, at most %d are allowed: %w", len(key), MaxKey, ErrInvalid)
	case c.cluster && strings.ContainsAny(key, "{}"):
		return entry{}, fmt.Errorf("cachefill: key %q holds a brace, which would break the hash tag: %w", key, ErrInvalid)
	}
	value := c.opts.Prefix + key
	if c.cluster {
		value = c.opts.Prefix + "{" + key + "}"
	}
	lock := value + ":Fill"
	return entry{key: key, lock: lock, value: value, failure: c.locks.Key(lock) + ":Failure"}, nil
}

// sight is what was found of an entry.
type sight struct {
	found bool // a value that may be returned
	fresh bool // and that needs no loading
	value []byte

	failure  string    // the text of the last failure
	failedBy string    // the token of the load that failed, "" if none is known
	failedAt time.Time // by our clock, and not later than it was
	backoff  bool      // it is too early to load again for who has a value
}

// look reads an entry and judges by our own options how old it may be, whatever
// those of the process that stored it.
func (c *Cache) look(ctx context.Context, e entry) (sight, error) {
	sent := time.Now()
	reply, err := c.locks.Run(ctx, lookScript, e.lock, []string{e.value, e.failure}).Slice()
	if err != nil {
		return sight{}, err
	}
	var s sight
	if value, ok := reply[0].(string); ok {
		age := micros(reply[1])
		s.found = 0 <= age && age < c.opts.Fresh+c.opts.Stale
		s.fresh = s.found && age < c.opts.Fresh
		s.value = []byte(value)
	}
	if age := micros(reply[3]); age >= 0 {
		s.failure, _ = reply[2].(string)
		s.failedBy, _ = reply[4].(string)
		s.failedAt = sent.Add(-age)
		s.backoff = age < c.opts.Backoff
	}
	return s, nil
}

func micros(reply any) time.Duration {
	n, _ := reply.(int64)
	return time.Duration(n) * time.Microsecond
}

// failedAfter reports whether a load has failed since an earlier look. It compares
// whose load it was, so that no clock matters.
func (s sight) failedAfter(earlier sight) bool {
	return s.failedBy != "" && s.failedBy != earlier.failedBy
}

// store stores a value and gives the lock back, or reports false: the lock is not
// its holder's any more.
func (c *Cache) store(ctx context.Context, e entry, lock *lockmgr.Lock, value []byte) (bool, error) {
	return c.finish(ctx, e, lock, []string{e.value, e.failure}, "value", value, c.opts.Fresh+c.opts.Stale)
}

// fail tells the other processes that a load has failed, and gives the lock back.
func (c *Cache) fail(ctx context.Context, e entry, lock *lockmgr.Lock, failure error) (bool, error) {
	message := failure.Error()
	message = strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")
	return c.finish(ctx, e, lock, []string{e.failure}, "message", message, c.opts.Backoff)
}

// finish leaves in Redis what came of a load, and gives the lock back. It reports
// false if the lock is not its holder's any more. After an errNotKept the hold is
// over as after success.
func (c *Cache) finish(ctx context.Context, e entry, lock *lockmgr.Lock, keys []string, field string, content any, keep time.Duration) (bool, error) {
	lock.StopKeepAlive()
	reply, err := c.locks.Run(ctx, finishScript, e.lock, keys, lock.Token(), field, content, keep.Milliseconds()).Slice()
	if err != nil {
		return false, err
	}
	if reply[0] != int64(1) {
		lock.WriteRefused()
		return false, nil
	}
	lock.Given()
	if len(reply) > 1 && reply[1] != nil {
		return true, fmt.Errorf("%w: %v", errNotKept, reply[1])
	}
	return true, nil
}
