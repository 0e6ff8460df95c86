package lab

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/lab/anomaly"
)

// observer reads the contents of Redis between any two commands of a cell's callers.
// The commands pass through it one at a time, and it reads after each. So it is certain
// who held the lock, without any clock.
type observer struct {
	x *cell

	mu     sync.Mutex        // held while a command is carried out
	now    sight             // guarded by mu; the contents after the last command
	sentBy map[string]string // guarded by mu; the only caller that has sent a value, "" for several
}

// sight is the contents of Redis.
type sight struct {
	held    bool
	value   string
	owner   string
	expires time.Duration // earliest expiry, in the cell's time; 0 means never
	gone    time.Duration // latest expiry
	users   []string
}

// effect is what a command changed for its caller.
type effect struct {
	took   bool // the lock is the caller's, and was not before
	gave   bool // the lock was the caller's, and is not any more
	stored bool // the list has changed
	owns   bool // the lock is the caller's now
}

// begin reads the contents for the first time.
func (o *observer) begin(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	o.now, err = o.look(ctx)
	return err
}

// owner returns the holder of the lock, or "".
func (o *observer) owner() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now.owner
}

// timeLeft returns how long the lock lives on at least; zero if it does not expire.
func (o *observer) timeLeft() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return max(0, o.now.expires-time.Since(o.x.history.start))
}

// fences returns the strings that belong to the lock, such as roomd's last fence.
func (o *observer) fences(ctx context.Context) (map[string]string, error) {
	keys, err := o.lockKeys(ctx)
	before := make(map[string]string)
	for _, key := range keys {
		if value, err := o.x.home.rdb.Get(ctx, key).Result(); err == nil {
			before[key] = value
		}
	}
	return before, err
}

func (o *observer) lockKeys(ctx context.Context) ([]string, error) {
	return o.x.home.rdb.Keys(ctx, o.x.lockKey+"*").Result()
}

// failOver sets all keys of the lock back to what they were before, as if the replica
// that is the master now had not heard of the last writes.
func (o *observer) failOver(ctx context.Context, before map[string]string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	keys, err := o.lockKeys(ctx)
	if err != nil {
		return err
	}
	rdb := o.x.home.rdb
	if o.x.d.inHash {
		err = rdb.HDel(ctx, o.x.hashKey, o.x.lockKey).Err()
	}
	for _, key := range keys {
		if value, known := before[key]; known {
			err = errors.Join(err, rdb.Set(ctx, key, value, redis.KeepTTL).Err())
		} else {
			err = errors.Join(err, rdb.Del(ctx, key).Err())
		}
	}
	if err != nil {
		return err
	}
	o.record(anomaly.Event{Kind: anomaly.Forgotten, Owner: o.now.owner})
	o.now, err = o.look(ctx)
	return err
}

// around runs a command of a caller and records what it changed.
func (o *observer) around(ctx context.Context, user string, args []string, carryOut func() error) (effect, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, arg := range args {
		if by, known := o.sentBy[arg]; known && by != user {
			o.sentBy[arg] = ""
		} else if !known {
			o.sentBy[arg] = user
		}
	}
	if err := o.passExpiry(ctx); err != nil {
		return effect{}, err
	}
	if err := carryOut(); err != nil {
		return effect{}, err
	}
	after, err := o.look(ctx)
	if err != nil {
		return effect{}, err
	}
	return o.compare(user, after), nil
}

// expire records that the lock expired at that moment, or before.
func (o *observer) expire(at time.Duration) {
	at = min(at, time.Since(o.x.history.start))
	o.record(anomaly.Event{At: at, Kind: anomaly.Expired, Owner: o.now.owner})
	o.now.held, o.now.owner = false, ""
}

