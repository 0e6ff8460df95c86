package timers

import (
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/hasten.lua
var hastenLua string

var hastenScript = redis.NewScript(hastenLua)

// deathKept is for how long no other node hastens timers because of the same dead node.
const deathKept = time.Minute

// Died has nodes that live adopt the timers which a dead node may have set: who looks at an entry before its timer is due has
// an alarm for it. Of several nodes that call it one does it. It does not wait for Redis.
func (t *Timers) Died(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.busy.Go(func() { t.hasten(node) })
	}
}

func (t *Timers) hasten(node string) {
	ctx, cancel := context.WithTimeout(t.open, pollTimeout)
	defer cancel()
	first, err := t.store.Client.SetNX(ctx, t.store.Space.TimersDied(node), 1, deathKept).Result()
	for after := "-inf"; err == nil && first && after != ""; {
		after, err = t.store.RunPlain(ctx, hastenScript, []string{t.store.Space.Timers()}, after, maxEntries).Text()
	}
	if err != nil && t.open.Err() == nil {
		t.failed.Happened(err) // they fire late
	}
}

// handOver has other nodes adopt the timers of this one, which ends.
func (t *Timers) handOver() {
	ctx, cancel := context.WithTimeout(t.life, flushTimeout)
	defer cancel()
	var entries []redis.Z
	t.mu.Lock()
	for _, named := range t.alarms {
		for _, a := range named {
			entries = append(entries, redis.Z{Member: a.String()}) // to be looked at now
		}
	}
	t.mu.Unlock()
	for len(entries) > 0 {
		n := min(len(entries), maxEntries)
		if t.store.Client.ZAddXX(ctx, t.store.Space.Timers(), entries[:n]...).Err() != nil {
			return // they fire late
		}
		entries = entries[n:]
	}
}
