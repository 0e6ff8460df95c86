package coordinator

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// secondJoin returns a coordinator of a room with one member, and the commit of a second
// one with the slot for it.
func secondJoin(t *testing.T, rdb *redis.Client, next, onlyQueue bool) (*Coordinator, *lockmgr.Slot, *store.Commit) {
	t.Helper()
	c := newCoordinator(t, rdb, Options{})
	mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	slot, err := c.locks.Slot("42", c.store.KeysOf("42").Both...)
	redistest.OK(t, err)
	r, err := c.store.Load(t.Context(), "42")
	redistest.OK(t, err)
	redistest.OK(t, redistest.Err(r.Apply(room.Join{User: "b", Session: "s"}, room.Rules{}, room.Origin{})))
	h := store.Hold{Node: "n", Token: slot.Token(), OnlyQueue: onlyQueue}
	if next {
		h.Next = slot.Renew()
	}
	return c, slot, c.store.Prepare(r, c.store.KeysOf("42"), h)
}

// A commit writes only if the lock holds its token, even if the room is as the writer knows
// it.
func TestCommit_NeedsTheLock(t *testing.T) {
	for _, holder := range []string{"", "somebody else's"} {
		onBoth(t, func(t *testing.T, client func() *redis.Client) {
			rdb := client()
			c, slot, commit := secondJoin(t, rdb, false, false)
			if holder != "" {
				rdb.Set(t.Context(), "LockRoom:42", holder, time.Minute)
			}
			_, _, err := c.store.Send(t.Context(), slot, commit)
			redistest.ErrorIf(t, !errors.Is(err, store.ErrLost), "the lock holds %q: %v", holder, err)
			if s, _ := c.Read(t.Context(), "42"); s.Version != 1 {
				t.Errorf("the lock holds %q: %s at version %d", holder, describeUsers(s.Users()), s.Version)
			}
			redistest.Equal(t, "the lock holds", rdb.Get(t.Context(), "LockRoom:42").Val(), holder)
		})
	}
}

// A commit hands the lock to the node that has waited longest. If none waits, the node's own
// next hold gets it, unless that only keeps its place in the line.
func TestCommit_HandsTheLockOn(t *testing.T) {
	const other = "42:00000000-0000-4000-8000-000000000000"
	for _, test := range []struct {
		next, onlyQueue bool   // the node wants another hold, and only if others wait
		waits           bool   // another node does
		holds           string // what the lock holds then; "next" is the node's next token
		at              store.NextToken
	}{
		{false, false, false, "", store.NextNowhere},
		{false, false, true, other, store.NextNowhere},
		{true, false, false, "next", store.NextHolds},
		{true, false, true, other, store.NextWaits},
		{true, true, false, "", store.NextNowhere},
		{true, true, true, other, store.NextWaits},
	} {
		onBoth(t, func(t *testing.T, client func() *redis.Client) {
			rdb := client()
			c, slot, commit := secondJoin(t, rdb, test.next, test.onlyQueue)
			rdb.Set(t.Context(), "LockRoom:42", commit.Token(), time.Minute)
			if test.waits {
				rdb.ZAdd(t.Context(), "LockRoom:42:Queue", redis.Z{Score: 1, Member: other})
			}
			at, _, err := c.store.Send(t.Context(), slot, commit)
			redistest.ErrorIf(t, err != nil || at != test.at, "%+v: the next token is %v, %v", test, at, err)
			got := rdb.Get(t.Context(), "LockRoom:42").Val()
			if got == slot.Token() {
				got = "next"
			}
			redistest.ErrorIf(t, got != test.holds, "%+v: the lock holds %q", test, got)
			var want []string
			if test.next && test.waits {
				want = []string{slot.Token()}
			}
			queue := rdb.ZRange(t.Context(), "LockRoom:42:Queue", 0, -1).Val()
			redistest.ErrorIf(t, !slices.Equal(queue, want), "%+v: the queue is %v", test, queue)
		})
	}
}

// All nodes have data in the form in which it was set: one compares what another one has stored.
func TestCommit_DataKeepsItsForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		a, b := newCoordinator(t, rdb, Options{}), newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		const data = `{"a":"\u0041\/","n":1.0e2}`
		told := make(chan string, 1)
		stop, err := b.Watch(t.Context(), "42", func(e *room.Event) {
			if e.Snapshot == nil {
				told <- string(e.Changes[0].Data)
			}
		})
		redistest.OK(t, err)
		defer stop()
		r := mustDo(t, a, "42", room.SetData{Data: data})
		s, err := b.Read(t.Context(), "42")
		if event := redistest.Receive(t, told, "the event"); err != nil || r.Data != data || s.Data != data || event != data {
			t.Errorf("%v: set %s, stored %s, told %s", err, r.Data, s.Data, event)
		}
	})
}
