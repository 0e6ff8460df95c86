package coordinator

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// answers starts actions one after the other on a room whose lock somebody else
// holds, so that they wait together, then lets them run and returns what came of
// each.
func answers(t *testing.T, rdb *redis.Client, c *Coordinator, ctx []context.Context, actions ...room.Action) ([]room.Result, []error) {
	t.Helper()
	rdb.Set(t.Context(), "LockRoom:42", "somebody", 0)
	results, errs := make([]room.Result, len(actions)), make([]error, len(actions))
	done := make(chan struct{})
	for i, a := range actions {
		go func() {
			results[i], errs[i] = c.Do(ctx[i], "42", a)
			done <- struct{}{}
		}()
		synctest.Wait() // it is in the queue
	}
	rdb.Del(t.Context(), "LockRoom:42")
	for range actions {
		redistest.Receive(t, done, "the end of every action")
	}
	return results, errs
}

func contexts(t *testing.T, n int) []context.Context {
	all := make([]context.Context, n)
	for i := range all {
		all[i] = t.Context()
	}
	return all
}

func TestBatch_SharesOneHold(t *testing.T) {
	for _, tt := range []struct {
		maxBatch int
		versions []uint64
	}{
		{DefaultMaxBatch, []uint64{1, 1, 1, 1, 1}},
		{2, []uint64{1, 1, 2, 2, 2}},
		{1, []uint64{1, 2, 2, 3, 3}},
	} {
		synctest.Test(t, func(t *testing.T) {
			c, rdb := onMini(t, Options{MaxBatch: tt.maxBatch, Rules: room.Rules{Seating: room.Capacity(3)}})
			results, errs := answers(t, rdb, c, contexts(t, 5),
				room.Join{User: "a", Session: "s"}, room.Join{User: "b", Session: "s"}, room.Leave{User: "nobody", Session: "s"}, room.Join{User: "c", Session: "s"}, room.Join{User: "d", Session: "s"})
			for i, want := range []error{nil, nil, room.ErrNotMember, nil, room.ErrFull} { // a bad action fails alone
				if !errors.Is(errs[i], want) || results[i].Version != tt.versions[i] {
					t.Errorf("max %d, action %d: version %d, %v; want %d, %v",
						tt.maxBatch, i, results[i].Version, errs[i], tt.versions[i], want)
				}
			}
			for seat, i := range []int{0, 1, 3} { // seats in order of arrival
				redistest.ErrorIf(t, results[i].Seat != seat,
					"max %d, action %d got seat %d, want %d", tt.maxBatch, i, results[i].Seat, seat)
			}
		})
	}
}

// Two actions of one user are two commits, so that each answer shows its effect.
func TestBatch_UserOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rdb := onMini(t, Options{})
		results, errs := answers(t, rdb, c, contexts(t, 4), room.Join{User: "a", Session: "s"}, room.Join{User: "b", Session: "s"}, room.Leave{User: "a", Session: "s"}, room.Join{User: "c", Session: "s"})
		for i, want := range []string{"a@0 b@1", "a@0 b@1", "c@0 b@1", "c@0 b@1"} {
			if got := describeUsers(results[i].Users()); got != want || errs[i] != nil {
				t.Errorf("action %d sees %q, %v; want %q", i, got, errs[i], want)
			}
		}
	})
}

// An action was applied to the node's copy of the room, and its commit had to wait for the lock. When its caller gives up
// it does not happen: the next commit has nothing of it.
func TestGiveUp_BehindTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rdb := onMini(t, Options{})
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		rdb.Set(t.Context(), "LockRoom:42", "somebody", time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error, 1)
		go func() { gaveUp <- second(c.Do(ctx, "42", room.Join{User: "b", Session: "s"})) }()
		synctest.Wait() // it is in the lock's queue
		cancel()
		err := redistest.Receive(t, gaveUp, "the end of the join")
		redistest.ErrorIf(t, !errors.Is(err, context.Canceled) || errors.Is(err, room.ErrUnknown), "join: %v", err)
		rdb.Del(t.Context(), "LockRoom:42")
		expectRoom(t, mustDo(t, c, "42", room.Join{User: "c", Session: "s"}).Snapshot, "a@0 c@1", 2)
	})
}

