package coordinator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
	"roomd/room"
)

func TestDo_JoinAndLeave(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb := client()
		c := newCoordinator(t, rdb, Options{Node: "n1"})
		mustDo(t, c, "42", room.Join{User: "李四", Session: "s1"})
		mustDo(t, c, "42", room.Join{User: "王五", Session: "s2"})
		r := mustDo(t, c, "42", room.Join{User: "张三", Session: "s3"})
		if got := describeUsers(r.Users()); got != "李四@0 王五@1 张三@2" || r.Seat != 2 || r.Version != 3 || r.Epoch == "" {
			t.Fatalf("third join: %+v", r)
		}
		again := mustDo(t, c, "42", room.Join{User: "张三", Session: "s3"})
		redistest.ErrorIf(t, again.Version != 3 || again.Seat != 2, "joining again: %+v", again)
		left := mustDo(t, c, "42", room.Leave{User: "王五", Session: "s2"})
		if got := describeUsers(left.Users()); got != "李四@0 张三@2" || left.Version != 4 || left.Epoch != r.Epoch {
			t.Fatalf("leave: %+v", left)
		}
		expectRefused(t, "leaving again", c, "42", room.Leave{User: "王五", Session: "s2"}, room.ErrNotMember)
		expectRoom(t, mustRead(t, c, "42"), "李四@0 张三@2", 4)

		ctx := t.Context()
		redistest.Equal(t, "LockRoom:42 is left over:", rdb.Exists(ctx, "LockRoom:42").Val(), 0)
		users := rdb.HGetAll(ctx, "Room:42:Users").Val()
		var at int64
		n, _ := fmt.Sscanf(users["张三"], `{"seat":2,"session":"s3","node":"n1","at":%d}`, &at)
		redistest.ErrorIf(t, n != 1 || len(users) != 2, "Room:42:Users is %v", users)
		meta := rdb.HGetAll(ctx, "Room:42:Meta").Val()
		redistest.ErrorIf(t, meta["version"] != "4" || meta["epoch"] != r.Epoch || meta["by:n1"] == "",
			"Room:42:Meta is %v", meta)
	})
}

func TestDo_BadInput(t *testing.T) {
	c, rdb := onMini(t, Options{Rules: room.Rules{Seating: room.Capacity(4)}})
	for field, err := range map[string]error{
		"room":     second(c.Do(t.Context(), "a b", room.Join{User: "a", Session: "s"})),
		"user":     second(c.Do(t.Context(), "42", room.Join{User: "a\n", Session: "s"})),
		"seat":     second(c.Do(t.Context(), "42", room.Join{User: "a", Session: "s", Seat: new(room.MaxSeats)})),
		"session":  second(c.Do(t.Context(), "42", room.Join{User: "a", Session: ""})),
		"capacity": second(c.Do(t.Context(), "42", room.Configure{Settings: room.Settings{Capacity: -1}})),
	} {
		checkInvalid(t, err, field, field)
	}
	redistest.Equal(t, "keys were written:", rdb.DBSize(t.Context()).Val(), 0)
	for field, opts := range map[string]Options{
		"Seating":  {Rules: room.Rules{Seating: room.Capacity(-1)}},
		"LockWait": {LockWait: -1},
		"MaxBatch": {MaxBatch: -1},
		"Idle":     {Idle: -1},
	} {
		_, err := New(rdb, opts)
		checkInvalid(t, err, field, field)
	}
	for _, opts := range []Options{{LockTTL: -1}, {LockPoll: -1}} {
		if _, err := New(rdb, opts); !errors.Is(err, lockmgr.ErrInvalid) {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}

func TestDo_Busy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		rdb.Set(t.Context(), "LockRoom:42", "somebody", time.Hour)
		c := newCoordinator(t, rdb, Options{LockWait: 2 * time.Second})
		start := time.Now()
		expectRefused(t, "join", c, "42", room.Join{User: "张三", Session: "s"}, room.ErrBusy)
		redistest.Equal(t, "waited", time.Since(start), 2*time.Second)
		rdb.Del(t.Context(), "LockRoom:42")
		mustDo(t, c, "42", room.Join{User: "张三", Session: "s"})
	})
}

