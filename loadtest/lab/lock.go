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
	draw func(c *caller) // makes a value before the first turn
	take string          // answers 1 or OK if it has set the lock
	then string          // follows if it has
	turn turn            // nil: take, and then
	// the pause between two turns; zero: there is one turn, and a player's join asks again every 5 ms
	again   time.Duration
	most    int64 // published seconds for all turns, and again is scaled; zero: no end
	check   func(ctx context.Context, c *caller) (mayRelease bool, err error)
	release string

	looksAfterTimeout bool // a cache's caller reads the value after timedOut, before it gives up
}

// turn is one attempt to get the lock.
type turn func(ctx context.Context, l *lock, c *caller, first bool) (outcome, error)

// outcome is the result of an attempt. The numbers are the published ones of those that wait.
type outcome int

const (
	timedOut outcome = iota // or it was taken
	acquired
	vanished // another caller had the lock, and it is gone
)

// ask takes turns as published. The lab's choice: endless ones end when the player has lost patience.
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

// acquire returns when the caller has the lock. What waits was published for a cache, where vanished means that the
// value is there. A player asks again.
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

// unlock releases the lock. As published, nobody looks at an error that Redis answers.
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

// set sends take, and then.
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

// setTogether sends both in one transaction, so that no crash comes between them. then runs also if take has failed.
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

// drawUniqid makes the value of the card game: the room, and PHP's uniqid, the time in microseconds in 13 hexadecimal
// digits.
func drawUniqid(c *caller) {
	now := time.Now()
	if !c.drawsAt.IsZero() {
		now = c.drawsAt
	}
	c.value = fmt.Sprintf("%s%08x%05x", c.x.id, now.Unix(), now.Nanosecond()/1000)
	c.at(stepDrawn)
}

// drawNumber returns a draw of a random number.
func drawNumber(low, high int) func(*caller) {
	return func(c *caller) {
		c.value = strconv.Itoa(low + rand.IntN(high-low+1))
		if !c.drawsAt.IsZero() { // which two do now and then
			c.value = strconv.Itoa(low)
		}
		c.at(stepDrawn)
	}
}

// The numbers of timestamp.
const timestampLow, timestampHigh = 1_000_000, 9_999_999

var drawTimestamp = drawNumber(timestampLow, timestampHigh)

// lookFirst takes a lock that is not there at the first GET with take, or by overwriting it if there is none.
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

// setFirst is a turn that looks at the lock only if take has failed.
func setFirst(ctx context.Context, l *lock, c *caller, first bool) (outcome, error) {
	if o, err := set(ctx, l, c, first); err != nil || o == acquired {
		return o, err
	}
	c.at(stepTried)
	held, _, err := c.get(ctx, c.x.lockKey) // nothing, if it has just gone
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

// overwrite is SETEX, and a second GET. Two callers that do so one after the other both find their own value.
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

// hasTime reports whether the lock has any time left, whoever holds it. As Redis does, it rounds to the nearest
// second. Less than zero is no lock, or no expiry.
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

// words stand in a published command for what its caller makes.
var words = map[string]func(c *caller) any{
	"lock":        func(c *caller) any { return c.x.lockKey },
	"locks":       func(c *caller) any { return c.x.hashKey },
	"value":       func(c *caller) any { return c.value },
	`"value"`:     func(c *caller) any { return `"` + c.value + `"` },
	`""`:          func(*caller) any { return "" },
	"now-ms":      func(c *caller) any { return c.nowMillis() },
	"now-ms+1000": func(c *caller) any { return c.nowMillis() + 1000 },
	"end": func(c *caller) any { // by the caller's clock, and its number
		c.end = fmt.Sprintf("%d:%s", c.now()+2, c.value)
		return c.end
	},
}

// inMillis maps the words of a command to those with the same meaning in milliseconds.
var inMillis = map[string]string{"EX": "PX", "EXPIRE": "PEXPIRE", "SETEX": "PSETEX", "TTL": "PTTL"}

// args returns a published command as the caller sends it. Besides words it may have the name of a script, and times
// as 10s or 1000ms. Where a published second is shorter than a second, Redis gets milliseconds.
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

// send sends a published command.
func (c *caller) send(ctx context.Context, command string) *redis.Cmd {
	return c.rdb.Do(ctx, c.args(command)...)
}

// get sends GET.
func (p *process) get(ctx context.Context, key string) (value string, there bool, err error) {
	value, err = p.rdb.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return "", false, nil
	}
	return value, err == nil, err
}
