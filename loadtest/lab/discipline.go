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

// discipline is one way to keep players' joins and leaves apart.
type discipline struct {
	name    string
	article string   // that publishes it; one of the names in disciplines.go
	about   string   // its steps in a line; "" where the commands of lock say it
	ttl     float64  // of its lock, in published seconds
	steps   []step   // at which the driver can strike
	lock    *lock    // nil if it has no lock that could guard something else
	listed  []Listed // what its article warns of, or what else is known to go wrong with it

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

// phpArray is what PHP makes of a list where a string belongs.
const phpArray = "Array"

// encode returns a list as the discipline's client stores it: a JSON array in one string, which is the lab's choice.
func (d *discipline) encode(users []string) string {
	if d.phpArray {
		return phpArray
	}
	text, _ := json.Marshal(users)
	return string(text)
}

// decode decodes a list. It returns nil for "", which is no key, and an empty list with an error for a word.
func decode(text string) (users []string, err error) {
	if text == "" {
		return nil, nil
	}
	users = []string{}
	err = json.Unmarshal([]byte(text), &users)
	return users, err
}

// fill puts the first players into the room. For roomd that also loads the scripts into Redis, before the fault.
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

// members adds the question who is in the list, and returns the function that reads the answer.
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

// ask lets the caller join or leave. A nil error means that this has happened, room.ErrUnknown that it may have.
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

// readChangeWrite is GET, append, SET. As published, a join appends without checking who is there. A leave is the lab's
// choice.
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
