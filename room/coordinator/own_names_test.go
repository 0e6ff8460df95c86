package coordinator

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// A name is kept until its lease has been over for the grace: nobody is removed before that.
// If Redis has lost the lease too early, nobody can say, and the name is not kept.
func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		c := newCoordinator(t, rdb, Options{Node: "first", NodeTTL: 5 * time.Second, Grace: 10 * time.Second})
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		kept := func(want ...string) {
			t.Helper()
			got := slices.Sorted(slices.Values(c.membership.lease.names.kept(c.opts.Grace)))
			if slices.Sort(want); !slices.Equal(got, want) {
				t.Errorf("kept are %v, want %v", got, want)
			}
		}
		time.Sleep(time.Hour)
		kept("first")
		c.lifetime.shut() // it is stopped
		c.membership.loops.Wait()
		time.Sleep(5 * time.Second)
		mustDo(t, c, "42", room.Join("a", "s"))
		second := c.Node()
		kept("first", second)
		time.Sleep(10 * time.Second)
		kept(second)
		mustDo(t, c, "43", room.Join("a", "s"))
		third := c.Node()
		rdb.Del(t.Context(), nodeKey(third))
		if err := c.membership.prolong(t.Context()); err != nil {
			t.Fatal(err)
		}
		if fourth := c.Node(); third == second || fourth == third {
			t.Fatalf("the names are %s, %s, %s", second, third, fourth)
		}
		kept(second, c.Node())
	})
}
