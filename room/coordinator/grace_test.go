package coordinator

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/embedded"
	"roomd/lockmgr/redistest"
	"roomd/room"
)

const graceDay = 24 * time.Hour

// graceLog has what becomes of the members of a room, and when.
type graceLog struct {
	t     *testing.T
	began time.Time

	mu   sync.Mutex
	told []string
}

// follow adds what c hears.
func (l *graceLog) follow(c *Coordinator) (stop func()) {
	stop, err := c.Watch(l.t.Context(), "42", func(e *room.Event) {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, change := range e.Changes {
			if change.Type.OfMember() {
				at := time.Since(l.began).Round(time.Second)
				l.told = append(l.told, fmt.Sprintf("%s %s at %v", change.User, change.Type, at))
			}
		}
	})
	redistest.OK(l.t, err)
	return stop
}

func (l *graceLog) expect(in time.Duration, want ...string) {
	l.t.Helper()
	time.Sleep(in)
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	redistest.ErrorIf(l.t, !slices.Equal(l.told, want), "what was told: %q, want %q", l.told, want)
	l.told = nil
}

// graceNodes returns started nodes on one Redis.
func graceNodes(t *testing.T, mini *embedded.Redis, n int) (nodes []*Coordinator) {
	t.Helper()
	for range n {
		c := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		redistest.OK(t, c.Start(t.Context()))
		nodes = append(nodes, c)
	}
	return nodes
}

// begin sets the grace of room 42, and seats users by a node. Their sessions have their names.
func beginGrace(t *testing.T, c *Coordinator, grace time.Duration, users ...string) {
	t.Helper()
	mustDo(t, c, "42", room.Configure{Settings: room.Settings{Grace: room.NewGrace(grace.Milliseconds())}})
	for _, user := range users {
		mustDo(t, c, "42", room.Join{User: user, Session: user})
	}
}

func loseConnection(t *testing.T, c *Coordinator, user string) {
	t.Helper()
	mustDo(t, c, "42", room.Detach{User: user, Session: user})
}

// expectNothingKept expects that no node but the living ones is known to Redis, and nobody is in the index.
func expectNothingKept(t *testing.T, rdb *redis.Client, living ...*Coordinator) {
	t.Helper()
	noOtherNodes(t, rdb, living...)
	expectIndex(t, rdb)
}

// A grace of seconds ends on time, whether its node lives, has died or was stopped before. One of 0 is over at once.
func TestGrace_Seconds(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, c *Coordinator){
		"lives":   func(*testing.T, *Coordinator) {},
		"died":    func(_ *testing.T, c *Coordinator) { die(c) },
		"stopped": func(t *testing.T, c *Coordinator) { redistest.OK(t, c.Close(t.Context())) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mini, rdb := redistest.Mini(t)
				nodes := graceNodes(t, mini, 3)
				beginGrace(t, nodes[1], 30*time.Second, "x")
				mustDo(t, nodes[0], "42", room.Join{User: "a", Session: "a"})
				l := &graceLog{t: t, began: time.Now()}
				defer l.follow(nodes[2])()
				loseConnection(t, nodes[0], "a")
				end(t, nodes[0])
				l.expect(28*time.Second, "a away at 0s")
				l.expect(3*time.Second, "a leave at 30s")
				l.expect(time.Minute)
				expectIndex(t, rdb)
				mustDo(t, nodes[1], "42", room.Configure{Settings: room.Settings{Grace: room.NewGrace(0)}})
				loseConnection(t, nodes[1], "x")
				l.expect(0, "x leave at 1m31s")
			})
		})
	}
}

// A grace of three days outlives the death of the node and a restart of all nodes, and ends once and on time: for who was
// away before, and for who was connected then.
func TestGrace_Days(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, c *Coordinator){
		"died":    func(_ *testing.T, c *Coordinator) { die(c) },
		"stopped": func(t *testing.T, c *Coordinator) { redistest.OK(t, c.Close(t.Context())) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mini, rdb := redistest.Mini(t)
				nodes := graceNodes(t, mini, 2)
				beginGrace(t, nodes[0], 3*graceDay, "away", "back", "there")
				l := &graceLog{t: t, began: time.Now()}
				loseConnection(t, nodes[0], "away")
				loseConnection(t, nodes[0], "back")
				end(t, nodes[0])
				time.Sleep(time.Minute)
				expectRoom(t, mustRead(t, nodes[1], "42"), "away@0 back@1 there@2", 0)
				noOtherNodes(t, rdb, nodes[1])
				end(t, nodes[1])
				time.Sleep(2*graceDay - time.Minute)
				nodes = graceNodes(t, mini, 1)
				seat := mustDo(t, nodes[0], "42", room.Join{User: "back", Session: "new"}).Seat
				redistest.Equal(t, "the seat of who comes back", seat, 1)
				mustDo(t, nodes[0], "42", room.Leave{User: "back", Session: "new"})
				time.Sleep(time.Minute)
				noOtherNodes(t, rdb, nodes[0])
				end(t, nodes[0])
				time.Sleep(graceDay - 2*time.Minute)
				nodes = graceNodes(t, mini, 3)
				stop := l.follow(nodes[2])
				l.expect(time.Minute - time.Second)
				l.expect(2*time.Second, "away leave at 72h0m0s")
				time.Sleep(time.Minute) // the other nodes noticed some seconds after
				synctest.Wait()
				l.mu.Lock()
				redistest.ErrorIf(t, len(l.told) != 1 || !strings.HasPrefix(l.told[0], "there leave at 72h0m"), "%v", l.told)
				l.mu.Unlock()
				stop()
				time.Sleep(2 * time.Minute)
				expectNothingKept(t, rdb, nodes...)
			})
		})
	}
}

