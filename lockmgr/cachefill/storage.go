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

// maxMessage is how much of an error's text other processes see, in bytes.
const maxMessage = 1000

// errNotKept says that Redis refused the value or the error. The lock was released all the same.
var errNotKept = errors.New("redis did not keep it")

// entry has the names that belong to a caller's key.
type entry struct {
	key     string // the caller's
	lock    string // name of the loader's lock; its suffix separates the lock's keys from entries
	value   string // key in Redis
	failure string // key in Redis
}

// storage keeps entries in Redis.
type storage struct {
	locks   *lockmgr.Manager
	opts    Options
	cluster bool // Redis Cluster: keys get a hash tag
}

// entry returns the entry of a caller's key, or an ErrInvalid that says what is wrong with the key.
func (s *storage) entry(key string) (entry, error) {
	switch {
	case key == "":
		return entry{}, invalid("key is empty")
	case len(key) > maxKey:
		return entry{}, invalid("key is %d bytes long, at most %d are allowed", len(key), maxKey)
	case s.cluster && strings.ContainsAny(key, "{}"):
		return entry{}, invalid("key %q holds a brace, which would break the hash tag", key)
	}
	value := s.opts.Prefix + key
	if s.cluster {
		value = s.opts.Prefix + "{" + key + "}"
	}
	lock := value + ":Fill"
	return entry{key: key, lock: lock, value: value, failure: s.locks.Key(lock) + ":Failure"}, nil
}

// sight is an entry as Redis had it at one moment.
type sight struct {
	found bool // there is a value that may be returned
	fresh bool // the value need not be loaded again
	value []byte

	failure  string    // text of the last failure
	failedBy string    // token of the load that failed, "" if no failure is stored
	failedAt time.Time // by the local clock, never later than the failure
	backoff  bool      // it is too early to refresh a stale value
}

// look reads an entry. The Options of this process decide how old the value may be, not those of the process
// that stored it.
func (s *storage) look(ctx context.Context, e entry) (sight, error) {
	sent := time.Now()
	reply, err := s.locks.Run(ctx, lookScript, e.lock, []string{e.value, e.failure}).Slice()
	if err != nil {
		return sight{}, err
	}
	var seen sight
	if value, ok := reply[0].(string); ok {
		age := micros(reply[1])
		seen.found = 0 <= age && age < s.opts.Fresh+s.opts.Stale
		seen.fresh = seen.found && age < s.opts.Fresh
		seen.value = []byte(value)
	}
	if age := micros(reply[3]); age >= 0 {
		seen.failure, _ = reply[2].(string)
		seen.failedBy, _ = reply[4].(string)
		seen.failedAt = sent.Add(-age)
		seen.backoff = age < s.opts.Backoff
	}
	return seen, nil
}

func micros(reply any) time.Duration {
	n, _ := reply.(int64)
	return time.Duration(n) * time.Microsecond
}

// failedAfter reports whether a load has failed since earlier was seen. It compares the tokens of loads, so it
// does not depend on clocks.
func (s sight) failedAfter(earlier sight) bool {
	return s.failedBy != "" && s.failedBy != earlier.failedBy
}

// store stores a value and releases the lock. It reports false if the lock was lost.
func (s *storage) store(ctx context.Context, e entry, lock *lockmgr.Lock, value []byte) (bool, error) {
	return s.finish(ctx, e, lock, []string{e.value, e.failure}, "value", value, s.opts.Fresh+s.opts.Stale)
}

// fail stores the error of a load for other processes, and releases the lock. It reports false if the lock was lost.
func (s *storage) fail(ctx context.Context, e entry, lock *lockmgr.Lock, failure error) (bool, error) {
	message := failure.Error()
	message = strings.ToValidUTF8(message[:min(len(message), maxMessage)], "")
	return s.finish(ctx, e, lock, []string{e.failure}, "message", message, s.opts.Backoff)
}

// finish stores the value or the error of a load, and releases the lock. It reports false if the lock was lost. With
// errNotKept the lock is released, too.
func (s *storage) finish(ctx context.Context, e entry, lock *lockmgr.Lock, keys []string, field string, content any,
	keep time.Duration) (bool, error) {
	lock.StopKeepAlive()
	reply, err := s.locks.Run(ctx, finishScript, e.lock, keys, lock.Token(), field, content,
		keep.Milliseconds()).Slice()
	if err != nil {
		return false, err
	}
	if reply[0] != int64(1) {
		lock.WriteRefused()
		return false, nil
	}
	lock.Released()
	if len(reply) > 1 && reply[1] != nil {
		return true, fmt.Errorf("%w: %v", errNotKept, reply[1])
	}
	return true, nil
}
