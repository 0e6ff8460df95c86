package node

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/transport/protocol"
)

// staleOnce deletes the lock of a room before the first commit, as if it had expired.
func staleOnce(t *testing.T, rdb *redis.Client, id string) redis.Hook {
	var done atomic.Bool
	return redistest.Hook{Before: func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" && strings.Contains(fmt.Sprint(cmd.Args()...), id) &&
			rdb.Exists(t.Context(), "LockRoom:"+id).Val() == 1 && done.CompareAndSwap(false, true) {
			return rdb.Del(t.Context(), "LockRoom:"+id).Err()
		}
		return nil
	}}
}

// A small game, and what the metrics say of it.
func TestMetrics_Game(t *testing.T) {
	redistest.Thorough(t)
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client()
	n := observe(t, server.URL(), []redis.Hook{staleOnce(t, rdb, "expires")}, "--capacity", "2", "--lock-wait",
		"500ms", "--lock-ttl", "500ms", "--node-ttl", "1s", "--grace", "1ms")
	a, b, c := n.dial("a"), n.dial("b"), n.dial("c")
	join(t, a, "42")
	join(t, b, "42")
	refused := func(what string, err error) {
		t.Helper()
		redistest.ErrorIf(t, err == nil, "%s is not refused", what)
	}
	_, err := c.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "42"})
	refused("a third player", err)
	_, err = c.Do(t.Context(), protocol.Request{Action: protocol.ActionLeave, Room: "42"})
	refused("a leave from outside", err)
	n.expect(series{
		`roomd_actions_total{kind="join",result="ok"}`:          2,
		`roomd_actions_total{kind="join",result="room_full"}`:   1,
		`roomd_actions_total{kind="leave",result="not_member"}`: 1,
		`roomd_action_duration_seconds_count{kind="join"}`:      3,
		`roomd_lock_wait_seconds_count`:                         4,
		`roomd_lock_hold_seconds_count`:                         4,
		`roomd_batch_actions_sum`:                               4,
		`roomd_locks_lost_total{reason="stale_commit"}`:         0,
		`roomd_connections`:                                     3,
		`roomd_connections_total`:                               3,
		`roomd_rooms`:                                           1,
		`roomd_members`:                                         2,
		`roomd_ready`:                                           1,
		`roomd_redis_errors_total{reason="refused"}`:            0,
		`roomd_redis_errors_total{reason="no_answer"}`:          0,
		`roomd_queue_length`:                                    0,
	})

	// The lock expires before the commit.
	join(t, c, "expires")
	n.expect(series{`roomd_locks_lost_total{reason="stale_commit"}`: 1,
		`roomd_actions_total{kind="join",result="ok"}`: 3})

	// Somebody holds a lock for too long, and another room is no room of ours.
	rdb.Set(t.Context(), "LockRoom:held", "held:x", time.Minute)
	_, err = a.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "held"})
	refused("a join of a room that is held", err)
	rdb.Set(t.Context(), "Room:foreign:Users", "not ours", time.Minute)
	_, err = a.Do(t.Context(), protocol.Request{Action: protocol.ActionJoin, Room: "foreign"})
	refused("a join of what is no room", err)
	n.until("busy, internal, and a long action", func(s series) bool {
		return s[`roomd_actions_total{kind="join",result="busy"}`] == 1 &&
			s[`roomd_actions_total{kind="join",result="internal"}`] == 1 &&
			s[`roomd_action_duration_seconds_bucket{kind="join",le="+Inf"}`]-s[`roomd_action_duration_seconds_bucket{kind="join",le="0.25"}`] == 1
	})

	// An event cannot be read, so that it is missed.
	rdb.Publish(t.Context(), "Room:42:Events", "?")
	n.expect(series{`roomd_resyncs_total`: 1})

	// Another node dies, with two members.
	p := launch(t, 1, server.URL(), "--node-ttl", "1s", "--lock-ttl", "500ms", "--grace", "1ms")[0]
	join(t, p.player("x", nil), "other")
	join(t, p.player("y", nil), "other")
	p.stop(syscall.SIGKILL)
	n.expect(series{`roomd_evicted_members_total{node_has="died"}`: 2,
		`roomd_evicted_members_total{node_has="stopped"}`: 0})

	// Another one is stopped on purpose, and its player does not come back.
	p = launch(t, 1, server.URL(), "--node-ttl", "1s", "--lock-ttl", "500ms", "--grace", "1ms")[0]
	join(t, p.player("x", nil), "other")
	p.stop(syscall.SIGTERM)
	n.expect(series{`roomd_evicted_members_total{node_has="died"}`: 2,
		`roomd_evicted_members_total{node_has="stopped"}`: 1})

	// A user comes a second time, and players go.
	again := n.dial("a")
	join(t, again, "42")
	n.expect(series{`roomd_connections_closed_total{code="4001"}`: 1})
	redistest.OK(t, redistest.Err(again.Do(t.Context(), protocol.Request{Action: protocol.ActionLeave, Room: "42"})))
	b.Close()
	c.Close()
	n.expect(series{`roomd_connections`: 1, `roomd_members`: 0, `roomd_rooms`: 0,
		`roomd_actions_total{kind="leave",result="ok"}`: 3})
}
