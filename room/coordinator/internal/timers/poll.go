package timers

import (
	"context"
	_ "embed"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

const (
	// pollPause is the average time between two polls of the index, and pollTimeout limits a poll.
	pollPause   = time.Second
	pollTimeout = 3 * time.Second

	// flushTimeout limits the time for writing the remaining entries on Close.
	flushTimeout = time.Second

	// late is how long a timer is overdue before any node may fire it. By then its own node has usually fired it, and
	// removed the entry. claimed is how long no other node gets an entry that one has got.
	late    = 1500 * time.Millisecond
	claimed = 5 * time.Second

	// reviewRounds is the number of polls between two reviews of the alarms.
	reviewRounds = 60

	maxEntries = 500 // per request
	maxLooks   = 64  // rooms looked at concurrently
)

func (t *Timers) loop() {
	for round := 1; t.open.Err() == nil; round++ {
		var rooms []string
		if round%reviewRounds == 0 {
			rooms = t.rooms()
		}
		for full := true; (full || len(rooms) > 0) && t.open.Err() == nil; {
			var err error
			n := min(len(rooms), maxEntries)
			if full, err = t.poll(t.open, rooms[:n]); err != nil && t.open.Err() == nil {
				t.failed.Happened(err)
			}
			rooms = rooms[n:]
		}
		_ = pause.For(t.open, pollPause*3/4+rand.N(pollPause/2))
	}
}

// poll polls the index once, and reviews the alarms of rooms. full reports whether more entries may wait.
func (t *Timers) poll(ctx context.Context, rooms []string) (full bool, err error) {
	asking, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	now, due, full, err := t.exchange(asking, maxEntries)
	if err != nil {
		return false, err
	}
	var looks errgroup.Group
	looks.SetLimit(maxLooks)
	for _, e := range due {
		looks.Go(func() error { return t.look(ctx, e, now) })
	}
	for _, id := range rooms {
		looks.Go(func() error { return t.review(ctx, id) })
	}
	return full, looks.Wait()
}

// exchange writes missing entries and removes those that are over, as many as fit a request. now is the server's time
// in ms. due are entries of timers that should have fired, at most as many as most says. full reports whether entries
// of any of these kinds may be left.
func (t *Timers) exchange(ctx context.Context, most int) (now int64, due []entry, full bool, err error) {
	t.mu.Lock()
	missing, over := t.missing[:min(len(t.missing), maxEntries)], t.over[:min(len(t.over), maxEntries)]
	t.missing, t.over = rest(t.missing, len(missing)), rest(t.over, len(over))
	t.mu.Unlock()
	args := []any{late.Milliseconds(), claimed.Milliseconds(), most, len(missing)}
	for _, e := range missing {
		args = append(args, e.String(), e.look(t.clock.now()))
	}
	for _, e := range over {
		args = append(args, e.String())
	}
	sent := time.Now()
	reply, err := t.store.RunPlain(ctx, pollScript, []string{t.store.Space.Timers()}, args...).Slice()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.missing, t.over = slices.Concat(missing, t.missing), slices.Concat(over, t.over)
		return 0, nil, false, err
	}
	now, _ = reply[0].(int64)
	t.clock.measured(sent, time.Now(), now)
	now /= 1000
	for _, text := range reply[1:] {
		text, _ := text.(string)
		if e, ok := parseEntry(text); ok {
			due = append(due, e)
		}
	}
	return now, due, len(due) == most || len(t.missing)+len(t.over) > 0, nil
}

// rest returns list without its first n entries; nil if none is left, so that the memory is freed.
func rest(list []entry, n int) []entry {
	if n == len(list) {
		return nil
	}
	return list[n:]
}

// look fires the due timers of a room if the entry's is one of them. If it is not due yet, because the entry was
// hastened or the clock was set back, this node adopts it. An entry without a timer stays until no commit can set the
// timer.
func (t *Timers) look(ctx context.Context, e entry, now int64) error {
	reading, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	name, set, err := e.find(reading, t.store)
	if err != nil {
		return err
	}
	switch settled := e.due + t.settled.Milliseconds(); {
	case set && e.due <= now:
		_, err = t.actions.Run(ctx, e.room, room.Upkeep{Due: now}) // Committed removes the entry
		return err
	case set:
		t.adopt(e, name)
		return t.lookAt(reading, e, e.look(now))
	case now < e.due:
		return t.lookAt(reading, e, e.due)
	case now <= settled:
		return t.lookAt(reading, e, settled)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = append(t.over, e)
	return nil
}

// find reports whether the timer or deadline of an entry is set, and the name of its alarm.
func (e entry) find(ctx context.Context, in *store.Store) (name string, set bool, err error) {
	if e.user != "" {
		m, err := in.Member(ctx, e.room, e.user)
		return e.leaves(), room.Deadline(m.Session) == e.due, err
	}
	timers, err := in.Timers(ctx, e.room)
	if err == nil {
		name, set = dueAt(timers, e.due)
	}
	return name, set, err
}

// dueAt returns the name of the timer that is due at that time, if there is one.
func dueAt(timers *room.Timers, due int64) (name string, found bool) {
	for name, timer := range timers.ByName {
		if timer.Due == due {
			return name, true
		}
	}
	return "", false
}

// lookAt schedules the next look at an entry, unless the entry was removed.
func (t *Timers) lookAt(ctx context.Context, e entry, when int64) error {
	return t.store.Client.ZAddXX(ctx, t.store.Space.Timers(), redis.Z{Score: float64(when), Member: e.String()}).Err()
}

// flush writes the changes that are left to the index, and takes no due entries. Call it when nobody adds changes any
// more.
func (t *Timers) flush() {
	ctx, cancel := context.WithTimeout(t.life, flushTimeout)
	defer cancel()
	for len(t.missing)+len(t.over) > 0 {
		if _, _, _, err := t.exchange(ctx, 0); err != nil {
			return // other nodes mend the index
		}
	}
}

//go:embed lua/hasten.lua
var hastenLua string

var hastenScript = redis.NewScript(hastenLua)

// deathTTL is how long no other node hastens timers because of the same dead node.
const deathTTL = time.Minute

// Died has living nodes adopt the timers that a dead node may have set, by hastening all entries: a node that looks
// at an entry early adopts its timer. If several nodes call Died, one of them hastens. It does not wait for Redis.
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
	first, err := t.store.Client.SetNX(ctx, t.store.Space.TimersDied(node), 1, deathTTL).Result()
	for after := "-inf"; err == nil && first && after != ""; {
		after, err = t.store.RunPlain(ctx, hastenScript, []string{t.store.Space.Timers()}, after, maxEntries,
			alarmAhead.Milliseconds()).Text()
	}
	if err != nil && t.open.Err() == nil {
		t.failed.Happened(err) // the timers fire late
	}
}

// handOver has other nodes adopt the timers of this closing node.
func (t *Timers) handOver() {
	ctx, cancel := context.WithTimeout(t.life, flushTimeout)
	defer cancel()
	var entries []redis.Z
	t.mu.Lock()
	for _, named := range t.alarms {
		for _, a := range named {
			entries = append(entries, redis.Z{Member: a.String()}) // score 0: due for a look now
		}
	}
	t.mu.Unlock()
	for len(entries) > 0 {
		n := min(len(entries), maxEntries)
		if t.store.Client.ZAddXX(ctx, t.store.Space.Timers(), entries[:n]...).Err() != nil {
			return // the timers fire late
		}
		entries = entries[n:]
	}
}
