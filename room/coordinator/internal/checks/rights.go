package checks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redisconn"
	"roomd/room"
	"roomd/room/coordinator/inspect"
	"roomd/room/coordinator/internal/cluster"
	"roomd/room/coordinator/internal/relay"
	"roomd/room/coordinator/internal/store"
)

// checkID is an id that nobody can join.
const checkID = "~check"

// keyless are commands without a key. On a Cluster any server may get them, even one that is away and not needed.
var keyless = []string{"time", "info", "wait", "scan", "script"}

// EnoughRights returns an ACL that allows all commands of a coordinator whose keys have this prefix.
func EnoughRights(prefix string) string {
	names := "~LockRoom:* ~Room:* ~Node* ~Lobby:* ~Timers:* ~Feed:* &LockRoom:* &Room:*"
	if prefix != "" {
		names = "~" + prefix + "* &" + prefix + "*"
	}
	return names + " +@read +@write +@pubsub +@scripting +@transaction +@connection -@dangerous +time +info +cluster"
}

// Redis is the Redis of a coordinator, to be checked.
type Redis struct {
	Store    *store.Store
	Locks    *lockmgr.Manager
	Replicas int
	Journal  int
	Feed     int
	Log      *slog.Logger
}

// Check tests all rights that a coordinator needs in Redis, and leaves nothing behind. Its error lists the missing
// ones. It also fails as CheckKeys does, and with [room.ErrUnavailable]. It logs other problems that the servers
// report.
func (r *Redis) Check(ctx context.Context) error {
	missing, err := r.MissingRights(ctx)
	switch {
	case err != nil:
		return err
	case len(missing) > 0:
		return fmt.Errorf("redis does not allow this user %s; what suffices is: ACL SETUSER name %s",
			strings.Join(missing, ", "), EnoughRights(r.Store.Prefix))
	}
	if err := r.CheckKeys(ctx); err != nil {
		return err
	}
	r.logServers(ctx)
	return nil
}

// CheckKeys fails with a [room.ErrForeign] if a key shared by all rooms holds a value that roomd has not written.
func (r *Redis) CheckKeys(ctx context.Context) error {
	return r.Store.CheckTypes(ctx, append(r.Store.Shared(), cluster.Lists(r.Store.Space)...)...)
}

// logServers logs problems that would appear later, one line for all servers. A server that reports nothing passes.
func (r *Redis) logServers(ctx context.Context) {
	servers, _ := inspect.Servers(ctx, r.Store.Client, false)
	var old, forgetful, readOnly, evicting, policies, alone []string
	for _, s := range servers {
		if s.TooOld {
			old = append(old, s.Address+" "+s.Product)
		}
		if s.NoRunID {
			forgetful = append(forgetful, s.Address+" "+s.Product)
		}
		if s.ReadOnly {
			readOnly = append(readOnly, s.Address)
		}
		if s.Replicas < r.Replicas && !s.IsReplica {
			alone = append(alone, fmt.Sprintf("%s %d", s.Address, s.Replicas))
		}
		if s.Evicts() {
			evicting, policies = append(evicting, s.Address), append(policies, s.Policy)
		}
	}
	log := r.Log
	if old != nil {
		log.Error("Redis is too old; roomd needs 7.0 or later", "servers", old)
	}
	if forgetful != nil {
		log.Warn("Redis does not tell its run_id, so no node notices its restart from an older copy of its data: rooms go back to it, and whoever came since has no seat", "servers", forgetful)
	}
	if readOnly != nil {
		log.Error("Redis is a read-only replica: nothing can be written; --redis has to name its master", "servers", readOnly)
	}
	if alone != nil {
		log.Warn("Redis has fewer replicas than --replicas: until they are there each change ends as unknown, and /readyz fails", "servers", alone, "replicas", r.Replicas)
	}
	if evicting != nil {
		slices.Sort(policies)
		log.Warn("Redis evicts keys when its memory is full: members lose their seats, and locks their holders. Set its maxmemory-policy to noeviction",
			"servers", evicting, "maxmemory-policy", slices.Compact(policies))
	}
}

