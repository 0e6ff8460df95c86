package lab

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/lab/anomaly"
)

// discipline is one way to keep players' joins and leaves apart.
type discipline struct {
	name    string
	article string  // that publishes it; one of the names in disciplines.go
	about   string  // its steps in a line
	ttl     float64 // of its lock, in published seconds
	steps   []step  // at which the driver can strike
	lock    *lock   // nil if it has no lock that could guard something else

	inHash   bool // the lock is a field of a hash
	counts   bool // the lock's value counts the requests for it
	phpArray bool // its client stores a list as the word "Array"

	// listed is what its article warns of, or what else is known to go wrong with it.
	listed []Listed
}

// waited is listed where the others wait for the whole TTL, which is no anomaly.
const waited = "waited"

// waitedTTLs is how much of a TTL a wait must last to count as the whole.
const waitedTTLs = 0.9

// way is how a discipline changes a room's list.
type way interface {
	// open prepares a process.
	open(*process) error
	// close undoes open.
	close(*process)
	// fill puts the first players into the room.
	fill(ctx context.Context, x *cell, users []string) error
	// ask lets the caller join or leave. A nil error means that this has happened,
	// errUnknown that it may have, any other that it has not.
	ask(ctx context.Context, c *caller) error
	// members adds the question who is in the list at key, and returns the function
	// that reads the answer.
	members(ctx context.Context, p redis.Pipeliner, key string) func() ([]string, error)
}

// way returns roomd's way for roomd, and the articles' for all others.
func (d *discipline) way() way {
	if d == &roomd {
		return realNode{}
	}
	return list{}
}

// lock is the part of a discipline that can guard anything.
type lock struct {
	// try asks for the lock once. Where nothing about waiting is published, a
	// player's join asks again every 5 ms.
	try attempt

	// wait asks for the lock and waits by steps of its own. It replaces try.
	wait func(ctx context.Context, c *caller) (outcome, error)

	unlock func(ctx context.Context, c *caller) error

	// looksAfterTimeout makes a cache's caller read the value after timedOut, before
	// it gives up.
	looksAfterTimeout bool

	// keepsEmpty makes a cache's caller store also that there is nothing to store.
	keepsEmpty bool
}

// attempt asks for a lock once, and reports whether the caller has it.
type attempt func(ctx context.Context, c *caller) (bool, error)

// outcome is the result of lock.wait. The numbers are the published ones.
type outcome int

const (
	timedOut outcome = iota
	acquired
	vanished // another caller had the lock, and it is gone
)

// seenIn reports whether anomalies include the listed one. The TTL is in the time of
// the anomalies.
func (l Listed) seenIn(a anomaly.Counts, ttl time.Duration) bool {
	if l.Anomaly == waited {
		return a.StuckMS >= waitedTTLs*float64(ttl.Milliseconds())
	}
	return a.Of(l.Anomaly) > 0 && (a.Forever || !l.Forever)
}

// shows reports whether anomalies under a fault include all that are listed for it.
func (d *discipline) shows(fault string, a anomaly.Counts, ttl time.Duration) bool {
	return !slices.ContainsFunc(d.listed, func(l Listed) bool { return l.Fault == fault && !l.seenIn(a, ttl) })
}

// taken reports whether this change of its value means that the lock was taken. A new
// count means so; those who lose only add to it.
func (d *discipline) taken(before, after string) bool {
	return before != after && (!d.counts || after == "1")
}

// has reports whether the discipline has all the steps.
func (d *discipline) has(steps ...step) bool {
	return !slices.ContainsFunc(steps, func(s step) bool { return !slices.Contains(d.steps, s) })
}

// list is the articles' way: a caller reads, changes and writes back a JSON array in one
// string, with a lock or without. JSON is the lab's choice, and so is a leave.
type list struct{}

// phpArray is what PHP makes of a list where a string belongs.
const phpArray = "Array"

var errNoList = errors.New("the list is no list")

// encode returns a list as the discipline's client stores it.
func (d *discipline) encode(users []string) (string, error) {
	if d.phpArray {
		return phpArray, nil
	}
	text, err := json.Marshal(users)
	return string(text), err
}

// initial returns who is in the list before.
func (d *discipline) initial() []string {
	if d.phpArray {
		return nil
	}
	return []string{staysUser, leavesUser}
}

func (list) open(*process) error { return nil }
func (list) close(*process)      {}

func (list) fill(ctx context.Context, x *cell, users []string) error {
	if len(users) == 0 {
		return nil
	}
	text, err := x.d.encode(users)
	if err != nil {
		return err
	}
	return x.home.rdb.Set(ctx, x.listKey, text, 0).Err()
}

func (list) members(ctx context.Context, p redis.Pipeliner, key string) func() ([]string, error) {
	text := p.Get(ctx, key)
	return func() ([]string, error) {
		users, err := decode(text.Result())
		if errors.Is(err, errNoList) {
			return []string{}, nil
		}
		return users, err
	}
}

// decode decodes a reply of GET.
func decode(text string, err error) (users []string, _ error) {
	if err != nil {
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		return nil, err
	}
	if text == phpArray {
		return nil, errNoList
	}
	return users, json.Unmarshal([]byte(text), &users)
}

func (list) ask(ctx context.Context, c *caller) error {
	lock := c.x.d.lock
	if lock == nil {
		return readChangeWrite(ctx, c)
	}
	if err := lock.acquire(ctx, c); err != nil {
		return err
	}
	c.record(anomaly.Event{Kind: anomaly.Acquired})
	c.at(stepLocked)
	if err := readChangeWrite(ctx, c); err != nil {
		return err
	}
	c.at(stepGiving)
	if err := lock.unlock(ctx, c); err != nil {
		return err
	}
	c.record(anomaly.Event{Kind: anomaly.Released})
	return nil
}

// readChangeWrite is GET, append, SET.
func readChangeWrite(ctx context.Context, c *caller) error {
	users, err := decode(c.get(ctx, c.x.listKey))
	if errors.Is(err, errNoList) { // [] operator not supported for strings
		c.die()
	}
	if err != nil {
		return err
	}
	c.record(anomaly.Event{Kind: anomaly.Read, Users: users})
	c.at(stepRead)
	users = c.change(users)
	text, err := c.x.d.encode(users)
	if err != nil {
		return err
	}
	c.sent = true
	sent := time.Since(c.x.history.start)
	if err := c.do(ctx, "SET", c.x.listKey, text).Err(); err != nil {
		return err
	}
	c.record(anomaly.Event{At: sent, Kind: anomaly.Wrote, Users: users})
	c.at(stepWrote)
	return nil
}

// acquire returns when the caller has the lock.
func (l *lock) acquire(ctx context.Context, c *caller) error {
	for {
		took := false
		var err error
		if l.wait == nil {
			took, err = l.try(ctx, c)
		} else {
			// It was published for a cache, where vanished means that the value is
			// there. A player asks again.
			var o outcome
			o, err = l.wait(ctx, c)
			took = o == acquired
			if err == nil && o == timedOut {
				err = errBusy
			}
		}
		if err != nil || took {
			return err
		}
		if err := c.pause(ctx, spinPause); err != nil {
			return err
		}
	}
}
