package coordinator

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
	"roomd/room"
)

// An action of a node that knows the room takes no lock that another has, and passes nobody who waits for it:
// another node, one that has died, or a client of the lock that knows nothing of rooms.
func TestCommit_RespectsOthers(t *testing.T) {
	const waiter = "42:00000000-0000-4000-8000-000000000000"
	for name, tt := range map[string]struct {
		others func(rdb *redis.Client)
		lasts  time.Duration // until they are gone
		waits  bool          // our token has a position meanwhile
	}{
		"a holder": {func(rdb *redis.Client) { rdb.Set(context.Background(), "LockRoom:42", "of the article", time.Second) }, time.Second, true},
		"a waiter who is offered the lock, and is dead": {func(rdb *redis.Client) {
			rdb.ZAdd(context.Background(), "LockRoom:42:Queue", redis.Z{Score: 1, Member: waiter})
		}, lockmgr.DefaultClaim, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mini, rdb := redistest.Mini(t)
				c := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
				mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
				tt.others(rdb)
				start, joined := time.Now(), make(chan error, 1)
				go func() { joined <- second(c.Do(t.Context(), "42", room.Join{User: "b", Session: "s"})) }()
				synctest.Wait()
				if n := rdb.ZCard(t.Context(), "LockRoom:42:Queue").Val(); n != 1 || len(joined) > 0 {
					t.Errorf("%d tokens wait, %d actions have ended", n, len(joined))
				}
				if _, err := c.Do(t.Context(), "42", room.Leave{User: "x", Session: "s"}); err == nil { // behind the join
					t.Error("x has left")
				}
				if err := redistest.Receive(t, joined, "the join"); err != nil {
					t.Error(err)
				}
				if took := time.Since(start); took < tt.lasts || took > tt.lasts+time.Second {
					t.Errorf("it took %v, the others are there for %v", took, tt.lasts)
				}
				synctest.Wait()
				if got := keysOf(t, rdb); len(got) != 2 {
					t.Errorf("left over: %v", got)
				}
			})
		})
	}
}

// What changes nothing needs no lock: a refusal is answered while another has it, by the room as it is.
func TestCommit_RefusalWithoutLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		c, other := newCoordinator(t, redistest.MiniClient(t, mini), Options{}), newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		for _, r := range []*Coordinator{other, c} {
			mustDo(t, r, "42", room.Join{User: "a", Session: "s"})
		}
		rdb.Set(t.Context(), "LockRoom:42", "of the article", time.Minute)
		start := time.Now()
		if _, err := c.Do(t.Context(), "42", room.Leave{User: "b", Session: "s"}); err == nil || time.Since(start) > 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
