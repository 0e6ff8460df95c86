package coordinator

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rs/zerolog"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/cluster"
	"roomd/room/coordinator/internal/store"
)

// Another node takes over a node's members after its workers have ended. The records of the
// first are deleted, with few requests at a time; that of another room stays.
func TestRegistration_OldRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		client := redistest.MiniClient(t, mini)
		c := newCoordinator(t, client, Options{})
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		const rooms = 150
		for i := range rooms {
			mustDo(t, c, fmt.Sprint("room", i), room.Join{User: "a", Session: "s"})
		}
		mustDo(t, c, "stays", room.Join{User: "a", Session: "s"})
		time.Sleep(2 * copyIdle) // the workers have ended
		for i := range rooms {
			mustDo(t, other, fmt.Sprint("room", i), room.Join{User: "a", Session: "elsewhere"})
		}
		var requests atomic.Int32
		client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if isScript(cmd, store.UnregisterScript) || isScript(cmd, cluster.RoomsScript) {
				requests.Add(1)
			}
			return nil
		}})
		for range 90 {
			time.Sleep(time.Second)
			n := requests.Swap(0)
			redistest.ErrorIf(t, n > 50, "%d requests in a second", n)
		}
		if rooms := rdb.SMembers(t.Context(), unprefixed.NodeRooms(c.Node())).Val(); !slices.Equal(rooms, []string{"stays"}) {
			t.Errorf("it may have members in %d rooms: %v", len(rooms), rooms[:min(3, len(rooms))])
		}
		for i := range rooms {
			if key := fmt.Sprint("Room:room", i, ":Meta"); rdb.HExists(t.Context(), key, "by:"+c.Node()).Val() {
				t.Fatalf("%s remembers it", key)
			}
		}
	})
}

// lines is what a coordinator logs.
type lines struct{ redistest.Log }

func (l *lines) count(text string) int { return strings.Count(l.String(), text) }

// late holds back those requests of a client that run one script with a certain argument:
// the client gets no reply, and they arrive when the test says.
type late struct {
	rdb  *redis.Client
	mu   sync.Mutex
	kept [][]any // guarded by mu
	off  bool    // guarded by mu
}

func keepBack(client, rdb *redis.Client, script *redis.Script, word string) *late {
	l := &late{rdb: rdb}
	client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.off || !isScript(cmd, script) || !slices.ContainsFunc(cmd.Args(), func(a any) bool { return fmt.Sprint(a) == word }) {
			return nil
		}
		l.kept = append(l.kept, slices.Clone(cmd.Args()))
		return io.ErrUnexpectedEOF
	}})
	return l
}

// pass lets requests through from now on.
func (l *late) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.off = true
}

func (l *late) arrive(t *testing.T) {
	t.Helper()
	l.pass()
	redistest.FatalIf(t, len(l.kept) == 0, "there was no such request")
	for _, args := range l.kept {
		redistest.OK(t, l.rdb.Do(t.Context(), args...).Err())
	}
}

// The node compares its records while it is about to use a room where it has no members yet: they stay, because a
// join relies on them.
func TestRegistration_InUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rdb := onMini(t, Options{})
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		mustDo(t, c, "42", room.Leave{User: "a", Session: "s"}) // the worker is idle, and keeps the room
		redistest.OK(t, c.node.Reconcile("42"))
		mustDo(t, c, "42", room.Join{User: "b", Session: "s"})
		redistest.ErrorIf(t, !rdb.SIsMember(t.Context(), unprefixed.NodeRooms(c.Node()), "42").Val(),
			"the node has a member in a room that is not on its list")
	})
}

// The request that takes a room off the node's list arrives when the room is used again.
func TestRegistration_LateRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		client := redistest.MiniClient(t, mini)
		warmAll(t, rdb)
		c := newCoordinator(t, client, Options{})
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		mustDo(t, c, "42", room.Leave{User: "a", Session: "s"})
		removal := keepBack(client, rdb, cluster.RoomsScript, "remove")
		time.Sleep(copyIdle + time.Second)
		removal.pass()
		mustDo(t, c, "42", room.Join{User: "b", Session: "s"})
		removal.arrive(t)
		redistest.ErrorIf(t, !rdb.SIsMember(t.Context(), unprefixed.NodeRooms(c.Node()), "42").Val(),
			"the node has a member in a room that is not on its list")
	})
}

// The request that puts a room on the node's list arrives when the node is closed.
func TestRegistration_LateRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		client := redistest.MiniClient(t, mini)
		warmAll(t, rdb)
		c := newCoordinator(t, client, Options{})
		record := keepBack(client, rdb, cluster.RoomsScript, "add")
		_, err := c.Do(t.Context(), "42", room.Join{User: "a", Session: "s"})
		redistest.ErrorIf(t, err == nil, "it was not recorded, and the join has succeeded")
		redistest.OK(t, c.Close(t.Context()))
		record.arrive(t)
		noOtherNodes(t, rdb)
	})
}

