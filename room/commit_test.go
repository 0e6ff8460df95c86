package room

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr"
)

// atTheDesk returns a room with one member, the commit of a second one, and the place
// in the line under whose token it is.
func atTheDesk(t *testing.T, rdb *redis.Client, heir bool, mode string) (*Coordinator, *lockmgr.Ticket, *commit) {
	t.Helper()
	c := newCoordinator(t, rdb, Options{})
	mustDo(t, c, "42", Join("a", "s"))
	ticket, err := c.locks.Ticket("42", c.store.keysOf("42").both...)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.store.load(t.Context(), "42")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Apply(Join("b", "s"), Rules{}); err != nil {
		t.Fatal(err)
	}
	token, next := ticket.Token(), ""
	if heir {
		next = ticket.Renew()
	}
	return c, ticket, c.store.prepare(r, c.store.keysOf("42"), newIdentity("n"), token, next, mode)
}

// Nothing is written unless the lock holds the writer's token, even if the room is as
// the writer knows it.
func TestACommitNeedsTheLock(t *testing.T) {
	for _, holder := range []string{"", "somebody else's"} {
		onBoth(t, func(t *testing.T, client func() *redis.Client) {
			rdb := client()
			c, ticket, commit := atTheDesk(t, rdb, false, modeHeld)
			if holder != "" {
				rdb.Set(t.Context(), "LockRoom:42", holder, time.Minute)
			}
			if _, _, err := c.store.send(t.Context(), ticket, commit); !errors.Is(err, errLost) {
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

// A commit hands the lock on to who has waited longest, and only then to the node's own
// next hold, unless that is just to keep its place.
func TestACommitHandsTheLockOn(t *testing.T) {
	const other = "42:00000000-0000-4000-8000-000000000000"
	for _, test := range []struct {
		heir, waits bool
		mode        string
		holds       string // "next" is the node's next token
		at          place
	}{
		{false, false, modeHeld, "", placeNone},
		{false, true, modeHeld, other, placeWaits},
		{true, false, modeHeld, "next", placeHolds},
		{true, true, modeHeld, other, placeWaits},
		{true, false, modeKeep, "", placeNone},
		{true, true, modeKeep, other, placeWaits},
	} {
		onBoth(t, func(t *testing.T, client func() *redis.Client) {
			rdb := client()
			c, ticket, commit := atTheDesk(t, rdb, test.heir, test.mode)
			rdb.Set(t.Context(), "LockRoom:42", commit.token(), time.Minute)
			if test.waits {
				rdb.ZAdd(t.Context(), "LockRoom:42:Queue", redis.Z{Score: 1, Member: other})
			}
			at, _, err := c.store.send(t.Context(), ticket, commit)
			if err != nil || at != test.at {
				t.Errorf("%+v: the next token is %v, %v", test, at, err)
			}
			got := rdb.Get(t.Context(), "LockRoom:42").Val()
			if got == ticket.Token() {
				got = "next"
			}
			if got != test.holds {
				t.Errorf("%+v: the lock holds %q", test, got)
			}
			var want []string
			if test.heir && test.waits {
				want = []string{ticket.Token()}
			}
			if queue := rdb.ZRange(t.Context(), "LockRoom:42:Queue", 0, -1).Val(); !slices.Equal(queue, want) {
				t.Errorf("%+v: the queue is %v", test, queue)
			}
		})
	}
}
