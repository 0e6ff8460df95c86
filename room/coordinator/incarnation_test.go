package coordinator

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// restartOld has a server forget what was done since it was saved.
func restartOld(server *redistest.Server) {
	server.Kill()
	server.Restart()
}

func save(t *testing.T, server *redistest.Server) {
	t.Helper()
	redistest.OK(t, server.Client().Save(t.Context()).Err())
}

// Redis comes back with an old copy of a room. Whatever is done first, by a node that knew nothing of
// what was lost, does it in a new epoch.
func TestIncarnation_OldCopy(t *testing.T) {
	for name, first := range map[string]func(t *testing.T, c *Coordinator) room.Snapshot{
		"a read": func(t *testing.T, c *Coordinator) room.Snapshot {
			s := mustRead(t, c, "42")
			return s
		},
		"a join": func(t *testing.T, c *Coordinator) room.Snapshot {
			return mustDo(t, c, "42", room.Join{User: "b", Session: "s2"}).Snapshot
		},
		"no change": func(t *testing.T, c *Coordinator) room.Snapshot {
			return mustDo(t, c, "42", room.Join{User: "a", Session: "s"}).Snapshot
		},
		"many": func(t *testing.T, c *Coordinator) (last room.Snapshot) {
			for i := range 12 {
				last = mustDo(t, c, "42", room.SetData{Data: fmt.Sprint(100 + i)}).Snapshot
			}
			return last
		},
		"a move": func(t *testing.T, c *Coordinator) room.Snapshot {
			left, _, err := c.Move(soon(t), "42", "43", "m", "a")
			redistest.OK(t, err)
			return left.Snapshot
		},
		"a refused move": func(t *testing.T, c *Coordinator) room.Snapshot {
			left, _, err := c.Move(soon(t), "42", "43", "m", "nobody")
			redistest.ErrorIf(t, !errors.Is(err, room.ErrNotMember), "%v", err)
			return left.Snapshot
		},
	} {
		for _, warm := range []bool{false, true} { // whether the other node has a copy of the room, as it was saved
			t.Run(fmt.Sprintf("%s, a copy %v", name, warm), func(t *testing.T) {
				t.Parallel() // it mostly waits
				server := redistest.Start(t)
				a, b := newCoordinator(t, server.Client(), patient(Options{})), newCoordinator(t, server.Client(), patient(Options{}))
				mustDo(t, a, "42", room.Join{User: "a", Session: "s"})
				mustDo(t, b, "1", room.Join{User: "x", Session: "s"})
				saved := mustDo(t, a, "42", room.SetData{Data: "1"})
				if warm {
					mustDo(t, b, "42", room.Join{User: "a", Session: "s"})
				}
				save(t, server)
				mustDo(t, a, "42", room.SetData{Data: "2"})
				lost := mustDo(t, a, "42", room.SetData{Data: "3"})
				restartOld(server)
				s := first(t, b)
				redistest.ErrorIf(t, s.Epoch == lost.Epoch,
					"the first answer is of the old epoch, at version %d instead of %d", s.Version, lost.Version)
				for v := saved.Version; v <= lost.Version+12; v++ {
					_, err := b.Do(soon(t), "42", room.SetData{Data: "9", Expect: room.ExpectVersion(lost.Epoch, v)})
					redistest.ErrorIf(t, !errors.Is(err, room.ErrConflict),
						"an action for version %d of the epoch that is over: %v", v, err)
				}
			})
		}
	}
}

// Somebody puts an old copy of a room in place of the room, while Redis goes on. Who knows the lost commit
// sees that the next one does not build on it, although its version follows.
func TestIncarnation_CommitBuildsOnAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rdb := onMini(t, Options{})
		f, _ := follow(t, c, "42")
		first := mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		f.expect(t, "1<0 +a@0")
		at := rdb.HGet(t.Context(), "Room:42:Meta", "mark").Val()
		next := &room.Commit{Position: room.Position{Epoch: first.Epoch, Version: 2}, Prev: "another", Node: "n", Updates: []room.Update{{Type: "away", User: "a", Session: "~s"}}}
		rdb.HSet(t.Context(), "Room:42:Meta", "version", 2, "mark", "after another")
		rdb.Publish(t.Context(), "Room:42:Events", string(store.AppendEvent(nil, next)))
		e := redistest.Receive(t, f.events, "a snapshot")
		redistest.ErrorIf(t, e.Snapshot == nil || e.Epoch == first.Epoch,
			"the room was at %s, and the commit after another is told as %+v", at, e)
		time.Sleep(time.Second)
	})
}

// A node that does not know that the server is in another incarnation asks before it begins a new epoch:
// else two nodes that disagree would begin one after the other for ever.
func TestIncarnation_NodesAgree(t *testing.T) {
	t.Parallel() // it mostly waits
	server := redistest.Start(t)
	a, b := newCoordinator(t, server.Client(), patient(Options{})), newCoordinator(t, server.Client(), patient(Options{}))
	r := mustDo(t, a, "42", room.Join{User: "a", Session: "s"})
	warmUp(t, server.Client(), store.LoadScript, store.AcquireScript, store.CommitScript)
	b.store.Servers.Mistake("outdated")
	if err := b.store.Servers.Preload(t.Context(), store.LoadScript, store.AcquireScript, store.CommitScript); err != nil { // the server knows the outdated texts, too
		t.Fatal(err)
	}
	for i := range 5 {
		for _, c := range []*Coordinator{b, a} {
			if got := mustDo(t, c, "42", room.SetData{Data: fmt.Sprint(i)}); got.Epoch != r.Epoch {
				t.Fatalf("action %d is in epoch %s, before it was %s", i, got.Epoch, r.Epoch)
			}
		}
	}
}

// A user of Redis who may not ask for the incarnation gets an error that says so.
func TestIncarnation_NoRightToAsk(t *testing.T) {
	server := redistest.Start(t)
	admin := server.Client()
	redistest.OK(t, admin.Do(t.Context(), "ACL", "SETUSER", "blind", "on", ">secret", "~*", "&*", "+@all", "-info").Err())
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Username: "blind", Password: "secret", ContextTimeoutEnabled: true})
	defer rdb.Close()
	c := newCoordinator(t, rdb, Options{})
	_, err := c.Do(soon(t), "42", room.Join{User: "a", Session: "s"})
	redistest.ErrorIf(t, !errors.Is(err, room.ErrUnavailable) || !redis.HasErrorPrefix(err, "NOPERM"), "%v", err)
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
				c.feeds.Compare(c.feeds.At("42"), room.NewRoom("42", room.Position{}, nil))
			}
			time.Sleep(50 * time.Millisecond) // before the node looks at its rooms in a round
			mu.Lock()
			defer mu.Unlock()
			redistest.ErrorIf(t, last.Snapshot == nil || last.Epoch == first.Epoch || last.Version != 4,
				"by %s: the last event is %+v", by, last)
		})
	}
}

// A script flush, as an operator may do it, ends no epoch.
func TestIncarnation_ScriptFlush(t *testing.T) {
	server := redistest.Start(t)
	c := newCoordinator(t, server.Client(), Options{})
	r := mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	for i := range 3 {
		redistest.OK(t, server.Client().ScriptFlush(t.Context()).Err())
		if got := mustDo(t, c, "42", room.SetData{Data: fmt.Sprint(i)}); got.Epoch != r.Epoch {
			t.Fatalf("after a flush the epoch is %s instead of %s", got.Epoch, r.Epoch)
		}
	}
}