// A lock without a TTL, which another program has written, keeps a room busy until somebody deletes it: one line names its key.
func TestDo_BusyForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		var log lines
		c := newCoordinator(t, redistest.MiniClient(t, mini), Options{LockWait: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))})
		says := func(after string, want int) {
			t.Helper()
			synctest.Wait()
			if got := log.count(`msg="a room is busy until somebody deletes its lock, which has no TTL: another program has written it" key=LockRoom:42`); got != want {
				t.Errorf("%s: %d lines say so, want %d", after, got, want)
			}
		}
		rdb.Set(t.Context(), "LockRoom:42", "somebody", time.Hour)
		expectRefused(t, "join", c, "42", room.Join{User: "张三", Session: "s"}, room.ErrBusy)
		says("with a TTL", 0)
		rdb.Persist(t.Context(), "LockRoom:42")
		expectRefused(t, "join", c, "42", room.Join{User: "张三", Session: "s"}, room.ErrBusy)
		expectRefused(t, "join", c, "42", room.Join{User: "张三", Session: "s"}, room.ErrBusy)
		says("without a TTL", 1)
		time.Sleep(time.Minute)
		_, _, err := c.Move(t.Context(), "42", "43", "s", "张三")
		redistest.ErrorIf(t, !errors.Is(err, room.ErrBusy), "move: %v", err)
		says("after a move", 2)
		rdb.Del(t.Context(), "LockRoom:42")
		mustDo(t, c, "42", room.Join{User: "张三", Session: "s"})
	})
}

// Redis deletes an empty room after Idle, or after a minute if nobody has configured it. If it is used
// again before that, its version goes on.
func TestRoom_EmptyExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rdb := onMini(t, Options{NodeTTL: time.Hour, Idle: 5 * unusedIdle})
		first := mustDo(t, c, "42", room.Join{User: "张三", Session: "s"})
		mustDo(t, c, "42", room.Leave{User: "张三", Session: "s"})
		time.Sleep(unusedIdle - time.Second)
		r := mustDo(t, c, "42", room.Join{User: "张三", Session: "s"})
		redistest.ErrorIf(t, r.Version != 3 || r.Epoch != first.Epoch, "used again in time: %+v", r.Snapshot)
		time.Sleep(15 * unusedIdle) // in use: nothing expires
		s, err := c.Read(t.Context(), "42")
		redistest.ErrorIf(t, err != nil || s.Version != 3 || len(s.Users()) != 1, "long after: %+v, %v", s, err)
		mustDo(t, c, "42", room.Leave{User: "张三", Session: "s"})
		time.Sleep(unusedIdle + time.Second)
		if left := rdb.Keys(t.Context(), "*").Val(); len(left) != 2 { // the node's own
			t.Errorf("left over: %v", left)
		}
		if r := mustDo(t, c, "42", room.Join{User: "张三", Session: "s"}); r.Version != 1 || r.Epoch == first.Epoch {
			t.Errorf("used again too late: %+v", r.Snapshot)
		}
	})
}

// A player who begins a room, and bans somebody there as its host, keeps it in Redis no longer than any other. What an admin decides
// stays.
func TestRoom_EmptyWithBans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rdb := onMini(t, Options{NodeTTL: time.Hour, Idle: 5 * unusedIdle})
		host := room.Claim{User: "a", Session: "s"}
		for id, begin := range map[string]*room.Settings{"hosted": {Host: room.HostLongest, Labels: `{"mode":"x"}`}, "plain": nil} {
			mustDo(t, c, id, room.Join{User: "a", Session: "s", Begin: begin})
			mustDo(t, c, id, room.Join{User: "b", Session: "s"})
			by := host
			if begin == nil {
				by = room.Claim{}
			}
			mustDo(t, c, id, room.Kick{User: "b", Until: room.Forever, As: by})
			mustDo(t, c, id, room.SetData{User: "a", Session: "s", Data: `"much"`})
			mustDo(t, c, id, room.Leave{User: "a", Session: "s"})
		}
		time.Sleep(unusedIdle + time.Second)
		redistest.Equal(t, "left", fmt.Sprint(rdb.Keys(t.Context(), "Room:*").Val()), "[Room:plain:Meta]")
		expectRefused(t, "join", c, "plain", room.Join{User: "b", Session: "s"}, room.ErrBanned)
	})
}

