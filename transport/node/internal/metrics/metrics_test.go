package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/protocol"
)

// still is a node that always says the same.
type still struct {
	stats  Stats
	ready  error
	differ int // rooms in which a seat is taken twice
}

func (s still) Stats() Stats                { return s.stats }
func (s still) MaxConnections() int         { return 7 }
func (s still) Settings() map[string]string { return map[string]string{"lock_ttl": "3s"} }
func (s still) Ready(context.Context) error { return s.ready }
func (s still) Checks() map[coordinator.Check]coordinator.Checked {
	return map[coordinator.Check]coordinator.Checked{coordinator.CheckSeats: {Rooms: s.differ}}
}

func newHandler(t testing.TB, n Node) (*Metrics, http.Handler) {
	m := New()
	m.Observe(n)
	return m, m.Handler()
}

// scrape returns the lines of the metrics, without comments.
func scrape(h http.Handler) string {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	var lines strings.Builder
	for line := range strings.Lines(answer.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// read returns the value of a line.
func read(t *testing.T, h http.Handler, name string) float64 {
	t.Helper()
	_, rest, found := strings.Cut("\n"+scrape(h), "\n"+name+" ")
	text, _, _ := strings.Cut(rest, "\n")
	value, err := strconv.ParseFloat(text, 64)
	redistest.FatalIf(t, !found || err != nil, "%s: %q, %v", name, text, err)
	return value
}

func expect(t *testing.T, h http.Handler, want ...string) {
	t.Helper()
	got := scrape(h)
	for _, line := range want {
		if !strings.Contains("\n"+got, "\n"+line+"\n") {
			name, _, _ := strings.Cut(line, " ")
			_, is, _ := strings.Cut("\n"+got, "\n"+name)
			is, _, _ = strings.Cut(is, "\n")
			t.Errorf("%s%s, want %s", name, is, line)
		}
	}
}

// Names, units and help are as Prometheus wants them.
func TestConventions(t *testing.T) {
	m, _ := newHandler(t, still{})
	problems, err := testutil.GatherAndLint(m.Registry)
	redistest.OK(t, err)
	for _, p := range problems {
		redistest.ErrorIf(t, strings.HasPrefix(p.Metric, namespace+"_"), "%s: %s", p.Metric, p.Text)
	}
}

func TestActions(t *testing.T) {
	m, h := newHandler(t, still{})
	rooms := m.Rooms
	for _, tt := range []struct {
		action room.Action
		err    error
		result string
	}{
		{room.Join{User: "a", Session: "s"}, nil, "ok"},
		{room.Join{User: "a", Session: "s"}, room.Refuse(room.ErrFull, "room 42 is full"), "room_full"},
		{room.Join{User: "a", Session: "s"}, room.ErrSeatTaken, "seat_taken"},
		{room.Join{User: "a", Session: "s"}, room.Refuse(room.ErrDuplicate, "a is there"), "duplicate_user"},
		{room.Join{User: "a", Session: "s"}, room.Forbid("only friends"), "forbidden"},
		{room.Join{User: "a", Session: "s"}, &room.InvalidError{}, "bad_request"},
		{room.Leave{User: "a", Session: "s"}, fmt.Errorf("x: %w", room.ErrNotMember), "not_member"},
		{room.Leave{User: "a", Session: "s"}, room.ErrBusy, "busy"},
		{room.Leave{User: "a", Session: "s"}, fmt.Errorf("x: %w: %w", room.ErrUnavailable, context.DeadlineExceeded), "unavailable"},
		{room.Leave{User: "a", Session: "s"}, fmt.Errorf("x: %w: %w", room.ErrUnknown, room.ErrUnavailable), "unknown"},
		{room.Join{User: "a", Session: "s"}, room.Refuse(room.ErrRoomClosed, "room 42 is closed"), "closed"},
		{room.Configure{Settings: room.Settings{}}, room.ErrConflict, "conflict"},
		{room.Keep{User: "a", Session: "s"}, room.ErrClosed, "cancelled"}, // the node, not the room
		{room.Detach{User: "a", Session: "s"}, context.Canceled, "cancelled"},
		{room.Detach{User: "a", Session: "s"}, errors.New("?"), "internal"},
		{room.Upkeep{Evict: "n"}, nil, "ok"},
	} {
		rooms.Done(room.KindOf(tt.action), tt.err, 30*time.Millisecond)
		kind := room.KindOf(tt.action)
		if kind == "upkeep" {
			kind = "other"
		}
		expect(t, h, fmt.Sprintf(`roomd_actions_total{kind="%s",result="%s"} 1`, kind, tt.result))
	}
	expect(t, h,
		`roomd_action_duration_seconds_bucket{kind="leave",le="0.025"} 0`,
		`roomd_action_duration_seconds_bucket{kind="leave",le="0.05"} 4`,
		`roomd_action_duration_seconds_count{kind="join"} 7`)
}

func TestHoldsAndTrouble(t *testing.T) {
	m, h := newHandler(t, still{})
	rooms := m.Rooms
	rooms.Acquired(2 * time.Second)
	rooms.Ended(time.Second, 3, nil)
	rooms.Ended(time.Second, 256, coordinator.ErrStaleCommit)
	rooms.Ended(time.Second, 1, coordinator.ErrHoldUnknown)
	rooms.Ended(time.Second, 1, coordinator.ErrHoldUnknown)
	rooms.Reapplied()
	rooms.Evicted(4, false)
	rooms.Evicted(1, false)
	rooms.Evicted(2, true)
	rooms.Resynced()
	rooms.Renamed()
	expect(t, h,
		`roomd_lock_wait_seconds_sum 2`, `roomd_lock_hold_seconds_sum 4`, `roomd_lock_hold_seconds_count 4`,
		`roomd_batch_actions_sum 261`, `roomd_batch_actions_bucket{le="256"} 4`, `roomd_batch_actions_bucket{le="128"} 3`,
		`roomd_locks_lost_total{reason="stale_commit"} 1`, `roomd_locks_lost_total{reason="no_answer"} 2`,
		`roomd_commits_reapplied_total 1`, `roomd_evicted_members_total{node_has="died"} 5`, `roomd_evicted_members_total{node_has="stopped"} 2`, `roomd_resyncs_total 1`, `roomd_leases_lost_total 1`)
}

func TestClients(t *testing.T) {
	m, h := newHandler(t, still{})
	clients := m.Clients
	clients.Connected()
	clients.Merged(3)
	clients.Closed(protocol.CloseTooSlow)
	clients.Closed(4999)
	for _, limit := range transport.Limits() {
		expect(t, h, fmt.Sprintf(`roomd_refused_total{limit="%s"} 0`, limit))
		clients.Refused(limit)
		expect(t, h, fmt.Sprintf(`roomd_refused_total{limit="%s"} 1`, limit))
	}
	clients.Refused("what a client says")
	expect(t, h,
		`roomd_connections_total 1`, `roomd_merged_events_total 3`,
		`roomd_connections_closed_total{code="4008"} 1`, `roomd_connections_closed_total{code="other"} 1`, `roomd_refused_total{limit="other"} 1`)
}

func TestGauges(t *testing.T) {
	_, h := newHandler(t, still{differ: 8, stats: Stats{
		Clients: transport.Stats{Connections: 1, Unauthenticated: 2, Rooms: 3, Members: 4, Watchers: 5, Graces: 6},
		Rooms:   coordinator.Stats{Waiting: 7, Busy: 8, Copies: 9},
		Redis:   redis.PoolStats{TotalConns: 10, IdleConns: 11, Misses: 12, Timeouts: 13},
	}})
	expect(t, h,
		`roomd_connections 1`, `roomd_connections_without_token 2`, `roomd_rooms 3`, `roomd_members 4`, `roomd_watchers 5`, `roomd_sessions_in_grace 6`,
		`roomd_queue_length 7`, `roomd_busy_rooms 8`, `roomd_copied_rooms 9`,
		`roomd_redis_pool_connections 10`, `roomd_redis_pool_idle_connections 11`, `roomd_redis_pool_misses_total 12`, `roomd_redis_pool_timeouts_total 13`,
		`roomd_connections_limit 7`, `roomd_ready 1`, `roomd_invariant_violations{check="seats"} 8`, `roomd_config_info{lock_ttl="3s"} 1`)
	_, h = newHandler(t, still{ready: room.ErrUnavailable})
	expect(t, h, `roomd_ready 0`)
}

func TestRoundTrips(t *testing.T) {
	_, rdb := redistest.Mini(t)
	m, h := newHandler(t, still{})
	ctx := t.Context()
	m.Hook(rdb)
	rdb.Set(ctx, "text", "x", 0)
	rdb.Get(ctx, "nothing")                        // no error
	rdb.EvalSha(ctx, strings.Repeat("0", 40), nil) // no error either
	rdb.HGetAll(ctx, "text")                       // WRONGTYPE
	_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Get(ctx, "text")
		p.HGetAll(ctx, "text")
		p.HGetAll(ctx, "text")
		return nil
	})
	expect(t, h,
		`roomd_redis_commands_total 7`, `roomd_redis_round_trip_seconds_count{kind="command"} 4`, `roomd_redis_round_trip_seconds_count{kind="pipeline"} 1`,
		`roomd_redis_errors_total{reason="refused"} 3`, `roomd_redis_errors_total{reason="no_answer"} 0`)
	gone, cancel := context.WithCancel(ctx)
	cancel()
	rdb.Get(gone, "text")
	expect(t, h, `roomd_redis_errors_total{reason="no_answer"} 0`)
	rdb.AddHook(redistest.Hook{Before: func(context.Context, redis.Cmder) error { return io.ErrUnexpectedEOF }})
	rdb.Get(ctx, "text")
	_, _ = rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Get(ctx, "text")
		p.Get(ctx, "text")
		return nil
	})
	expect(t, h, `roomd_redis_errors_total{reason="no_answer"} 2`)
}

