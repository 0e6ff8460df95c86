package lab

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/lab/anomaly"
)

// observer sees what Redis holds between any two commands of a cell's callers.
// They reach Redis through it, one at a time, and it looks after each. So who held
// the lock is known, and not reckoned from clocks.
type observer struct {
	x *cell

	mu     sync.Mutex        // held while a command is carried out
	now    sight             // guarded by mu; what Redis held after the last command
	spoken map[string]string // guarded by mu; by which caller alone a value was sent, "" for several
}

// sight is what Redis holds.
type sight struct {
	held    bool
	value   string
	owner   string
	expires time.Duration // in the cell's time, at the earliest; 0 for never
	gone    time.Duration // and at the latest
	users   []string
}

// effect is what a command did for its caller.
type effect struct {
	took   bool // the lock is the caller's, and was not
	gave   bool // the lock was the caller's, and is not
	stored bool // the list has changed
	owns   bool // the lock is the caller's now
}

// begin looks for the first time.
func (o *observer) begin(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var err error
	o.now, err = o.look(ctx)
	return err
}

// owner returns whose the lock is.
func (o *observer) owner() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now.owner
}

// around carries out a command of a caller and records what it did.
func (o *observer) around(ctx context.Context, user string, args []string, carryOut func() error) (effect, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, arg := range args {
		if by, known := o.spoken[arg]; known && by != user {
			o.spoken[arg] = ""
		} else if !known {
			o.spoken[arg] = user
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

// expire records that the lock's time was over, at the latest at that moment.
func (o *observer) expire(at time.Duration) {
	at = min(at, time.Since(o.x.history.start))
	o.record(anomaly.Event{At: at, Kind: anomaly.Expired, Owner: o.now.owner})
	o.now.held, o.now.owner = false, ""
}

// compare records what a command of user has made different.
func (o *observer) compare(user string, after sight) effect {
	before := o.now
	var e effect
	if !slices.Equal(before.users, after.users) {
		e.stored = true
		o.record(anomaly.Event{Caller: user, Kind: anomaly.Stored, Users: after.users})
	}
	// The command may have been held up on its way for so long that the lock has
	// expired before it came. If then it has more time than before, it is a new one.
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
		// Whose value it is: of the only one who ever sent it, which need not be
		// the one whose command has set it. Where all send the same, of the latter.
		if after.owner = o.spoken[after.value]; after.owner == "" {
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

// refreshed is by how much an expiry must move to count; less is how exactly it
// is known.
const refreshed = 3 * time.Millisecond

func (o *observer) record(e anomaly.Event) { o.x.history.add(e) }

// tooClose is how near its expiry a lock has to be for a command to wait until it
// is over. Otherwise it might expire between the look and the command, and nobody
// could say who has ended it.
const tooClose = 20 * time.Millisecond

// passExpiry lets a lock expire that is about to. Until then nothing changes but by
// a command, and all commands come by here.
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

// look returns what Redis holds.
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
		users = o.x.d.way.members(ctx, p, o.x.listKey)
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