// compare records what a command of user changed.
func (o *observer) compare(user string, after sight) effect {
	before := o.now
	var e effect
	if !slices.Equal(before.users, after.users) || (before.users == nil) != (after.users == nil) {
		e.stored = true
		o.record(anomaly.Event{Caller: user, Kind: anomaly.Stored, Users: after.users})
	}
	// The command may have arrived so late that the lock had expired. If the lock now
	// has more time than before, it is a new one.
	late := before.held && before.expires > 0 && time.Since(o.x.history.start) > before.expires
	again := late && (after.expires == 0 || after.expires > before.gone+refreshed)
	if late && (again || !after.held) {
		o.expire(before.gone)
	}
	switch {
	case !after.held && (!before.held || late):
	case !after.held:
		o.record(anomaly.Event{Caller: user, Kind: anomaly.Unlocked, Owner: before.owner})
	case !before.held || again || o.x.d.taken(before.value, after.value):
		// The owner is the only caller that ever sent the value, even if another's
		// command has set it. Where all send the same value, it is the latter.
		if after.owner = o.sentBy[after.value]; after.owner == "" {
			after.owner = user
		}
		o.record(anomaly.Event{Caller: user, Kind: anomaly.Locked, Owner: after.owner})
	default:
		after.owner = before.owner
		if after.owner != user && before.expires > 0 && after.expires > before.gone+refreshed {
			o.record(anomaly.Event{Caller: user, Kind: anomaly.Refreshed, Owner: after.owner})
		}
	}
	e.owns = after.owner == user
	e.took = e.owns && before.owner != user
	e.gave = !e.owns && before.owner == user
	o.now = after
	return e
}

// refreshed is how far an expiry must move to count. Less is within the error of
// measurement.
const refreshed = 3 * time.Millisecond

func (o *observer) record(e anomaly.Event) { o.x.history.add(e) }

// tooClose is how long before a lock's expiry commands wait for it. Otherwise the lock
// might expire between the look and the command, and nobody could say what ended it.
const tooClose = 20 * time.Millisecond

// passExpiry waits until a lock that is about to expire has expired. Nothing else
// changes meanwhile, because all commands pass here.
func (o *observer) passExpiry(ctx context.Context) error {
	for o.now.held && o.now.expires > 0 {
		left := o.now.expires - time.Since(o.x.history.start)
		if left > tooClose {
			break
		}
		over := time.NewTimer(left + o.now.gone - o.now.expires)
		select {
		case <-over.C:
		case <-ctx.Done():
			over.Stop()
			return context.Cause(ctx)
		}
		s, err := o.look(ctx)
		if err != nil {
			return err
		}
		if !s.held {
			o.expire(o.now.gone)
		}
		o.now.expires, o.now.gone = s.expires, s.gone
	}
	return nil
}

// look returns the contents of Redis.
func (o *observer) look(ctx context.Context) (sight, error) {
	var value *redis.StringCmd
	var left *redis.DurationCmd
	var users func() ([]string, error)
	asked := time.Since(o.x.history.start)
	_, err := o.x.home.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		if o.x.d.inHash {
			value, left = p.HGet(ctx, o.x.hashKey, o.x.lockKey), p.PTTL(ctx, o.x.hashKey)
		} else {
			value, left = p.Get(ctx, o.x.lockKey), p.PTTL(ctx, o.x.lockKey)
		}
		users = o.x.way.members(ctx, p, o.x.listKey)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return sight{}, err
	}
	s := sight{held: value.Err() == nil, value: value.Val()}
	if left.Val() > 0 {
		s.expires = asked + left.Val()
		s.gone = time.Since(o.x.history.start) + left.Val() + time.Millisecond // as PTTL counts
	}
	s.users, err = users()
	return s, err
}

// recorder keeps the history of a cell.
type recorder struct {
	start time.Time

	mu     sync.Mutex
	events []anomaly.Event // guarded by mu
}

// add adds an event. A zero At means now.
func (r *recorder) add(e anomaly.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.At == 0 {
		e.At = time.Since(r.start)
	}
	// A spinning caller may prolong a lock hundreds of times.
	if n := len(r.events); n > 0 && e.Kind == anomaly.Refreshed {
		last := &r.events[n-1]
		if last.Kind == e.Kind && last.Caller == e.Caller && last.Owner == e.Owner {
			last.Times = max(last.Times, 1) + 1
			return
		}
	}
	r.events = append(r.events, e)
}

// all returns the events in order of time.
func (r *recorder) all() []anomaly.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := slices.Clone(r.events)
	slices.SortStableFunc(events, func(a, b anomaly.Event) int { return cmp.Compare(a.At, b.At) })
	return events
}
