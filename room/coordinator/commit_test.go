package coordinator

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
	"roomd/room"
)

// secondJoin returns a coordinator of a room with one member, and the commit of a second
// one with the slot for it.
func secondJoin(t *testing.T, rdb *redis.Client, next, onlyQueue bool) (*Coordinator, *lockmgr.Slot, *commit) {
	t.Helper()
	c := newCoordinator(t, rdb, Options{})
	mustDo(t, c, "42", room.Join("a", "s"))
	slot, err := c.locks.Slot("42", c.store.keysOf("42").both...)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.store.load(t.Context(), "42")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Apply(room.Join("b", "s"), room.Rules{}, room.Origin{}); err != nil {
		t.Fatal(err)
	}
	h := hold{who: newIdentity("n"), token: slot.Token(), onlyQueue: onlyQueue}
	if next {
		h.next = slot.Renew()
	}
	return c, slot, c.store.prepare(r, c.store.keysOf("42"), h)
}

// A commit writes only if the lock holds its token, even if the room is as the writer knows
// it.
func TestACommitNeedsTheLock(t *testing.T) {
	for _, holder := range []string{"", "somebody else's"} {
		onBoth(t, func(t *testing.T, client func() *redis.Client) {
			rdb := client()
			c, slot, commit := secondJoin(t, rdb, false, false)
			if holder != "" {
				rdb.Set(t.Context(), "LockRoom:42", holder, time.Minute)
			}
			if _, _, err := c.store.send(t.Context(), slot, commit); !errors.Is(err, errLost) {
				t.Errorf("the lock holds %q: %v", holder, err)
			}
			if s, _ := c.Read(t.Context(), "42"); s.Version != 1 {
				t.Errorf("the lock holds %q: %s at version %d", holder, describeUsers(s.Users()), s.Version)
			}
			if got := rdb.Get(t.Context(), "LockRoom:42").Val(); got != holder {
				t.Errorf("the lock holds %q instead of %q", got, holder)
			}
		})
	}
}

// A commit hands the lock to the node that has waited longest. If none waits, the node's own
// next hold gets it, unless that only keeps its place in the line.
func TestACommitHandsTheLockOn(t *testing.T) {
	const other = "42:00000000-0000-4000-8000-000000000000"
	for _, test := range []struct {
		next, onlyQueue bool   // the node wants another hold, and only if others wait
		waits           bool   // another node does
		holds           string // what the lock holds then; "next" is the node's next token
		at              nextToken
	}{
		{false, false, false, "", nextNowhere},
		{false, false, true, other, nextNowhere},
		{true, false, false, "next", nextHolds},
		{true, false, true, other, nextWaits},
		{true, true, false, "", nextNowhere},
		{true, true, true, other, nextWaits},
	} {
		onBoth(t, func(t *testing.T, client func() *redis.Client) {
			rdb := client()
			c, slot, commit := secondJoin(t, rdb, test.next, test.onlyQueue)
			rdb.Set(t.Context(), "LockRoom:42", commit.token(), time.Minute)
			if test.waits {
				rdb.ZAdd(t.Context(), "LockRoom:42:Queue", redis.Z{Score: 1, Member: other})
			}
			at, _, err := c.store.send(t.Context(), slot, commit)
			if err != nil || at != test.at {
				t.Errorf("%+v: the next token is %v, %v", test, at, err)
			}
			got := rdb.Get(t.Context(), "LockRoom:42").Val()
			if got == slot.Token() {
				got = "next"
			}
			if got != test.holds {
				t.Errorf("%+v: the lock holds %q", test, got)
			}
			var want []string
			if test.next && test.waits {
				want = []string{slot.Token()}
			}
			if queue := rdb.ZRange(t.Context(), "LockRoom:42:Queue", 0, -1).Val(); !slices.Equal(queue, want) {
				t.Errorf("%+v: the queue is %v", test, queue)
			}
		})
	}
}
