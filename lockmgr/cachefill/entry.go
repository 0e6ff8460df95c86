package cachefill

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
)

var (
	//go:embed lua/look.lua
	lookLua string
	//go:embed lua/store.lua
	storeLua string
	//go:embed lua/fail.lua
	failLua string
)

var (
	lookScript  = redis.NewScript(lockmgr.Lua + lookLua)
	storeScript = redis.NewScript(lockmgr.Lua + storeLua)
	failScript  = redis.NewScript(lockmgr.Lua + failLua)
)

// maxMessage is how much of an error's text other processes get to see, in bytes.
const maxMessage = 1000

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

// sight is what was found of an entry. Times are Redis' own, in microseconds.
type sight struct {
	found    bool
	value    []byte
	left     time.Duration // until it expires
	failedAt int64         // 0 if no failure is known
	failure  string
	now      int64
}

// fresh reports whether the value needs no loading.
func (s sight) fresh(stale time.Duration) bool { return s.found && s.left > stale }

func (c *Cache) look(ctx context.Context, e entry) (sight, error) {
	reply, err := c.locks.Run(ctx, lookScript, e.lock, []string{e.value, e.failure}).Slice()
	if err != nil {
		return sight{}, err
	}
	var s sight
	if value, ok := reply[0].(string); ok {
		s.found, s.value = true, []byte(value)
	}
	left, _ := reply[1].(int64)
	s.left = time.Duration(left) * time.Millisecond
	if at, ok := reply[2].(string); ok {
		if s.failedAt, err = strconv.ParseInt(at, 10, 64); err != nil {
			return sight{}, fmt.Errorf("time of a failure: %w", err)
		}
		s.failure, _ = reply[3].(string)
	}
	now, _ := reply[4].(string)
	if s.now, err = strconv.ParseInt(now, 10, 64); err != nil {
		return sight{}, fmt.Errorf("time from Redis: %w", err)
	}
	return s, nil
}

// store stores a value and gives the lock back, or reports false: it is not the
// lock's holder's any more.
func (c *Cache) store(ctx context.Context, e entry, lock *lockmgr.Lock, value []byte) (bool, error) {
	return c.locks.Run(ctx, storeScript, e.lock, []string{e.value, e.failure},
		lock.Token(), value, (c.opts.Fresh + c.opts.Stale).Milliseconds()).Bool()
}

// fail tells the other processes that a load has failed, and gives the lock back.
func (c *Cache) fail(ctx context.Context, e entry, lock *lockmgr.Lock, failure error) (bool, error) {
	message := failure.Error()
	message = strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")
	return c.locks.Run(ctx, failScript, e.lock, []string{e.failure},
		lock.Token(), message, c.opts.Backoff.Milliseconds()).Bool()
}
