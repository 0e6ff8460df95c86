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
	"roomd/lockmgr/redisconn/pause"
)

// observer reads the contents of Redis after each command of a cell's callers. The commands pass through it one
// at a time. So it is certain who held the lock, without any clock.
type observer struct {
	x *cell

	mu     sync.Mutex        // locked during a command
	now    sight             // guarded by mu; the contents after the last command
	sentBy map[string]string // guarded by mu; the only sender of each value, "" for several
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

// effect is what a command changed.
type effect struct {
	took   bool // the caller acquired the lock
	gave   bool // the caller lost or released the lock
	stored bool // the list has changed
	owns   bool // the caller now has the lock
}

// last returns the contents after the last command.
func (o *observer) last() sight {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now
}

// failOver resets all keys of the lock, such as roomd's last fence, to their values before holderComes, like a
// failover to a replica that does not have the last writes.
func (o *observer) failOver(ctx context.Context, holderComes func()) error {
	rdb := o.x.home.rdb
	before := make(map[string]string)
	for _, key := range rdb.Keys(ctx, o.x.lockKey+"*").Val() {
		if value, err := rdb.Get(ctx, key).Result(); err == nil { // only strings
			before[key] = value
		}
	}
	holderComes()
	o.mu.Lock()
	defer o.mu.Unlock()
	keys, err := rdb.Keys(ctx, o.x.lockKey+"*").Result()
	for _, key := range append(keys, o.x.hashKey) {
		if value, known := before[key]; known {
			err = errors.Join(err, rdb.Set(ctx, key, value, redis.KeepTTL).Err())
		} else {
			err = errors.Join(err, rdb.Del(ctx, key).Err())
		}
	}
	if err != nil {
		return err
	}
	o.x.record(anomaly.Event{Kind: anomaly.Forgotten, Owner: o.now.owner})
	o.now, err = o.look(ctx)
	return err
}

// around runs a command of a caller and records its effect.
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
	err := o.passExpiry(ctx)
	if err == nil {
		err = carryOut()
	}
	after, seen := o.look(ctx)
	if err = cmp.Or(err, seen); err != nil {
		return effect{}, err
	}
	return o.compare(user, after), nil
}

// expire records that the lock had expired by then.
func (o *observer) expire(at time.Duration) {
	o.x.record(anomaly.Event{At: min(at, o.x.now()), Kind: anomaly.Expired, Owner: o.now.owner})
	o.now.held, o.now.owner = false, ""
}

// tolerance is how far an expiry must move to count. Less is within the error of measurement.
const tolerance = 3 * time.Millisecond

// compare records the effect of user's command.
func (o *observer) compare(user string, after sight) effect {
	before := o.now
	stored := !slices.Equal(before.users, after.users) || (before.users == nil) != (after.users == nil)
	if stored {
		o.x.record(anomaly.Event{Caller: user, Kind: anomaly.Stored, Users: after.users})
	}
	// The lock may have expired before the command arrived. If it has more time than before, it is a new one.
	late := before.held && before.expires > 0 && o.x.now() > before.expires
	again := late && (after.expires == 0 || after.expires > before.gone+tolerance)
	if late && (again || !after.held) {
		o.expire(before.gone)
	}
	switch {
	case !after.held && (!before.held || late):
	case !after.held:
		o.x.record(anomaly.Event{Caller: user, Kind: anomaly.Unlocked, Owner: before.owner})
	case !before.held || again || before.value != after.value && (!o.x.d.counts || after.value == "1"):
		// The owner is the only caller that ever sent the value, even if another's command has set it. If all
		// send the same value, it is the caller. Callers that lose a count only add to it.
		if after.owner = o.sentBy[after.value]; after.owner == "" {
			after.owner = user
		}
		o.x.record(anomaly.Event{Caller: user, Kind: anomaly.Locked, Owner: after.owner})
	default:
		after.owner = before.owner
	}
	o.now = after
	owns, owned := after.owner == user, before.owner == user
	return effect{took: owns && !owned, gave: owned && !owns, stored: stored, owns: owns}
}

// tooClose is how long before a lock's expiry commands wait for it. Otherwise the lock might expire between the
// check and the command, and the reason for its end would be unknown.
const tooClose = 20 * time.Millisecond

// passExpiry waits until a lock that is about to expire has expired. Nothing else changes meanwhile, because
// all commands pass through the observer.
func (o *observer) passExpiry(ctx context.Context) error {
	for o.now.held && o.now.expires > 0 {
		left := o.now.expires - o.x.now()
		if left > tooClose {
			break
		}
		if err := pause.For(ctx, left+o.now.gone-o.now.expires); err != nil {
			return err
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

func (o *observer) look(ctx context.Context) (s sight, err error) {
	var value *redis.StringCmd
	var left *redis.DurationCmd
	var users func() []string
	asked := o.x.now()
	_, err = o.x.home.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		if o.x.d.inHash {
			value, left = p.HGet(ctx, o.x.hashKey, o.x.lockKey), p.PTTL(ctx, o.x.hashKey)
		} else {
			value, left = p.Get(ctx, o.x.lockKey), p.PTTL(ctx, o.x.lockKey)
		}
		users = o.x.members(ctx, p)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return s, err
	}
	s.held, s.value = value.Err() == nil, value.Val()
	if left.Val() > 0 {
		s.expires = asked + left.Val()
		s.gone = o.x.now() + left.Val() + time.Millisecond // PTTL rounds down
	}
	s.users = users()
	return s, nil
}
