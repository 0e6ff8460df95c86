package coordinator

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// A failover takes the room back to an earlier version. The lost versions will come again
// with other content, so a new epoch begins, with all that the node knows of the room: with the next action, or when a node
// notices.
func TestEpoch_VersionGoesBack(t *testing.T) {
	for _, by := range []string{"an action", "a read", "the connection for events, which was lost in the failover"} {
		synctest.Test(t, func(t *testing.T) {
			c, rdb := onMini(t, Options{})
			var last *room.Event
			var told int
			var mu sync.Mutex
			stop, err := c.Watch(t.Context(), "42", func(e *room.Event) {
				mu.Lock()
				defer mu.Unlock()
				if told++; told > 1000 { // virtual time stands still meanwhile: nothing else would end it
					panic("a watcher is told without end")
				}
				last = e
			})
			redistest.OK(t, err)
			defer stop()
			first := mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
			old := rdb.HGetAll(t.Context(), "Room:42:Meta").Val()
			mustDo(t, c, "42", room.Join{User: "b", Session: "s"})
			mustDo(t, c, "42", room.Join{User: "c", Session: "s"})
			synctest.Wait() // the watcher knows what is lost
			rdb.HDel(t.Context(), "Room:42:Users", "b", "c")
			rdb.HSet(t.Context(), "Room:42:Meta", old)
			switch by {
			case "an action":
				if r := mustDo(t, c, "42", room.Join{User: "d", Session: "s"}); r.Epoch == first.Epoch || r.Version != 4 || describeUsers(r.Users()) != "a@0 b@1 c@2 d@3" {
					t.Errorf("%s in epoch %s at version %d", describeUsers(r.Users()), r.Epoch, r.Version)
				}
			case "a read":
				if s, err := c.Read(t.Context(), "42"); err != nil || describeUsers(s.Users()) != "a@0" { // what is read late may be old
					t.Errorf("the room holds %s, %v", describeUsers(s.Users()), err)
				}
			default:
				c.feeds.Compare("42", c.feeds.At("42"), room.Position{})
			}
			time.Sleep(time.Second)
			mu.Lock()
			defer mu.Unlock()
			redistest.ErrorIf(t, last.Snapshot == nil || last.Epoch == first.Epoch || last.Version != 4,
				"by %s: the last event is %+v", by, last)
		})
	}
}