// An outcome that is unknown counts as that, whatever ended the wait for it.
func TestUnknownCountsFirst(t *testing.T) {
	for _, r := range results {
		if got := resultOf(fmt.Errorf("%w: %w", room.ErrUnknown, r.err)); got != "unknown" {
			t.Errorf("with %v: %s", r.err, got)
		}
	}
}

// Traces of somebody else are called, too.
func TestJoin(t *testing.T) {
	m, h := newHandler(t, still{})
	var told []string
	rooms := Join(m.Rooms, &coordinator.Trace{
		Done:      func(kind room.Kind, err error, took time.Duration) { told = append(told, fmt.Sprint(kind, err, took)) },
		Committed: func() { told = append(told, "committed") }, // which the metrics do not count
	})
	rooms.Done(room.KindJoin, nil, time.Second)
	rooms.Committed()
	rooms.Resynced()
	redistest.Equal(t, "the other trace was told", fmt.Sprint(told), "[join<nil> 1s committed]")
	expect(t, h, `roomd_actions_total{kind="join",result="ok"} 1`, `roomd_resyncs_total 1`)
	redistest.ErrorIf(t, Join(rooms, nil) != rooms, "without another trace there is another one")
}

func TestCheckSettings(t *testing.T) {
	for _, name := range []string{"", "__name__", "\xff"} {
		if err := CheckSettings(map[string]string{name: "x"}); !errors.Is(err, room.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
