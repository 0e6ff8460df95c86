package coordinator

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// A failover loses the last commit of one node. Before that node notices, another one
// commits the same version again. The first must not build on its copy.
func TestEpoch_SameVersionTwice(t *testing.T) {
	server := redistest.Start(t)
	rdb := server.Client()
	a, b := newCoordinator(t, server.Client(), Options{}), newCoordinator(t, server.Client(), Options{})
	first := mustDo(t, a, "42", room.Join{User: "李四", Session: "s1"})
	replica := make(map[string]string)
	for _, key := range []string{"Room:42:Users", "Room:42:Meta"} {
		replica[key] = rdb.Dump(t.Context(), key).Val()
	}
	mustDo(t, a, "42", room.Join{User: "王五", Session: "s2"})
	for key, value := range replica {
		redistest.OK(t, rdb.RestoreReplace(t.Context(), key, 0, value).Err())
	}
	mustDo(t, b, "42", room.Join{User: "张三", Session: "s3"}) // version 2 again
	r := mustDo(t, a, "42", room.Join{User: "赵六", Session: "s4"})
	if got := describeUsers(r.Users()); got != "李四@0 张三@1 赵六@2" || r.Version != 3 || r.Epoch == first.Epoch {
		t.Errorf("the node that lost a commit says %s at version %d of epoch %s", got, r.Version, r.Epoch)
	}
	if s, err := b.Read(t.Context(), "42"); err != nil || describeUsers(s.Users()) != describeUsers(r.Users()) {
		t.Errorf("the room is %s, %v", describeUsers(s.Users()), err)
	}
}

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
			if last.Snapshot == nil || last.Epoch == first.Epoch || last.Version != 4 {
				t.Errorf("by %s: the last event is %+v", by, last)
			}
		})
	}
}