// A caller gives up while its action is written, and the commit finds that another has the lock: it has not happened,
// and does not happen later.
func TestGiveUp_WhileQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		client := redistest.MiniClient(t, mini)
		warm(t, rdb)
		c := newCoordinator(t, client, Options{})
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		commits := []chan struct{}{make(chan struct{}), make(chan struct{})} // closed to let them through
		n := 0
		client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, store.CommitScript) && n < len(commits) {
				n++
				<-commits[n-1]
			}
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		first, gaveUp := make(chan error, 1), make(chan error, 1)
		go func() { first <- second(c.Do(t.Context(), "42", room.Join{User: "b", Session: "s"})) }()
		synctest.Wait()
		go func() { gaveUp <- second(c.Do(ctx, "42", room.Join{User: "c", Session: "s"})) }()
		synctest.Wait() // it is in the queue
		close(commits[0])
		redistest.OK(t, redistest.Receive(t, first, "the first join"))
		synctest.Wait() // the commit of the second is on its way
		rdb.Set(t.Context(), "LockRoom:42", "somebody", time.Hour)
		cancel()
		err := redistest.Receive(t, gaveUp, "the end of the second join")
		redistest.ErrorIf(t, !errors.Is(err, room.ErrUnknown), "the second join: %v", err)
		close(commits[1])
		synctest.Wait()
		rdb.Del(t.Context(), "LockRoom:42")
		expectRoom(t, mustDo(t, c, "42", room.Join{User: "d", Session: "s"}).Snapshot, "a@0 b@1 d@2", 0)
	})
}

// When the only caller gives up, the node stops asking for the lock, and the next action
// finds everything in order.
func TestGiveUp_NobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rdb := onMini(t, Options{})
		rdb.Set(t.Context(), "LockRoom:42", "somebody", time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Do(ctx, "42", room.Join{User: "a", Session: "s"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("join: %v", err)
		}
		time.Sleep(time.Second) // of virtual time: the node takes its token out of the line
		redistest.Equal(t, "busy workers", c.Stats().Busy, 0)
		redistest.Equal(t, "the node still waits in line:", rdb.Exists(t.Context(), "LockRoom:42:Queue").Val(), 0)
		rdb.Del(t.Context(), "LockRoom:42")
		expectRoom(t, mustDo(t, c, "42", room.Join{User: "b", Session: "s"}).Snapshot, "b@0", 0)
	})
}

// Redis does not answer the request for the lock of a room that the node does not know: the wait ends after LockWait, be that
// shorter or longer than the lock's TTL.
func TestGiveUp_NoRedis(t *testing.T) {
	for _, wait := range []time.Duration{100 * time.Millisecond, lockmgr.DefaultTTL} {
		synctest.Test(t, func(t *testing.T) {
			c, rdb := onMini(t, Options{LockWait: wait})
			mustDo(t, c, "43", room.Join{User: "a", Session: "s"})
			silent := make(chan struct{})
			rdb.AddHook(redistest.Hook{Before: func(ctx context.Context, cmd redis.Cmder) error {
				if !isScript(cmd, store.AcquireScript) {
					return nil
				}
				select {
				case <-silent:
					return nil
				case <-ctx.Done(): // that of a pipeline does not end
					return context.Cause(ctx)
				}
			}})
			start := time.Now()
			_, err := c.Do(t.Context(), "42", room.Join{User: "b", Session: "s"})
			if took := time.Since(start); err == nil || errors.Is(err, room.ErrUnknown) || took > wait {
				t.Errorf("with %v: %v after %v", wait, err, took)
			}
			close(silent)
			mustDo(t, c, "42", room.Join{User: "b", Session: "s"})
		})
	}
}

// Redis answers no commit. Every action is answered within LockWait and a TTL, however many
// holds there are before it.
func TestDo_AnsweredInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		opts := Options{LockWait: time.Second, MaxBatch: 1}
		c := newCoordinator(t, rdb, opts)
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		silent := make(chan struct{})
		rdb.AddHook(redistest.Hook{Before: func(ctx context.Context, cmd redis.Cmder) error {
			if !isScript(cmd, store.CommitScript) {
				return nil
			}
			select {
			case <-silent:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}})
		start, answered := time.Now(), make(chan error, 10)
		for i := range cap(answered) {
			go func() { answered <- second(c.Do(t.Context(), "42", room.Join{User: fmt.Sprint("b", i), Session: "s"})) }()
			synctest.Wait()
		}
		for range cap(answered) {
			err := redistest.Receive(t, answered, "an answer")
			if took := time.Since(start); took > opts.LockWait+lockmgr.DefaultTTL || !errors.Is(err, room.ErrUnknown) && !errors.Is(err, room.ErrBusy) {
				t.Errorf("%v after %v", err, took)
			}
		}
		close(silent)
		mustDo(t, c, "42", room.Join{User: "c", Session: "s"})
	})
}
