package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/lab/anomaly"
	"roomd/room"
)

// discipline is one way to keep players' joins and leaves apart.
type discipline struct {
	name    string
	article string   // that publishes it; one of the names in disciplines.go
	about   string   // its steps in a line
	ttl     float64  // of its lock, in published seconds
	steps   []step   // at which the driver can strike
	lock    *lock    // nil if it has no lock that could guard something else
	listed  []Listed // what its article warns of, or what else is known to go wrong with it

	inHash   bool // the lock is a field of a hash
	counts   bool // the lock's value counts the requests for it
	phpArray bool // its client stores a list as the word "Array"
}

// lock is the part of a discipline that can guard anything.
type lock struct {
	ask    attempt
	waits  bool // ask waits by steps of its own; where nothing about that is published, a player's join asks again every 5 ms
	unlock func(ctx context.Context, c *caller) error

	looksAfterTimeout bool // a cache's caller reads the value after timedOut, before it gives up
	keepsEmpty        bool // a cache's caller stores also that there is nothing to store
}

// attempt asks for a lock.
type attempt func(ctx context.Context, c *caller) (outcome, error)

// outcome is the result of an attempt. The numbers are the published ones of those that wait.
type outcome int

const (
	timedOut outcome = iota // or it was taken
	acquired
	vanished // another caller had the lock, and it is gone
)

// waited is listed where the others wait for the whole TTL, or nearly so, which is no anomaly.
const waited = "waited"

// seenIn reports whether anomalies include the listed one. The TTL is in the time of the anomalies.
func (l Listed) seenIn(a anomaly.Counts, ttl time.Duration) bool {
	if l.Anomaly == waited {
		return a.StuckMS >= 0.9*ms(ttl)
	}
	return a.Of(l.Anomaly) > 0 && (a.Forever || !l.Forever)
}

// shows reports whether anomalies under a fault include all that are listed for it.
func (d *discipline) shows(fault string, a anomaly.Counts, ttl time.Duration) bool {
	return !slices.ContainsFunc(d.listed, func(l Listed) bool { return l.Fault == fault && !l.seenIn(a, ttl) })
}

// has reports whether the discipline has all the steps.
func (d *discipline) has(steps ...step) bool {
	return !slices.ContainsFunc(steps, func(s step) bool { return !slices.Contains(d.steps, s) })
}

// phpArray is what PHP makes of a list where a string belongs.
const phpArray = "Array"

var errNoList = errors.New("the list is no list")

// encode returns a list as the discipline's client stores it: a JSON array in one string, which is the lab's choice.
func (d *discipline) encode(users []string) (string, error) {
	if d.phpArray {
		return phpArray, nil
	}
	text, err := json.Marshal(users)
	return string(text), err
}

// decode decodes a reply of GET.
func decode(text string, err error) (users []string, _ error) {
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil:
		return nil, err
	case text == phpArray:
		return []string{}, errNoList
	}
	return users, json.Unmarshal([]byte(text), &users)
}

// session returns the name of a user's only session.
func session(user string) string { return "session of " + user }

// fill puts the first players into the room. For roomd that also loads the scripts into Redis, before the fault.
func (x *cell) fill(ctx context.Context, users []string) error {
	if x.d == &roomd {
		for _, user := range users {
			if _, err := x.home.rooms.Do(ctx, x.id, room.Join{User: user, Session: session(user)}); err != nil {
				return err
			}
		}
		return nil
	}
	text, err := x.d.encode(users)
	if err != nil {
		return err
	}
	return x.home.rdb.Set(ctx, x.listKey, text, 0).Err()
}

// members adds the question who is in the list, and returns the function that reads the answer.
func (x *cell) members(ctx context.Context, p redis.Pipeliner) func() ([]string, error) {
	if x.d == &roomd {
		keys := p.HKeys(ctx, x.listKey)
		return func() ([]string, error) {
			slices.Sort(keys.Val()) // a hash has no order
			return keys.Result()
		}
	}
	text := p.Get(ctx, x.listKey)
	return func() ([]string, error) {
		users, err := decode(text.Result())
		if errors.Is(err, errNoList) {
			err = nil
		}
		return users, err
	}
}

// ask lets the caller join or leave. A nil error means that this has happened, errUnknown that it may have, any other that it
// has not.
func (c *caller) ask(ctx context.Context) error {
	lock := c.x.d.lock
	switch {
	case c.x.d == &roomd:
		return c.askRoomd(ctx)
	case lock == nil:
		return c.readChangeWrite(ctx)
	}
	if err := lock.acquire(ctx, c); err != nil {
		return err
	}
	c.record(anomaly.Event{Kind: anomaly.Acquired})
	c.at(stepLocked)
	if err := c.readChangeWrite(ctx); err != nil {
		return err
	}
	c.at(stepGiving)
	if err := lock.unlock(ctx, c); err != nil {
		return err
	}
	c.record(anomaly.Event{Kind: anomaly.Released})
	return nil
}

func (c *caller) askRoomd(ctx context.Context) error {
	var action room.Action = room.Join{User: c.user, Session: session(c.user)}
	if c.leave {
		action = room.Leave{User: c.user, Session: session(c.user)}
	}
	_, err := c.process.rooms.Do(ctx, c.x.id, action)
	switch {
	case errors.Is(err, room.ErrUnknown):
		return fmt.Errorf("%w: %w", errUnknown, err)
	case errors.Is(err, room.ErrNotMember): // roomd did not find the player in the list
		c.record(anomaly.Event{Kind: anomaly.Read})
	}
	return err
}

// readChangeWrite is GET, append, SET. As published, a join appends without checking who is there. A leave is the lab's
// choice.
func (c *caller) readChangeWrite(ctx context.Context) error {
	users, err := decode(c.get(ctx, c.x.listKey))
	if errors.Is(err, errNoList) { // [] operator not supported for strings
		c.die()
	}
	if err != nil {
		return err
	}
	c.record(anomaly.Event{Kind: anomaly.Read, Users: users})
	c.at(stepRead)
	if c.leave {
		users = slices.DeleteFunc(append([]string{}, users...), func(user string) bool { return user == c.user })
	} else {
		users = append(users, c.user)
	}
	text, err := c.x.d.encode(users)
	if err != nil {
		return err
	}
	c.sent = true
	sent := c.x.now()
	if err := c.do(ctx, "SET", c.x.listKey, text).Err(); err != nil {
		return err
	}
	c.record(anomaly.Event{At: sent, Kind: anomaly.Wrote, Users: users})
	c.at(stepWrote)
	return nil
}

// acquire returns when the caller has the lock. What waits was published for a cache, where vanished means that the value is
// there. A player asks again.
func (l *lock) acquire(ctx context.Context, c *caller) error {
	for {
		switch o, err := l.ask(ctx, c); {
		case err != nil || o == acquired:
			return err
		case o == timedOut && l.waits:
			return errBusy
		}
		if err := c.pause(ctx, spinPause); err != nil {
			return err
		}
	}
}

func outcomeOf(took bool) outcome {
	if took {
		return acquired
	}
	return timedOut
}
