package coordinator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// dumpLua returns all that Redis has, in one step.
const dumpLua = `
local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local type = redis.call('TYPE', key).ok
  local value
  if type == 'string' then value = {redis.call('GET', key)}
  elseif type == 'hash' then value = redis.call('HGETALL', key)
  elseif type == 'set' then value = redis.call('SMEMBERS', key)
  elseif type == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  else value = {} end
  all[#all + 1] = {key, type, redis.call('PTTL', key), value}
end
return all`

// simCopy is all that Redis had at one time.
type simCopy struct {
	at   time.Time
	keys []simKey
}

type simKey struct {
	name, kind string
	ttl        time.Duration // 0: none
	value      []string
}

// save copies everything.
func (s *simServer) save(ctx context.Context) (*simCopy, error) {
	reply, err := s.admin.Eval(ctx, dumpLua, nil).Slice()
	if err != nil {
		return nil, err
	}
	c := &simCopy{at: time.Now()}
	for _, one := range reply {
		parts := one.([]any)
		k := simKey{name: parts[0].(string), kind: parts[1].(string)}
		if ms := parts[2].(int64); ms > 0 {
			k.ttl = time.Duration(ms) * time.Millisecond
		}
		for _, v := range parts[3].([]any) {
			k.value = append(k.value, v.(string))
		}
		c.keys = append(c.keys, k)
	}
	return c, nil
}

// restart stops Redis for a while, and starts it with a copy of its data, or with none.
func (s *simServer) restart(ctx context.Context, links []*simLink, from *simCopy, away time.Duration) error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.mu.Lock()
	s.down = true
	s.mu.Unlock()
	for _, l := range links {
		l.hangUp()
	}
	time.Sleep(away) // what it is doing it ends
	pipe := s.admin.Pipeline()
	pipe.FlushAll(ctx)
	pipe.ScriptFlush(ctx)
	at := make(map[string]simPosition)
	if from != nil {
		for _, k := range from.keys {
			k.restore(ctx, pipe, time.Since(from.at))
			if id, ok := strings.CutSuffix(k.name, ":Meta"); ok {
				at[strings.TrimPrefix(id, "Room:")] = k.position()
			}
		}
	}
	_, err := pipe.Exec(ctx)
	s.ledger.lost(at)
	s.mu.Lock()
	s.down, s.run = false, s.run+1
	s.mu.Unlock()
	return err
}

func (k simKey) restore(ctx context.Context, pipe redis.Pipeliner, older time.Duration) {
	switch {
	case k.ttl > 0 && k.ttl <= older, len(k.value) == 0:
		return
	case k.kind == "string":
		pipe.Set(ctx, k.name, k.value[0], 0)
	case k.kind == "hash":
		pipe.HSet(ctx, k.name, k.value)
	case k.kind == "set":
		pipe.SAdd(ctx, k.name, k.value)
	case k.kind == "zset":
		for i := 0; i < len(k.value); i += 2 {
			pipe.Do(ctx, "ZADD", k.name, k.value[i+1], k.value[i])
		}
	}
	if k.ttl > 0 {
		pipe.PExpire(ctx, k.name, k.ttl-older)
	}
}

// position returns where a room stands by its Meta.
func (k simKey) position() (at simPosition) {
	for i := 0; i+1 < len(k.value); i += 2 {
		switch k.value[i] {
		case "epoch":
			at.Epoch = k.value[i+1]
		case "version":
			_, _ = fmt.Sscan(k.value[i+1], &at.Version)
		}
	}
	return at
}

// flush empties Redis while it goes on: by a script, so that the ledger knows between which commits.
func (s *simServer) flush(ctx context.Context) error {
	return s.admin.Eval(ctx, `return redis.call('FLUSHALL')`, nil).Err()
}
