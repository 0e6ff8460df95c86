package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"roomd/room"
)

// checkID names a room that nobody can join.
const checkID = "~check"

// keyless are commands without a key. On Cluster any server may get them, also one that is away and
// not needed now.
var keyless = []string{"time", "info", "wait"}

// enough is an ACL that allows what a coordinator does.
const enough = "~LockRoom:* ~Room:* ~Node* &LockRoom:* &Room:* +@read +@write +@pubsub +@scripting +@connection -@dangerous +time +info +cluster"

// Check tries all that a coordinator will ask of Redis, and leaves nothing behind. It
// returns an error that says what Redis does not allow this user, so that this is not
// found out in the middle of a commit, or fails with [room.ErrUnavailable]. If Redis evicts
// keys when its memory is full, Check logs a warning.
func (c *Coordinator) Check(ctx context.Context) error {
	missing, err := c.missing(ctx)
	switch {
	case isNotAllowed(err):
		return fmt.Errorf("redis does not allow this user what a node needs: %w; what suffices is: ACL SETUSER name %s", err, enough)
	case err != nil:
		return fmt.Errorf("%w: %w", room.ErrUnavailable, err)
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
	if err := c.Ping(ctx); isNotAllowed(err) { // also where a Cluster does not show its slots
		return nil, err
	}
	home := ""
	if c.store.cluster {
		home = homes[0]
	}
	lock, fresh, node := c.locks.Keys(checkID), c.store.keysOf(checkID), home+checkID
	list := nodeLists(c.store.cluster)[0]
	wakes, publish := lock[0]+":Wake:00000000", "publish"
	if c.store.cluster {
		publish = "spublish"
	}
	tries := [][]any{{"time"}, {"info", "memory"}}
	if c.store.acks > 0 {
		tries = append(tries, []any{"wait", 0, 0})
	}
	cmds, _ := c.store.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, try := range append(tries, [][]any{
			{"set", lock[0], "x", "px", 1}, {"get", lock[0]}, {"exists", lock[0]}, {"pexpire", lock[0], 1}, {"del", lock[0]},
			{"zadd", lock[1], "xx", 1, "x"}, {"zrem", lock[1], "x"}, {"zrange", lock[1], 0, 0}, {"zscore", lock[1], "x"}, {"zpopmin", lock[1]}, {"pttl", lock[1]},
			{"set", lock[2], 1, "px", 1}, {"del", lock[2]},
			{"hset", fresh.users, "x", "x"}, {"hdel", fresh.users, "x"}, {"hgetall", fresh.users}, {"hvals", fresh.users}, {"hlen", fresh.users}, {"type", fresh.users}, {"getrange", fresh.users, 0, 0},
			{"hset", fresh.meta, "x", "x"}, {"hdel", fresh.meta, "x"}, {"hget", fresh.meta, "x"}, {"hmget", fresh.meta, "x"}, {"hexists", fresh.meta, "x"}, {"pexpire", fresh.meta, 1}, {"persist", fresh.meta},
			{"set", nodeKey(node), "0 1 1", "px", 1}, {"get", nodeKey(node)}, {"mget", nodeKey(node)}, {"del", nodeKey(node)}, {"set", nodeStoppedKey(node), "", "px", 1}, {"get", nodeStoppedKey(node)}, {"del", nodeStoppedKey(node)},
			{"sadd", nodeRoomsKey(node), "x"}, {"srem", nodeRoomsKey(node), "x"}, {"sismember", nodeRoomsKey(node), "x"}, {"smembers", nodeRoomsKey(node)}, {"scard", nodeRoomsKey(node)},
			{"zadd", list, "xx", 1, node}, {"zrem", list, node}, {"zrange", list, 0, 0},
			{"eval", "return redis.call('TIME')", 1, fresh.meta}, {"evalsha", strings.Repeat("0", 40), 1, fresh.meta},
			{publish, fresh.events, ""}, {publish, wakes, ""},
		}...) {
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
		if err := cmd.Err(); err != nil && !errors.As(err, &reply) && !slices.Contains(keyless, cmd.Name()) {
			return nil, err
		}
		if isNotAllowed(cmd.Err()) {
			what := strings.ToUpper(cmd.Name())
			if !slices.Contains(keyless, cmd.Name()) && !strings.HasPrefix(cmd.Name(), "eval") {
				what += fmt.Sprint(" ", cmd.Args()[1])
			}
			missing = append(missing, what)
		}
	}
	for _, channel := range []string{fresh.events, wakes} {
		if err := c.trySubscribe(ctx, channel); isNotAllowed(err) {
			missing = append(missing, "SUBSCRIBE "+channel)
		}
	}
	for i := range missing {
		missing[i] = strings.TrimSpace(strings.NewReplacer("{"+checkID+"}", "*", checkID, "*", "00000000", "*").Replace(missing[i]))
	}
	slices.Sort(missing)
	return slices.Compact(missing), nil
}

func isNotAllowed(err error) bool { return redis.HasErrorPrefix(err, "NOPERM") }

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
	var mu sync.Mutex
	_ = cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		ask(ctx, master)
		return nil
	})
	slices.Sort(policies)
	return slices.Compact(policies)
}
