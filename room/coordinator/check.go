package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"roomd/room"
	"roomd/room/coordinator/inspect"
)

// checkID names a room that nobody can join.
const checkID = "~check"

// keyless are commands without a key. On Cluster any server may get them, also one that is away and
// not needed now.
var keyless = []string{"time", "info", "wait", "scan"}

// MinRedis is the oldest major version of Redis that has the commands a coordinator needs.
const MinRedis = 7

// EnoughRights is an ACL that allows what a coordinator does.
const EnoughRights = "~LockRoom:* ~Room:* ~Node* ~Lobby:* &LockRoom:* &Room:* +@read +@write +@pubsub +@scripting +@connection -@dangerous +time +info +cluster"

// Check tries all that a coordinator will ask of Redis, and leaves nothing behind. It
// returns an error that says what Redis does not allow this user, so that this is not
// found out in the middle of a commit, or fails with [room.ErrUnavailable]. It logs what else
// is wrong with a server, as far as the server says so.
func (c *Coordinator) Check(ctx context.Context) error {
	missing, err := c.MissingRights(ctx)
	switch {
	case isNotAllowed(err):
		return fmt.Errorf("redis does not allow this user what a node needs: %w; what suffices is: ACL SETUSER name %s", err, EnoughRights)
	case err != nil:
		return err
	case len(missing) > 0:
		return fmt.Errorf("redis does not allow this user %s; what suffices is: ACL SETUSER name %s",
			strings.Join(missing, ", "), EnoughRights)
	}
	c.logServers(ctx)
	return nil
}

// logServers logs what would go wrong later, in one line for all servers. A server that tells
// nothing of itself is believed.
func (c *Coordinator) logServers(ctx context.Context) {
	servers, _ := inspect.Servers(ctx, c.store.client, false)
	var old, readOnly, evicting, policies []string
	for _, s := range servers {
		if s.IsOlderThan(MinRedis) {
			old = append(old, s.Address+" "+s.Version)
		}
		if s.ReadOnly {
			readOnly = append(readOnly, s.Address)
		}
		if s.Evicts() {
			evicting, policies = append(evicting, s.Address), append(policies, s.Policy)
		}
	}
	log := c.opts.Log
	if old != nil {
		log.Error("Redis is too old; roomd needs 7.0 or later", "servers", old)
	}
	if readOnly != nil {
		log.Error("Redis is a read-only replica: nothing can be written; --redis has to name its master", "servers", readOnly)
	}
	if evicting != nil {
		slices.Sort(policies)
		log.Warn("Redis evicts keys when its memory is full: members lose their seats, and locks their holders. Set its maxmemory-policy to noeviction",
			"servers", evicting, "maxmemory-policy", slices.Compact(policies))
	}
}

// MissingRights returns what Redis does not allow this user, each as a command and a key or
// channel. It fails with [room.ErrUnavailable].
func (c *Coordinator) MissingRights(ctx context.Context) ([]string, error) {
	missing, err := c.missing(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", room.ErrUnavailable, err)
	}
	return missing, nil
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
	lobby := lobbyPrefix + checkID
	tries := [][]any{{"time"}, {"info", "memory"}, {"scan", 0, "match", lobby, "count", 1}}
	if c.store.acks > 0 {
		tries = append(tries, []any{"wait", 0, 0})
	}
	if c.opts.Journal > 0 {
		tries = append(tries, []any{"xadd", fresh.log, "nomkstream", "maxlen", "~", 1, "*", "x", "x"}, []any{"pexpire", fresh.log, 1}, []any{"persist", fresh.log}, []any{"xrange", fresh.log, "-", "-"})
	}
	cmds, _ := c.store.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, try := range append(tries, [][]any{
			{"set", lock[0], "x", "px", 1}, {"get", lock[0]}, {"exists", lock[0]}, {"pexpire", lock[0], 1}, {"del", lock[0]},
			{"zadd", lock[1], "xx", 1, "x"}, {"zrem", lock[1], "x"}, {"zrange", lock[1], 0, 0}, {"zscore", lock[1], "x"}, {"zpopmin", lock[1]}, {"pttl", lock[1]},
			{"set", lock[2], 1, "px", 1}, {"del", lock[2]},
			{"hset", fresh.users, "x", "x"}, {"hdel", fresh.users, "x"}, {"hgetall", fresh.users}, {"hvals", fresh.users}, {"hlen", fresh.users}, {"type", fresh.users}, {"getrange", fresh.users, 0, 0},
			{"hset", fresh.meta, "x", "x"}, {"hdel", fresh.meta, "x"}, {"hget", fresh.meta, "x"}, {"hmget", fresh.meta, "x"}, {"hexists", fresh.meta, "x"}, {"pexpire", fresh.meta, 1}, {"persist", fresh.meta},
			{"set", nodeKey(node), "0 1 1", "px", 1}, {"get", nodeKey(node)}, {"mget", nodeKey(node)}, {"del", nodeKey(node)}, {"set", nodeInfoKey(node), "", "px", 1}, {"get", nodeInfoKey(node)}, {"pttl", nodeInfoKey(node)}, {"del", nodeInfoKey(node)}, {"set", nodeDrainKey(node), "", "px", 1}, {"get", nodeDrainKey(node)}, {"del", nodeDrainKey(node)}, {"set", nodeStoppedKey(node), "", "px", 1}, {"get", nodeStoppedKey(node)}, {"del", nodeStoppedKey(node)},
			{"sadd", nodeRoomsKey(node), "x"}, {"srem", nodeRoomsKey(node), "x"}, {"sismember", nodeRoomsKey(node), "x"}, {"smembers", nodeRoomsKey(node)}, {"scard", nodeRoomsKey(node)},
			{"zadd", list, "xx", 1, node}, {"zrem", list, node}, {"zrange", list, 0, 0},
			{"hset", lobby, "x", "x"}, {"hget", lobby, "x"}, {"hmget", lobby, "x"}, {"pexpire", lobby, 1}, {"del", lobby},
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
