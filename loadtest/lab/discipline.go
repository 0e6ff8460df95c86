package lab

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/lab/anomaly"
	"roomd/room"
)

// discipline is a way to protect joins and leaves against each other.
type discipline struct {
	name    string
	article string   // its source; one of the names in disciplines.go
	about   string   // its steps in a line; "" to use the lock's commands
	ttl     float64  // of its lock, in published seconds
	steps   []step   // where the driver can strike
	lock    *lock    // nil without a lock that could guard something else
	listed  []Listed // known anomalies, by its article or otherwise

	inHash   bool // the lock is a field of a hash
	counts   bool // the lock's value counts the requests for it
	phpArray bool // its client stores a list as the word "Array"
}

// describe returns its steps in a line.
func (d *discipline) describe() string {
	if d.about != "" {
		return d.about
	}
	return strings.TrimSuffix(d.lock.take+", "+d.lock.then, ", ") + " … " + d.lock.release
}

// has reports whether the discipline has all the steps.
func (d *discipline) has(steps ...step) bool {
	return !slices.ContainsFunc(steps, func(s step) bool { return !slices.Contains(d.steps, s) })
}

// phpArray is PHP's string for a list.
const phpArray = "Array"

// encode returns a list as the discipline's client stores it: a JSON array in one string, which is the lab's choice.
func (d *discipline) encode(users []string) string {
	if d.phpArray {
		return phpArray
	}
	text, _ := json.Marshal(users)
	return string(text)
}

// decode decodes a list. It returns nil for "", which means no key, and an empty list with an error for a word.
func decode(text string) (users []string, err error) {
	if text == "" {
		return nil, nil
	}
	users = []string{}
	err = json.Unmarshal([]byte(text), &users)
	return users, err
}

// fill puts the first players into the room. For roomd this also loads the scripts into Redis before the fault.
func (x *cell) fill(ctx context.Context, users []string) error {
	if x.d != &roomd {
		return x.home.rdb.Set(ctx, x.listKey, x.d.encode(users), 0).Err()
	}
	for _, user := range users {
		if err := (&caller{process: x.home, user: user}).askRoomd(ctx); err != nil {
			return err
		}
	}
	return nil
}

// members adds a command that reads the list to p, and returns a function that reads its result.
func (x *cell) members(ctx context.Context, p redis.Pipeliner) func() []string {
	if x.d == &roomd {
		keys := p.HKeys(ctx, x.listKey)
		return func() []string { return slices.Sorted(slices.Values(keys.Val())) } // a hash has no order
	}
	text := p.Get(ctx, x.listKey)
	return func() []string {
		users, _ := decode(text.Val())
		return users
	}
}

// ask makes the caller join or leave. Nil means that this was done, and room.ErrUnknown that it may have been.
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
	session := "session of " + c.user
	var action room.Action = room.Join{User: c.user, Session: session}
	if c.leave {
		action = room.Leave{User: c.user, Session: session}
	}
	_, err := c.process.rooms.Do(ctx, c.x.id, action)
	if errors.Is(err, room.ErrNotMember) { // roomd did not find the player in the list
		c.record(anomaly.Event{Kind: anomaly.Read})
	}
	return err
}

// readChangeWrite does GET, append, SET. As published, a join appends without a check of the list. A leave is
// the lab's choice.
func (c *caller) readChangeWrite(ctx context.Context) error {
	text, _, err := c.get(ctx, c.x.listKey)
	if err != nil {
		return err
	}
	users, err := decode(text)
	if err != nil { // [] operator not supported for strings
		c.die()
	}
	c.record(anomaly.Event{Kind: anomaly.Read, Users: users})
	c.at(stepRead)
	if c.leave {
		users = slices.DeleteFunc(slices.Clone(users), func(user string) bool { return user == c.user })
	} else {
		users = append(slices.Clip(users), c.user)
	}
	c.sent = true
	sent := c.x.now()
	if err := c.rdb.Set(ctx, c.x.listKey, c.x.d.encode(users), 0).Err(); err != nil {
		return err
	}
	c.record(anomaly.Event{At: sent, Kind: anomaly.Wrote, Users: users})
	c.at(stepWrote)
	return nil
}