// A thousand members who are away for days cost their node no goroutine and no record, and nobody asks Redis about their
// rooms, as a node with alarms does once a minute.
func TestGrace_CostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		var asked atomic.Int64
		client := redistest.MiniClient(t, mini)
		client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
			if strings.Contains(fmt.Sprint(cmd.Args()...), "Room:r") {
				asked.Add(1)
			}
			return nil
		}})
		c := newCoordinator(t, client, Options{})
		redistest.OK(t, c.Start(t.Context()))
		settings := room.Configure{Settings: room.Settings{Grace: room.NewGrace((3 * graceDay).Milliseconds())}}
		time.Sleep(time.Minute)
		synctest.Wait()
		before := ownGoroutines()
		for i := range 1000 {
			id := fmt.Sprint("r", i%100)
			user := fmt.Sprint("u", i)
			if i < 100 {
				mustDo(t, c, id, settings)
			}
			mustDo(t, c, id, room.Join{User: user, Session: user})
			mustDo(t, c, id, room.Detach{User: user, Session: user})
		}
		time.Sleep(5 * time.Minute) // then copies and records are gone
		synctest.Wait()
		redistest.Equal(t, "goroutines", ownGoroutines(), before)
		redistest.Equal(t, "rooms of the node", rdb.SCard(t.Context(), unprefixed.NodeRooms(c.Node())).Val(), 0)
		asked.Store(0)
		time.Sleep(10 * time.Minute)
		redistest.Equal(t, "requests about the rooms", asked.Load(), 0)
		redistest.Equal(t, "entries of the index", rdb.ZCard(t.Context(), unprefixed.Timers()).Val(), 1000)
	})
}

// ownGoroutines counts the goroutines of nodes, without those of Redis and connections to it.
func ownGoroutines() int {
	stacks := make([]byte, 4<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return strings.Count(string(stacks), "created by roomd/room/coordinator")
}

// Redis has lost everything. A node that knows the room restores its members with their deadlines.
func TestGrace_RedisIsEmptied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		nodes := graceNodes(t, mini, 2)
		beginGrace(t, nodes[0], 3*graceDay, "away", "there")
		l := &graceLog{t: t, began: time.Now()}
		stop := l.follow(nodes[1])
		mustRead(t, nodes[1], "42")
		loseConnection(t, nodes[0], "away")
		l.expect(time.Minute, "away away at 0s")
		rdb.FlushAll(t.Context())
		mustDo(t, nodes[1], "42", room.Say{Text: "hello"})
		expectRoom(t, mustRead(t, nodes[0], "42"), "away@0 there@1", 0)
		l.expect(0)
		stop()
		redistest.OK(t, errors.Join(nodes[0].Close(t.Context()), nodes[1].Close(t.Context())))
		time.Sleep(3*graceDay - 2*time.Minute)
		nodes = graceNodes(t, mini, 1)
		defer l.follow(nodes[0])()
		l.expect(59 * time.Second)
		l.expect(2*time.Second, "away leave at 72h0m0s")
	})
}

// Redis has lost a quiet room whose members are all away, so they belong to no node. A node on which somebody watches the room
// restores it, whether it has only heard it begin or has only read it.
func TestGrace_QuietRoomIsRestored(t *testing.T) {
	for _, first := range []string{"the watcher", "the member"} {
		synctest.Test(t, func(t *testing.T) {
			mini, rdb := redistest.Mini(t)
			nodes := graceNodes(t, mini, 2)
			watch := func() {
				follow(t, nodes[1], "42")
				mustRead(t, nodes[1], "42")
			}
			if first == "the watcher" {
				watch()
			}
			beginGrace(t, nodes[0], 3*graceDay, "a")
			loseConnection(t, nodes[0], "a")
			if first == "the member" {
				watch()
			}
			time.Sleep(10 * time.Minute)
			redistest.OK(t, rdb.FlushAll(t.Context()).Err())
			time.Sleep(2 * time.Minute)
			now, err := nodes[0].store.Load(t.Context(), "42") // puts nothing right
			redistest.OK(t, err)
			expectRoom(t, now.Snapshot(), "a@0", 0)
		})
	}
}

// The index of timers cannot be written: nobody is away without an entry, and the node tries again.
func TestGrace_IndexIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		client := redistest.MiniClient(t, mini)
		c := newCoordinator(t, client, Options{})
		beginGrace(t, c, 3*graceDay, "a")
		rdb.Set(t.Context(), unprefixed.Timers(), "not an index", 0)
		_, err := c.Do(soon(t), "42", room.Detach{User: "a", Session: "a"})
		redistest.ErrorIf(t, !errors.Is(err, room.ErrUnavailable), "%v", err)
		redistest.ErrorIf(t, mustRead(t, c, "42").Users()[0].Away, "a is away")
		rdb.Del(t.Context(), unprefixed.Timers())
		loseConnection(t, c, "a")
		expectIndex(t, rdb, "42")
		mustDo(t, c, "42", room.Join{User: "a", Session: "b"})
		time.Sleep(2 * time.Second)
		expectIndex(t, rdb)
		mustDo(t, c, "42", room.Detach{User: "a", Session: "b"})
		time.Sleep(2 * time.Second)
		rdb.Del(t.Context(), unprefixed.Timers()) // lost: who reads the room writes it again
		other := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
		mustDo(t, other, "42", room.Say{Text: "hello"})
		time.Sleep(2 * time.Second)
		expectIndex(t, rdb, "42")
	})
}
