package room

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// checkID is no room that anybody could join.
const checkID = "~check"

// enough is what an ACL has to allow a coordinator.
const enough = "~LockRoom:* ~Room:* ~Node* &LockRoom:* &Room:* +@read +@write +@pubsub +@scripting +@connection +time +wait +info +cluster"

// Check tries all that a coordinator will ask of Redis, and leaves nothing behind. It
// returns an error that says what Redis does not allow this user, if anything: half of
// it would be found out in the middle of a commit. If Redis evicts keys when its memory
// is full, it logs a warning.
func (c *Coordinator) Check(ctx context.Context) error {
	missing, err := c.missing(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case len(missing) > 0:
		return fmt.Errorf("redis does not allow this user %s; what suffices is: ACL SETUSER name %s",
			strings.Join(missing, ", "), enough)
	}
	for _, policy := range c.evictionPolicies(ctx) {
		if policy != "noeviction" {
			c.opts.Log.Warn("Redis evicts keys when its memory is full: members lose their seats, and locks their holders. Set its maxmemory-policy to noeviction",
				"maxmemory-policy", policy)
		}
	}
	return nil
}

// missing returns what Redis does not allow, each as a command and a key or channel.
func (c *Coordinator) missing(ctx context.Context) (missing []string, err error) {
	home := ""
	if c.store.cluster {
		home = homes[0]
	}
	lock, room, node := c.locks.Keys(checkID), c.store.keysOf(checkID), home+checkID
	list := nodeLists(c.store.cluster)[0]
	wakes, publish := lock[0]+":Wake:00000000", "publish"
	if c.store.cluster {
		publish = "spublish"
	}
	cmds, _ := c.store.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, try := range [][]any{
			{"set", lock[0], "x", "px", 1}, {"get", lock[0]}, {"exists", lock[0]}, {"pexpire", lock[0], 1}, {"del", lock[0]},
			{"zadd", lock[1], "xx", 1, "x"}, {"zrem", lock[1], "x"}, {"zrange", lock[1], 0, 0}, {"zscore", lock[1], "x"}, {"zpopmin", lock[1]}, {"pttl", lock[1]},
			{"set", lock[2], 1, "px", 1}, {"incr", lock[2]}, {"del", lock[2]},
			{"hset", room.users, "x", "x"}, {"hdel", room.users, "x"}, {"hgetall", room.users}, {"hvals", room.users}, {"hlen", room.users}, {"type", room.users}, {"getrange", room.users, 0, 0},
			{"hset", room.meta, "x", "x"}, {"hdel", room.meta, "x"}, {"hget", room.meta, "x"}, {"hmget", room.meta, "x"}, {"hexists", room.meta, "x"}, {"pexpire", room.meta, 1}, {"persist", room.meta},
			{"set", nodeKey(node), "0 1 1", "px", 1}, {"get", nodeKey(node)}, {"mget", nodeKey(node)}, {"del", nodeKey(node)},
			{"sadd", nodeRoomsKey(node), "x"}, {"srem", nodeRoomsKey(node), "x"}, {"sismember", nodeRoomsKey(node), "x"}, {"smembers", nodeRoomsKey(node)}, {"scard", nodeRoomsKey(node)},
			{"zadd", list, "xx", 1, node}, {"zrem", list, node}, {"zrange", list, 0, 0},
			{"eval", "return redis.call('TIME')", 1, room.meta}, {"evalsha", strings.Repeat("0", 40), 1, room.meta},
			{publish, room.events, ""}, {publish, wakes, ""},
		} {
			cmd := redis.NewCmd(ctx, try...)
			if try[0] == "eval" || try[0] == "evalsha" {
				cmd.SetFirstKeyPos(3)
			}
			_ = p.Process(ctx, cmd)
		}
		return nil
	})
	for _, cmd := range cmds {
		var reply redis.Error
		if err := cmd.Err(); err != nil && !errors.As(err, &reply) {
			return nil, err
		}
		if redis.HasErrorPrefix(cmd.Err(), "NOPERM") {
			key := cmd.Args()[1]
			if strings.HasPrefix(cmd.Name(), "eval") {
				key = ""
			}
			missing = append(missing, fmt.Sprintf("%s %v", strings.ToUpper(cmd.Name()), key))
		}
	}
	for _, channel := range []string{room.events, wakes} {
		if err := c.trySubscribe(ctx, channel); redis.HasErrorPrefix(err, "NOPERM") {
			missing = append(missing, "SUBSCRIBE "+channel)
		}
	}
	for i := range missing {
		missing[i] = strings.TrimSpace(strings.NewReplacer("{"+checkID+"}", "*", checkID, "*", "00000000", "*").Replace(missing[i]))
	}
	slices.Sort(missing)
	return slices.Compact(missing), nil
}

func (c *Coordinator) trySubscribe(ctx context.Context, channel string) error {
	subscribe := c.store.client.Subscribe
	if c.store.cluster {
		subscribe = c.store.client.SSubscribe
	}
	ps := subscribe(ctx, channel)
	defer ps.Close()
	_, err := ps.Receive(ctx)
	return err
}

// evictionPolicies returns what each server does when its memory is full, as far as it
// says so.
func (c *Coordinator) evictionPolicies(ctx context.Context) (policies []string) {
	ask := func(ctx context.Context, server redis.UniversalClient) {
		for line := range strings.Lines(server.Info(ctx, "memory").Val()) {
			if policy, found := strings.CutPrefix(strings.TrimSpace(line), "maxmemory_policy:"); found {
				policies = append(policies, policy)
			}
		}
	}
	cluster, ok := c.store.client.(*redis.ClusterClient)
	if !ok {
		ask(ctx, c.store.client)
		return policies
	}
	_ = cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		ask(ctx, master)
		return nil
	})
	slices.Sort(policies)
	return slices.Compact(policies)
}