// MissingRights returns the commands that Redis forbids, most with a key or channel. It fails with
// [room.ErrUnavailable].
func (r *Redis) MissingRights(ctx context.Context) ([]string, error) {
	missing, err := r.missing(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", room.ErrUnavailable, err)
	}
	return missing, nil
}

func (r *Redis) missing(ctx context.Context) (missing []string, err error) {
	if err := r.Store.Client.Ping(ctx).Err(); redisconn.NotAllowed(err) {
		missing = append(missing, commandIn(err, "PING"))
		if missing[0] != "PING" { // a Cluster that hides its slots: nothing else can be tested
			return missing, nil
		}
	}
	tag := ""
	if r.Store.Cluster {
		tag = cluster.HashTags()[0]
	}
	names, node := r.Store.Space, tag+checkID
	lock, fresh, list := r.Locks.Keys(checkID), r.Store.KeysOf(checkID), names.Nodes(tag)
	wakes, publish := lock[0]+":Wake:00000000", "publish"
	if r.Store.Cluster {
		publish = "spublish"
	}
	due, index := names.Timers(), names.Lobby(checkID)
	tries := [][]any{{"time"}, {"info", "server"}, {"scan", 0, "match", index, "count", 1}}
	if r.Replicas > 0 {
		tries = append(tries, []any{"wait", 0, 0})
	}
	if r.Journal > 0 {
		tries = append(tries, []any{"xadd", fresh.Log, "nomkstream", "maxlen", "~", 1, "*", "x", "x"}, []any{"pexpire", fresh.Log, 1}, []any{"persist", fresh.Log}, []any{"xrange", fresh.Log, "-", "-"})
	}
	if r.Feed > 0 {
		keys := relay.KeysOf(names)
		place, feed, readers := keys.Rooms, keys.Entries, keys.Readers
		tries = append(tries, []any{"hget", place, "~"}, []any{"hmget", place, "~"}, []any{"hset", place, "~", ""}, []any{"hdel", place, "~"}, []any{"hscan", place, 0, "count", 1},
			[]any{"xadd", feed, "nomkstream", "maxlen", "~", r.Feed, "1-0", "x", "x"}, []any{"xrange", feed, "-", "-"}, []any{"xrevrange", feed, "-", "-"},
			[]any{"set", keys.Searched, 1, "nx", "px", 1},
			[]any{"hget", readers, "~"}, []any{"hsetnx", readers, "~", ""}, []any{"hset", readers, "~", ""}, []any{"hdel", readers, "~"})
	}
	cmds, _ := r.Store.Client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, try := range append(tries, [][]any{
			{"set", lock[0], "x", "px", 1}, {"get", lock[0]}, {"exists", lock[0]}, {"pexpire", lock[0], 1}, {"del", lock[0]},
			{"zadd", lock[1], "xx", 1, "x"}, {"zrem", lock[1], "x"}, {"zrange", lock[1], 0, 0}, {"zscore", lock[1], "x"}, {"zpopmin", lock[1]}, {"pttl", lock[1]},
			{"set", lock[2], 1, "px", 1}, {"del", lock[2]},
			{"hset", fresh.Users, "x", "x"}, {"hdel", fresh.Users, "x"}, {"hgetall", fresh.Users}, {"hvals", fresh.Users}, {"hlen", fresh.Users}, {"type", fresh.Users}, {"getrange", fresh.Users, 0, 0},
			{"hset", fresh.Meta, "x", "x"}, {"hdel", fresh.Meta, "x"}, {"hget", fresh.Meta, "x"}, {"hmget", fresh.Meta, "x"}, {"hexists", fresh.Meta, "x"}, {"pexpire", fresh.Meta, 1}, {"persist", fresh.Meta},
			{"set", names.Lease(node), "0 1 1", "px", 1}, {"get", names.Lease(node)}, {"mget", names.Lease(node)}, {"del", names.Lease(node)}, {"set", names.NodeInfo(node), "", "px", 1}, {"get", names.NodeInfo(node)}, {"pttl", names.NodeInfo(node)}, {"del", names.NodeInfo(node)}, {"set", names.Drain(node), "", "px", 1}, {"get", names.Drain(node)}, {"del", names.Drain(node)}, {"set", names.Stopped(node), "", "px", 1}, {"get", names.Stopped(node)}, {"del", names.Stopped(node)}, {"set", names.Over(node), "", "px", 1}, {"exists", names.Over(node)}, {"del", names.Over(node)},
			{"sadd", names.NodeRooms(node), "x"}, {"srem", names.NodeRooms(node), "x"}, {"sismember", names.NodeRooms(node), "x"}, {"smembers", names.NodeRooms(node)}, {"scard", names.NodeRooms(node)},
			{"zadd", list, "xx", 1, node}, {"zrem", list, node}, {"zrange", list, 0, 0},
			{"zadd", due, "xx", 1, "x"}, {"zrem", due, "x"}, {"zrangebyscore", due, 0, 0},
			{"hset", index, "x", "x"}, {"hget", index, "x"}, {"hmget", index, "x"}, {"hdel", index, "x"}, {"hincrby", index, "x", 1}, {"del", index},
			{"zadd", index, 1, "x"}, {"zscore", index, "x"}, {"zrangebyscore", index, 1, 1}, {"zrem", index, "x"}, {"pexpire", index, 1}, {"set", index, "x", "px", 1}, {"get", index}, {"exists", index}, {"del", index},
			{"eval", "return redis.call('TIME')", 1, fresh.Meta}, {"script", "load", "return redis.call('TIME')"}, {"evalsha", strings.Repeat("0", 40), 1, fresh.Meta},
			{publish, fresh.Events, ""}, {publish, wakes, ""},
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
		if redisconn.NotAllowed(cmd.Err()) {
			what := strings.ToUpper(cmd.Name())
			if cmd.Name() == "script" {
				what = "SCRIPT LOAD"
			}
			if !slices.Contains(keyless, cmd.Name()) && !strings.HasPrefix(cmd.Name(), "eval") {
				what += fmt.Sprint(" ", cmd.Args()[1])
			}
			missing = append(missing, what)
		}
	}
	if _, err := r.Store.Client.TxPipelined(ctx, func(p redis.Pipeliner) error { p.HGet(ctx, fresh.Meta, "x"); return nil }); redisconn.NotAllowed(err) {
		missing = append(missing, "MULTI")
	}
	for _, channel := range []string{fresh.Events, wakes} {
		if err := r.trySubscribe(ctx, channel); redisconn.NotAllowed(err) {
			missing = append(missing, "SUBSCRIBE "+channel)
		}
	}
	for i := range missing {
		missing[i] = strings.TrimSpace(strings.NewReplacer("{"+checkID+"}", "*", checkID, "*", ":Wake:00000000", ":Wake:*").Replace(missing[i]))
	}
	slices.Sort(missing)
	return slices.Compact(missing), nil
}

// refusedCommand matches the forbidden command in an error of Redis.
var refusedCommand = regexp.MustCompile("'([a-zA-Z|]+)' command")

func commandIn(err error, other string) string {
	if m := refusedCommand.FindStringSubmatch(err.Error()); m != nil {
		return strings.ToUpper(strings.ReplaceAll(m[1], "|", " "))
	}
	return other
}

func (r *Redis) trySubscribe(ctx context.Context, channel string) error {
	subscribe := r.Store.Client.Subscribe
	if r.Store.Cluster {
		subscribe = r.Store.Client.SSubscribe
	}
	ps := subscribe(ctx, channel)
	defer ps.Close()
	_, err := ps.Receive(ctx)
	return err
}
