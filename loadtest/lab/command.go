package lab

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Times in a command, as they were published.
type (
	seconds      int64
	milliseconds int64
)

// inMillis are the words of a command that says the same in milliseconds.
var inMillis = map[string]string{
	"EX": "PX", "EXPIRE": "PEXPIRE", "SETEX": "PSETEX", "TTL": "PTTL",
}

// do sends a command as it was published, but for its times.
func (c *caller) do(ctx context.Context, args ...any) *redis.Cmd {
	return c.process.rdb.Do(ctx, c.x.scaled(args...)...)
}

// scaled returns a command with its times as they are in this run. Where a
// published second is shorter than a second, Redis has to be told milliseconds.
func (x *cell) scaled(args ...any) []any {
	whole := x.second == time.Second
	for i, arg := range args {
		switch a := arg.(type) {
		case seconds:
			args[i] = int64(a)
			if !whole {
				args[i] = x.seconds(float64(a)).Milliseconds()
			}
		case milliseconds:
			args[i] = x.seconds(float64(a) / 1000).Milliseconds()
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

// took sends a command that answers nil unless it has set the lock.
func (c *caller) took(ctx context.Context, args ...any) (bool, error) {
	err := c.do(ctx, args...).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}

// get is GET.
func (c *caller) get(ctx context.Context, key string) (string, error) {
	return c.do(ctx, "GET", key).Text()
}

// look returns what the lock holds, and whether it is there.
func (c *caller) look(ctx context.Context) (value string, there bool, err error) {
	value, err = c.get(ctx, c.x.lockKey)
	if errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	return value, err == nil, err
}

// secondsLeft is TTL, in published seconds: as Redis does, it rounds to the
// nearest, and answers with less than zero if there is no lock, or no expiry.
func (c *caller) secondsLeft(ctx context.Context) (int64, error) {
	left, err := c.do(ctx, "TTL", c.x.lockKey).Int64()
	if second := c.x.second.Milliseconds(); second != time.Second.Milliseconds() && left > 0 {
		left = (left + second/2) / second
	}
	return left, err
}
