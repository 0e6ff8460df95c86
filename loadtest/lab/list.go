package lab

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/loadtest/lab/anomaly"
)

// list is the articles' way: a caller reads, changes and writes back a JSON array in one
// string, with a lock or without.
type list struct{ lock *lock }

func (list) open(*process) error { return nil }
func (list) close(*process)      {}

func (list) fill(ctx context.Context, x *cell, users []string) error {
	text, err := json.Marshal(users)
	if err != nil {
		return err
	}
	return x.home.rdb.Set(ctx, x.listKey, text, 0).Err()
}

func (list) members(ctx context.Context, p redis.Pipeliner, key string) func() ([]string, error) {
	text := p.Get(ctx, key)
	return func() ([]string, error) { return decode(text.Result()) }
}

// decode decodes a reply of GET.
func decode(text string, err error) (users []string, _ error) {
	if err != nil {
		if errors.Is(err, redis.Nil) {
			err = nil
		}
		return nil, err
	}
	return users, json.Unmarshal([]byte(text), &users)
}

func (l list) ask(ctx context.Context, c *caller) error {
	if l.lock == nil {
		return readChangeWrite(ctx, c)
	}
	if err := l.lock.acquire(ctx, c); err != nil {
		return err
	}
	c.record(anomaly.Event{Kind: anomaly.Acquired})
	c.at(stepLocked)
	if err := readChangeWrite(ctx, c); err != nil {
		return err
	}
	c.at(stepGiving)
	if err := l.lock.unlock(ctx, c); err != nil {
		return err
	}
	c.record(anomaly.Event{Kind: anomaly.Released})
	return nil
}

// readChangeWrite is GET, append, SET.
func readChangeWrite(ctx context.Context, c *caller) error {
	users, err := decode(c.get(ctx, c.x.listKey))
	if err != nil {
		return err
	}
	c.record(anomaly.Event{Kind: anomaly.Read, Users: users})
	c.at(stepRead)
	users = c.change(users)
	text, err := json.Marshal(users)
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
