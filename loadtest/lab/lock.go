package lab

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// lock is the part of a discipline that can guard anything: published commands, in the words of caller.args.
type lock struct {
	draw func(c *caller) // draws a value before the first turn
	take string          // command that sets the lock; it returns 1 or OK on success
	then string          // command after a successful take
	turn turn            // nil for set
	// pause between two turns; zero means one turn, and a player's join asks again every 5 ms
	again   time.Duration
	most    int64 // published seconds for all turns, for which again is scaled; zero means no limit
	check   func(ctx context.Context, c *caller) (mayRelease bool, err error)
	release string

	looksAfterTimeout bool // after timedOut, a cache's caller reads the value before it gives up
}

// turn is one attempt to get the lock.
type turn func(ctx context.Context, l *lock, c *caller, first bool) (outcome, error)

// outcome is the result of an attempt. For locks that wait, the numbers are the published ones.
type outcome int

const (
	timedOut outcome = iota // the wait is over, or the lock is held
	acquired
	vanished // at a later look there was no lock: it was released, or it expired
)

// ask does the published turns. The lab's choice: endless ones end with the player's patience.
func (l *lock) ask(ctx context.Context, c *caller) (outcome, error) {
	if l.draw != nil {
		l.draw(c)
	}
	turn, pause, begun := l.turn, l.again, c.now()
	if turn == nil {
		turn = set
	}
	if l.most > 0 {
		pause = c.x.seconds(pause.Seconds())
	}
	for first := true; l.most == 0 || c.now()-begun < l.most; first = false {
		if o, err := turn(ctx, l, c, first); err != nil || o != timedOut || pause == 0 {
			return o, err
		}
		if err := c.pause(ctx, pause); err != nil {
			return timedOut, err
		}
	}
	return timedOut, nil
}

// acquire returns when the caller has the lock, or errBusy after the lock's turns. Locks that wait were published for
// a cache, where vanished means that the value is there. A player asks again.
func (l *lock) acquire(ctx context.Context, c *caller) error {
	for {
		switch o, err := l.ask(ctx, c); {
		case err != nil || o == acquired:
			return err
		case o == timedOut && l.again > 0:
			return errBusy
		}
		if err := c.pause(ctx, spinPause); err != nil {
			return err
		}
	}
}

// unlock releases the lock. As published, it ignores an error reply of Redis.
func (l *lock) unlock(ctx context.Context, c *caller) error {
	if l.check != nil {
		if may, err := l.check(ctx, c); err != nil || !may {
			return err
		}
		c.at(stepChecked)
	}
	err := c.send(ctx, l.release).Err()
	if _, refused := errors.AsType[redis.Error](err); refused {
		return nil
	}
	return err
}

// set sends the command take and, if that succeeds, the command then.
func set(ctx context.Context, l *lock, c *caller, _ bool) (outcome, error) {
	reply, err := c.send(ctx, l.take).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return timedOut, nil
	case err != nil || reply != int64(1) && reply != "OK":
		return timedOut, err
	case l.then == "":
		return acquired, nil
	}
	c.at(stepSet)
	return acquired, c.send(ctx, l.then).Err()
}

// setTogether sends the commands take and then in one transaction, so that no crash comes between them. then runs
// even if take has failed.
func setTogether(ctx context.Context, l *lock, c *caller, _ bool) (o outcome, _ error) {
	var took *redis.Cmd
	_, err := c.process.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		took = tx.Do(ctx, c.args(l.take)...)
		return tx.Do(ctx, c.args(l.then)...).Err()
	})
	if err == nil && took.Val() == int64(1) {
		o = acquired
	}
	return o, err
}

// isOwn GETs the lock, and compares it in the client.
func isOwn(ctx context.Context, c *caller) (bool, error) {
	held, _, err := c.get(ctx, c.x.lockKey)
	return held == c.value, err
}

// drawUniqid draws the value of the card game: the room, and PHP's uniqid, which is the time in microseconds in
// 13 hexadecimal digits.
func drawUniqid(c *caller) {
	now := time.Now()
	if !c.drawsAt.IsZero() {
		now = c.drawsAt
	}
	c.value = fmt.Sprintf("%s%08x%05x", c.x.id, now.Unix(), now.Nanosecond()/1000)
	c.at(stepDrawn)
}

// drawNumber returns a function that draws a random number from low to high.
func drawNumber(low, high int) func(*caller) {
	return func(c *caller) {
		c.value = strconv.Itoa(low + rand.IntN(high-low+1))
		if !c.drawsAt.IsZero() { // the fault makes two callers draw the same number
			c.value = strconv.Itoa(low)
		}
		c.at(stepDrawn)
	}
}

