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

// inMillis maps the words of a command to those with the same meaning in milliseconds.
var inMillis = map[string]string{
	"EX": "PX", "EXPIRE": "PEXPIRE", "SETEX": "PSETEX", "TTL": "PTTL",
}

// do sends a command as it was published, with its times scaled.
func (p *process) do(ctx context.Context, args ...any) *redis.Cmd {
	return p.rdb.Do(ctx, p.x.scaled(args...)...)
}

// timescale says how long a published second lasts.
type timescale struct{ second time.Duration }

// seconds returns how long published seconds last.
func (s timescale) seconds(n float64) time.Duration { return time.Duration(n * float64(s.second)) }

// scaled returns a command with its times scaled. Where a published second is shorter
// than a second, Redis gets milliseconds.
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

// took sends a command that answers nil unless it has set the lock, and reports whether
// it has.
func (p *process) took(ctx context.Context, args ...any) (bool, error) {
	err := p.do(ctx, args...).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
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

// secondsLeft sends TTL and returns published seconds. As Redis does, it rounds to the
// nearest, and returns less than zero if there is no lock, or no expiry.
func (p *process) secondsLeft(ctx context.Context) (int64, error) {
	left, err := p.do(ctx, "TTL", p.x.lockKey).Int64()
	if second := p.x.second.Milliseconds(); second != time.Second.Milliseconds() && left > 0 {
		left = (left + second/2) / second
	}
	return left, err
}
