package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// word is an argument of a published command that its caller makes.
type word func(c *caller) any

var (
	theLock     word = func(c *caller) any { return c.x.lockKey }
	theHash     word = func(c *caller) any { return c.x.hashKey }
	ownValue    word = func(c *caller) any { return c.value }
	quotedValue word = func(c *caller) any { return `"` + c.value + `"` }
	rightNow    word = func(c *caller) any { return c.nowMillis() }
	inOneSecond word = func(c *caller) any { return c.nowMillis() + 1000 }
)

// Times in a command, as they were published.
type (
	seconds      int64
	milliseconds int64
)

// takes is an attempt with one command, which answers 1 or OK if it has set the lock.
func takes(args ...any) attempt {
	return func(ctx context.Context, c *caller) (outcome, error) {
		reply, err := c.send(ctx, args...).Result()
		if err == redis.Nil {
			err = nil
		}
		return outcomeOf(reply == int64(1) || reply == "OK"), err
	}
}

// sends is an unlock with one command.
func sends(args ...any) func(context.Context, *caller) error {
	return func(ctx context.Context, c *caller) error { return c.send(ctx, args...).Err() }
}

var (
	// del releases the lock, whoever holds it by now.
	del = sends("DEL", theLock)
	// compareDel releases the lock with a script if it has the caller's value.
	compareDel = sends("EVAL", compareDelLua, 1, theLock, ownValue)
)

// thenExpire sets the time to live of a lock that was taken, with a second command.
func thenExpire(take attempt) attempt {
	return func(ctx context.Context, c *caller) (outcome, error) {
		if o, err := take(ctx, c); err != nil || o != acquired {
			return o, err
		}
		c.at(stepSet)
		return acquired, c.send(ctx, "EXPIRE", theLock, seconds(10)).Err()
	}
}

// spin asks without end. The lab's choice: it ends when the player has lost patience.
func spin(pause time.Duration, take attempt) attempt {
	return func(ctx context.Context, c *caller) (outcome, error) {
		for {
			if o, err := take(ctx, c); err != nil || o == acquired {
				return o, err
			}
			if err := c.pause(ctx, pause); err != nil {
				return timedOut, err
			}
		}
	}
}

// cards is the lock of the card game. Its value is drawn once, before the loop: the room, and PHP's uniqid, which is the
// time in microseconds, in 13 hexadecimal digits.
func cards(value word, unlock func(context.Context, *caller) error) *lock {
	loop := spin(spinPause, takes("SET", theLock, value, "EX", seconds(3), "NX"))
	return &lock{waits: true, unlock: unlock, ask: func(ctx context.Context, c *caller) (outcome, error) {
		now := time.Now()
		if !c.drawsAt.IsZero() {
			now = c.drawsAt
		}
		c.value = fmt.Sprintf("%s%08x%05x", c.x.id, now.Unix(), now.Nanosecond()/1000)
		c.at(stepDrawn)
		return loop(ctx, c)
	}}
}

// multiExpire puts SETNX and EXPIRE into one transaction, so that no crash comes between them.
func multiExpire(ctx context.Context, c *caller) (outcome, error) {
	var took *redis.Cmd
	_, err := c.process.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		took = tx.Do(ctx, "SETNX", c.x.lockKey, 1)
		tx.Do(ctx, c.x.scaled("EXPIRE", c.x.lockKey, seconds(10))...)
		return nil
	})
	if err != nil {
		return timedOut, err
	}
	return outcomeOf(took.Val() == int64(1)), nil
}

// compareInClient GETs the value, and DELs if it is its own.
func compareInClient(ctx context.Context, c *caller) error {
	held, _, err := c.look(ctx)
	if err != nil || held != c.value {
		return err
	}
	c.at(stepChecked)
	return del(ctx, c)
}

// send sends a published command, with the words that its caller makes.
func (c *caller) send(ctx context.Context, args ...any) *redis.Cmd {
	args = slices.Clone(args)
	for i, arg := range args {
		if w, ok := arg.(word); ok {
			args[i] = w(c)
		}
	}
	return c.do(ctx, args...)
}

// do sends a command as it was published, with its times scaled.
func (p *process) do(ctx context.Context, args ...any) *redis.Cmd {
	return p.rdb.Do(ctx, p.x.scaled(args...)...)
}

// timescale says how long a published second lasts.
type timescale struct{ second time.Duration }

// seconds returns how long published seconds last.
func (s timescale) seconds(n float64) time.Duration { return time.Duration(n * float64(s.second)) }

// inMillis maps the words of a command to those with the same meaning in milliseconds.
var inMillis = map[string]string{"EX": "PX", "EXPIRE": "PEXPIRE", "SETEX": "PSETEX", "TTL": "PTTL"}

// scaled returns a command with its times scaled. Where a published second is shorter than a second, Redis gets
// milliseconds.
func (s timescale) scaled(args ...any) []any {
	whole := s.second == time.Second
	for i, arg := range args {
		switch a := arg.(type) {
		case seconds:
			args[i] = int64(a)
			if !whole {
				args[i] = s.seconds(float64(a)).Milliseconds()
			}
		case milliseconds:
			args[i] = s.seconds(float64(a) / 1000).Milliseconds()
		case string:
			if word, known := inMillis[a]; known && !whole {
				args[i] = word
			}
		}
	}
	if script, ok := args[1].(string); ok && args[0] == "EVAL" && !whole {
		args[1] = strings.ReplaceAll(script, "'EXPIRE'", "'PEXPIRE'")
	}
	return args
}

// unlessRefused returns err unless Redis has answered with it.
func unlessRefused(err error) error {
	if _, refused := errors.AsType[redis.Error](err); refused {
		return nil
	}
	return err
}

// get sends GET. It returns redis.Nil if there is no such key.
func (p *process) get(ctx context.Context, key string) (string, error) {
	return p.do(ctx, "GET", key).Text()
}

// look returns the lock's value, and whether the lock is there.
func (p *process) look(ctx context.Context) (value string, there bool, err error) {
	value, err = p.get(ctx, p.x.lockKey)
	if errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	return value, err == nil, err
}

// secondsLeft sends TTL and returns published seconds. As Redis does, it rounds to the nearest, and returns less than zero if
// there is no lock, or no expiry.
func (p *process) secondsLeft(ctx context.Context) (int64, error) {
	left, err := p.do(ctx, "TTL", p.x.lockKey).Int64()
	if second := p.x.second.Milliseconds(); second != time.Second.Milliseconds() && left > 0 {
		left = (left + second/2) / second
	}
	return left, err
}