func TestClose(t *testing.T) {
	c, _ := onMini(t, Options{})
	mustDo(t, c, "42", room.Join{User: "张三", Session: "s"})
	redistest.OK(t, c.Close(t.Context()))
	expectRefused(t, "join", c, "42", room.Join{User: "李四", Session: "s"}, room.ErrClosed)
	redistest.ErrorIs(t, "watch", redistest.Err(c.Watch(t.Context(), "42", func(*room.Event) {})), room.ErrClosed)
}

// Close waits for the actions that it has accepted. When its context ends, actions that wait
// for a lock fail and have not happened.
func TestClose_Drains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rdb := onMini(t, Options{})
		rdb.Set(t.Context(), "LockRoom:42", "somebody", 2*time.Second)
		rdb.Set(t.Context(), "LockRoom:43", "somebody", time.Hour)
		errs := map[string]chan error{"42": make(chan error, 1), "43": make(chan error, 1)}
		for id, ch := range errs {
			go func() { ch <- second(c.Do(t.Context(), id, room.Join{User: "张三", Session: "s"})) }()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		redistest.ErrorIs(t, "close", c.Close(ctx), context.DeadlineExceeded)
		redistest.OK(t, redistest.Receive(t, errs["42"], "the join that could be done"))
		err := redistest.Receive(t, errs["43"], "the join that could not")
		redistest.ErrorIf(t, !errors.Is(err, room.ErrClosed), "the join that could not: %v", err)
	})
}

// A coordinator is alive also without Redis. It is not if the loop of its lease hangs, and is
// again when that goes on.
func TestAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		hang := make(chan struct{})
		var hangs, away atomic.Bool
		rdb.AddHook(redistest.Hook{Before: func(context.Context, redis.Cmder) error {
			if hangs.Load() {
				<-hang // and does not look at the context
			}
			if away.Load() {
				return errors.New("away")
			}
			return nil
		}})
		c := newCoordinator(t, rdb, Options{})
		check := func(when string, alive bool) {
			t.Helper()
			if err := c.Alive(); (err == nil) != alive || err != nil && !strings.Contains(err.Error(), "lease") {
				t.Errorf("%s: %v", when, err)
			}
		}
		check("before the start", true)
		time.Sleep(10 * time.Minute)
		check("long before the start", true)
		redistest.OK(t, c.Start(t.Context()))
		time.Sleep(10 * time.Minute)
		check("after ten minutes", true)
		away.Store(true)
		time.Sleep(10 * time.Minute)
		check("without Redis", true)
		away.Store(false)
		time.Sleep(time.Minute)
		hangs.Store(true)
		time.Sleep(10 * DefaultNodeTTL / 2)
		check("at first", true)
		time.Sleep(10 * DefaultNodeTTL)
		check("hanging", false)
		hangs.Store(false)
		close(hang)
		time.Sleep(time.Minute)
		check("going on", true)
		err := c.Close(t.Context())
		redistest.ErrorIf(t, err != nil && !errors.Is(err, context.Canceled), "%v", err)
		time.Sleep(10 * time.Minute)
		check("closed", true)
	})
}

// A holder that dies blocks its room for a TTL and no longer.
func TestDo_DeadHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		start := time.Now()
		locks, err := lockmgr.New(rdb, lockmgr.Options{Prefix: unprefixed.LockPrefix()})
		redistest.OK(t, err)
		if _, err := locks.Acquire(t.Context(), "42"); err != nil { // and never comes back
			t.Fatal(err)
		}
		mustDo(t, newCoordinator(t, rdb, Options{}), "42", room.Join{User: "张三", Session: "s"})
		took := time.Since(start)
		redistest.ErrorIf(t, took > lockmgr.DefaultTTL+lockmgr.DefaultPoll, "the room was blocked for %v", took)
	})
}
