package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pause"
)

const (
	outsiderTTL   = 3 * time.Second
	outsiderHolds = 60 * time.Millisecond // on average
	outsiderPause = 150 * time.Millisecond
)

// outsider takes the lock of a room as the published client does, with SET NX PX, and looks whether it is respected: nobody
// else may write to the room, or take the lock away, as long as the TTL lasts.
type outsider struct {
	run    *run
	random *rand.Rand
	rdb    redis.UniversalClient
	holds  int // that were judged
}

// giveBack deletes a lock if it is the caller's.
var giveBack = redis.NewScript(`return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1])`)

// act holds locks until ctx ends.
func (o *outsider) act(ctx context.Context) {
	for ctx.Err() == nil {
		o.hold(o.run.rooms[o.random.IntN(len(o.run.rooms))])
		_ = pause.For(ctx, time.Duration(o.random.Int64N(int64(2*outsiderPause))))
	}
}

// hold takes a lock, if it is free, for a moment.
func (o *outsider) hold(room string) {
	ctx, cancel := context.WithTimeout(context.Background(), outsiderTTL/2)
	defer cancel()
	key, token := o.run.lockOf(room), room+":"+uuid.NewString()
	began := o.run.history.now()
	start := time.Now()
	if ok, err := o.rdb.SetNX(ctx, key, token, outsiderTTL).Result(); err != nil || !ok {
		return
	}
	before, err := o.look(ctx, room)
	if err == nil {
		_ = pause.For(ctx, time.Duration(o.random.Int64N(int64(2*outsiderHolds))))
		var after []string
		if after, err = o.look(ctx, room); err == nil && time.Since(start) < outsiderTTL/2 && o.judges(began) {
			o.holds++
			o.compare(room, token, before, after)
		}
	}
	_ = giveBack.Run(ctx, o.rdb, []string{key}, token).Err()
}

// look returns who has the lock, and the room's epoch and version, at one moment.
func (o *outsider) look(ctx context.Context, room string) ([]string, error) {
	pipe := o.rdb.TxPipeline()
	holder := pipe.Get(ctx, o.run.lockOf(room))
	at := pipe.HMGet(ctx, o.run.keyOf(room, "Meta"), "epoch", "version")
	if _, err := pipe.Exec(ctx); err != nil && err != redis.Nil {
		return nil, err
	}
	return []string{holder.Val(), fmt.Sprint(at.Val()...)}, nil
}

// judges reports whether Redis has kept what it had, and its clock, since a time.
func (o *outsider) judges(since time.Duration) bool {
	o.run.history.mu.Lock()
	defer o.run.history.mu.Unlock()
	return !slices.ContainsFunc(o.run.history.history.Faults, func(f checkFault) bool {
		return (f.Loses || f.Splits || family(f.Name) == "redis" || f.Name == clockJump) && (f.Well == 0 || f.Well > since)
	})
}

func (o *outsider) compare(room, token string, before, after []string) {
	for _, is := range [][]string{before, after} {
		if is[0] != token {
			o.run.problem("lock: in room %s %q took the lock of another client away, whose TTL of %v lasts", room, is[0], outsiderTTL)
			return
		}
	}
	if before[1] != after[1] {
		o.run.problem("lock: room %s was written to, from %s to %s, while another client held its lock", room, before[1], after[1])
	}
}

// lockOf returns the key of a room's lock.
func (r *run) lockOf(room string) string {
	return r.cfg.KeyPrefix + "Lock" + strings.TrimSuffix(strings.TrimPrefix(r.keyOf(room, ""), r.cfg.KeyPrefix), ":")
}