// The range of timestamp's numbers.
const timestampLow, timestampHigh = 1_000_000, 9_999_999

var drawTimestamp = drawNumber(timestampLow, timestampHigh)

// lookFirst sends GET first. If there is no lock at the first GET it sends take, or overwrites if there is no take;
// at a later GET the lock has vanished. At any GET it overwrites a lock whose time is past.
func lookFirst(ctx context.Context, l *lock, c *caller, first bool) (outcome, error) {
	held, there, err := c.get(ctx, c.x.lockKey)
	switch {
	case err != nil || there && !c.isPast(held):
		return timedOut, err
	case there || first && l.take == "":
		return overwrite(ctx, c)
	case first:
		return set(ctx, l, c, first)
	}
	return vanished, nil
}

// setFirst reads the lock only if take has failed.
func setFirst(ctx context.Context, l *lock, c *caller, first bool) (outcome, error) {
	if o, err := set(ctx, l, c, first); err != nil || o == acquired {
		return o, err
	}
	c.at(stepTried)
	held, _, err := c.get(ctx, c.x.lockKey) // "" if the lock has just gone
	if err != nil || !c.isPast(held) {
		return timedOut, err
	}
	return overwrite(ctx, c)
}

// isPast reports whether the time in a value is before now. An empty value has the time 0.
func (c *caller) isPast(held string) bool {
	until, _, _ := strings.Cut(held, ":")
	end, _ := strconv.ParseInt(until, 10, 64)
	return end < c.now()
}

// overwrite sends SETEX, and a second GET. If two callers do so one after the other, both find their own value.
func overwrite(ctx context.Context, c *caller) (outcome, error) {
	c.at(stepExpired)
	if err := c.send(ctx, "SETEX lock 2s end").Err(); err != nil {
		return timedOut, err
	}
	c.at(stepOverwrote)
	if held, _, err := c.get(ctx, c.x.lockKey); err != nil || held != c.end {
		return timedOut, err
	}
	return acquired, nil
}

// hasTime reports whether the lock has time left, whoever holds it. Like Redis, it rounds to the nearest
// second. A negative time means no lock, or no expiry.
func hasTime(ctx context.Context, c *caller) (bool, error) {
	c.at(stepLooking)
	left, err := c.send(ctx, "TTL lock").Int64()
	if second := c.x.second; second != time.Second && left > 0 {
		left = (left + second.Milliseconds()/2) / second.Milliseconds()
	}
	return left != 0, err
}

//go:embed lua/*.lua
var scripts embed.FS

// words are replaced in a published command by values of its caller.
var words = map[string]func(c *caller) any{
	"lock":        func(c *caller) any { return c.x.lockKey },
	"locks":       func(c *caller) any { return c.x.hashKey },
	"value":       func(c *caller) any { return c.value },
	`"value"`:     func(c *caller) any { return `"` + c.value + `"` },
	`""`:          func(*caller) any { return "" },
	"now-ms":      func(c *caller) any { return c.nowMillis() },
	"now-ms+1000": func(c *caller) any { return c.nowMillis() + 1000 },
	"end": func(c *caller) any { // by the caller's clock, with its number
		c.end = fmt.Sprintf("%d:%s", c.now()+2, c.value)
		return c.end
	},
}

// inMillis maps words of a command to those for milliseconds.
var inMillis = map[string]string{"EX": "PX", "EXPIRE": "PEXPIRE", "SETEX": "PSETEX", "TTL": "PTTL"}

// args returns the arguments of a published command. In addition to words, it may have the name of a script,
// and times such as 10s or 1000ms. If a published second is shorter than a second, Redis gets milliseconds.
func (c *caller) args(command string) (args []any) {
	scaled := c.x.second != time.Second
	for word := range strings.FieldsSeq(command) {
		var arg any = word
		if d, err := time.ParseDuration(word); err == nil {
			arg = c.x.seconds(d.Seconds()).Milliseconds()
			if !scaled && !strings.HasSuffix(word, "ms") {
				arg = int64(d.Seconds())
			}
		} else if made := words[word]; made != nil {
			arg = made(c)
		} else if strings.HasPrefix(word, "lua/") {
			script, _ := scripts.ReadFile(word)
			arg = string(script)
			if scaled {
				arg = strings.ReplaceAll(string(script), "'EXPIRE'", "'PEXPIRE'")
			}
		} else if scaled && inMillis[word] != "" {
			arg = inMillis[word]
		}
		args = append(args, arg)
	}
	return args
}

func (c *caller) send(ctx context.Context, command string) *redis.Cmd {
	return c.rdb.Do(ctx, c.args(command)...)
}

func (p *process) get(ctx context.Context, key string) (value string, there bool, err error) {
	value, err = p.rdb.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	return value, err == nil, err
}