// The request that unregisters a node arrives after a later one.
func TestRegistration_LateUnregister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		client := redistest.MiniClient(t, mini)
		warmAll(t, rdb)
		c := newCoordinator(t, client, Options{Node: "n"})
		mustDo(t, c, "42", room.Configure{Settings: room.Settings{Keep: true}})
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		mustDo(t, c, "42", room.Leave{User: "a", Session: "s"})
		late := keepBack(client, rdb, store.UnregisterScript, rdb.HGet(t.Context(), "Room:42:Meta", "by:n").Val())
		time.Sleep(copyIdle + time.Second)
		late.pass()
		mustDo(t, c, "42", room.Join{User: "b", Session: "s"})
		mustDo(t, c, "42", room.Leave{User: "b", Session: "s"})
		last := rdb.HGet(t.Context(), "Room:42:Meta", "by:n").Val()
		late.arrive(t)
		got := rdb.HGet(t.Context(), "Room:42:Meta", "by:n").Val()
		redistest.ErrorIf(t, got != last || last == "", "the last commit is %q instead of %q", got, last)
	})
}

// warmAll loads every script, so that hooks see what is executed.
func warmAll(t *testing.T, rdb *redis.Client) {
	t.Helper()
	warm(t, rdb)
	for _, s := range []*redis.Script{store.UnregisterScript, cluster.LeaseScript, cluster.RoomsScript, cluster.EndScript, cluster.OverScript, cluster.ListScript, cluster.UnlistScript} {
		redistest.OK(t, s.Load(t.Context(), rdb).Err())
	}
}

// Redis loses half of a quiet room, or all of it. The watchers hear of it although nobody
// acts there.
func TestRegistration_QuietRoomIsPutRight(t *testing.T) {
	for name, keys := range map[string][]string{
		"Users": {"Room:42:Users"}, "Meta": {"Room:42:Meta"}, "both": {"Room:42:Users", "Room:42:Meta"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mini, rdb := redistest.Mini(t)
				c := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
				f, _ := follow(t, c, "42")
				first := mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
				f.expect(t, "1<0 +a@0")
				time.Sleep(10 * time.Minute)
				rdb.Del(t.Context(), keys...)
				time.Sleep(2*time.Minute + copyIdle)
				redistest.FatalIf(t, len(f.events) == 0, "the watcher was told nothing")
				e := <-f.events
				for len(f.events) > 0 {
					e = <-f.events
				}
				redistest.ErrorIf(t, e.Snapshot == nil || e.Epoch == first.Epoch, "the watcher was told %+v", e)
			})
		})
	}
}

// Redis cannot be reached when records are to be deleted. The log says so, and it happens
// when Redis is back.
func TestRegistration_OldRecordsLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		client := redistest.MiniClient(t, mini)
		var log lines
		handler := zerolog.NewSlogHandler(zerolog.New(&log).Level(zerolog.InfoLevel))
		c := newCoordinator(t, client, Options{Log: slog.New(handler)})
		for i := range 300 {
			mustDo(t, c, fmt.Sprint("room", i), room.Join{User: "a", Session: "s"})
			mustDo(t, c, fmt.Sprint("room", i), room.Leave{User: "a", Session: "s"})
		}
		var away atomic.Bool
		away.Store(true)
		client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if away.Load() && cmd.Name() == "evalsha" && !isScript(cmd, cluster.LeaseScript) {
				return io.ErrUnexpectedEOF
			}
			return nil
		}})
		time.Sleep(2 * copyIdle)
		n := log.count("could not be compared")
		redistest.ErrorIf(t, n == 0 || n > 5, "%d lines say so", n)
		away.Store(false)
		time.Sleep(2 * time.Minute)
		traceless(t, rdb, c.Node())
	})
}

// traceless checks that Redis has no record of a node in any room.
func traceless(t *testing.T, rdb *redis.Client, node string) {
	t.Helper()
	rooms := rdb.SMembers(t.Context(), unprefixed.NodeRooms(node)).Val()
	redistest.ErrorIf(t, len(rooms) > 0, "%s may have members in %d rooms: %.99q", node, len(rooms), rooms)
	for _, key := range rdb.Keys(t.Context(), "Room:*:Meta").Val() {
		redistest.FatalIf(t, rdb.HExists(t.Context(), key, "by:"+node).Val(),
			"%s remembers %s, and perhaps others do", key, node)
	}
}
