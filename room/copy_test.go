package room

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"roomd/lockmgr/redistest"
)

// counting counts the commands of a client that ask for a lock, read a room, and
// commit.
type counting struct{ takes, reads, commits atomic.Int32 }

func (n *counting) hook() redistest.Hook {
	return redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
		switch args := cmd.Args(); {
		case cmd.Name() == "set" && args[1] != "LockRoom:42":
		case cmd.Name() == "set", isScript(cmd, takeScript):
			n.takes.Add(1)
			if cmd.Name() != "set" && fmt.Sprint(args[len(args)-1]) == "0" {
				n.reads.Add(1)
			}
		case isScript(cmd, commitScript):
			n.commits.Add(1)
		}
		return nil
	}}
}

// A node that works at a room reads it once; from then on a hold is two requests,
// and with elision one.
func TestRequestsOfAHold(t *testing.T) {
	for elide, takes := range map[bool]int32{false: 10, true: 1} {
		_, rdb := redistest.Mini(t)
		warm(t, rdb)
		var n counting
		rdb.AddHook(n.hook())
		c := newCoordinator(t, rdb, Options{ElideLock: elide})
		for i := range 5 {
			mustDo(t, c, "42", Join(fmt.Sprint(i), "s"))
			mustDo(t, c, "42", Leave(fmt.Sprint(i), "s"))
		}
		if n.takes.Load() != takes || n.reads.Load() != 1 || n.commits.Load() != 10 {
			t.Errorf("elide %v: asked %d times for the lock, read %d times, committed %d times",
				elide, n.takes.Load(), n.reads.Load(), n.commits.Load())
		}
	}
}

// Another node has written to the room since: the copy is old, nothing is written on
// top of it, and the action runs on the room as it is.
func TestAnOldCopy(t *testing.T) {
	for _, elide := range []bool{false, true} {
		onBoth(t, func(t *testing.T, client func() *redis.Client) {
			c, other := newCoordinator(t, client(), Options{ElideLock: elide}), newCoordinator(t, client(), Options{})
			mustDo(t, c, "42", Join("a", "s"))
			mustDo(t, other, "42", Join("b", "s"))
			mustDo(t, other, "42", Leave("a", "s"))
			if r := mustDo(t, c, "42", Join("c", "s")); describeUsers(r.Users()) != "c@0 b@1" || r.Version != 4 {
				t.Errorf("%s at version %d", describeUsers(r.Users()), r.Version)
			}
			if _, err := other.Do(t.Context(), "42", Leave("a", "s")); !errors.Is(err, ErrNotMember) {
				t.Errorf("a leaves again: %v", err)
			}
		})
	}
}

// Nodes that fight over a room keep their copies by what they hear of each other:
// hardly any of them has to read the room.
func TestCopiesFollowOtherNodes(t *testing.T) {
	server := redistest.Start(t)
	var wg sync.WaitGroup
	var n counting
	const nodes, players, rounds = 3, 8, 40
	for node := range nodes {
		rdb := server.Client()
		rdb.AddHook(n.hook())
		c := newCoordinator(t, rdb, Options{})
		for p := range players {
			wg.Go(func() {
				user := fmt.Sprintf("player%d-%d", node, p)
				for range rounds {
					mustDo(t, c, "42", Join(user, "s"))
					mustDo(t, c, "42", Leave(user, "s"))
				}
				mustDo(t, c, "42", Join(user, "s"))
			})
		}
	}
	wg.Wait()
	s, err := newCoordinator(t, server.Client(), Options{}).Read(t.Context(), "42")
	if err != nil || s.Count() != nodes*players {
		t.Errorf("%d are in the room, %v", s.Count(), err)
	}
	if reads, commits := n.reads.Load(), n.commits.Load(); reads > commits/4 {
		t.Errorf("the room was read %d times for %d commits", reads, commits)
	}
}

// Copies of quiet rooms go: the oldest when there are too many, all after a while.
func TestCopiesGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		c := newCoordinator(t, rdb, Options{MaxCopies: 3 * (deskSize + 1)})
		open := func() (ids []string) {
			time.Sleep(time.Second)
			c.mu.Lock()
			defer c.mu.Unlock()
			for id := range c.desks {
				ids = append(ids, id)
			}
			slices.Sort(ids)
			return ids
		}
		for i := range 5 {
			mustDo(t, c, fmt.Sprint("room", i), Join("a", "s"))
		}
		if got := open(); !slices.Equal(got, []string{"room2", "room3", "room4"}) {
			t.Errorf("copies of %v are left", got)
		}
		time.Sleep(copyIdle / 2)
		mustDo(t, c, "room3", Join("b", "s"))
		if r := mustDo(t, c, "room0", Join("b", "s")); r.Version != 2 || r.Seat != 1 {
			t.Errorf("%+v", r)
		}
		time.Sleep(copyIdle / 2)
		if got := open(); !slices.Equal(got, []string{"room0", "room3"}) {
			t.Errorf("copies of %v are left", got)
		}
		time.Sleep(copyIdle)
		if got := open(); len(got) > 0 || c.copies != 0 {
			t.Errorf("copies of %v are left, counted as %d", got, c.copies)
		}
	})
}

// The reply of a commit that handed the lock on to the same node is lost: both
// batches count once.
func TestLostReplyOfACommitWithAnHeir(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb := client()
		c := newCoordinator(t, rdb, Options{MaxBatch: 1})
		second := make(chan Result, 1)
		rdb.AddHook(redistest.Hook{
			Before: once(takeScript, func() error { // the second waits when the first commits
				go func() { second <- mustDo(t, c, "42", Join("b", "s")) }()
				for waits := 0; waits < 2; {
					c.mu.Lock()
					d := c.desks["42"]
					c.mu.Unlock()
					d.mu.Lock()
					waits = len(d.waiting)
					d.mu.Unlock()
				}
				return nil
			}),
			After: once(commitScript, func() error { return io.ErrUnexpectedEOF }),
		})
		warm(t, rdb)
		if r := mustDo(t, c, "42", Join("a", "s")); r.Version != 1 {
			t.Errorf("the first is version %d", r.Version)
		}
		if r := await(t, second, "the second join"); r.Version != 2 || describeUsers(r.Users()) != "a@0 b@1" {
			t.Errorf("%s at version %d", describeUsers(r.Users()), r.Version)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := keysOf(t, client()); slices.Contains(got, "LockRoom:42") || slices.Contains(got, "LockRoom:42:Queue") {
			t.Errorf("left over: %v", got)
		}
	})
}

// An elided commit whose reply was lost is settled: it counts once if it was
// carried out, and if not, no copy of it that arrives later does anything.
func TestElidedCommitInDoubt(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb := client()
		warm(t, rdb)
		c := newCoordinator(t, rdb, Options{ElideLock: true})
		mustDo(t, c, "42", Join("a", "s"))
		var late []any
		rdb.AddHook(redistest.Hook{
			Before: func(_ context.Context, cmd redis.Cmder) error {
				switch {
				case !isScript(cmd, commitScript):
				case late == nil:
					late = slices.Clone(cmd.Args())
					return io.ErrUnexpectedEOF
				case cmd.Args()[10] == late[10] && !strings.Contains(cmd.Args()[10+restArg].(string), " "+modeVoid+" "): // the same token
					t.Error("an elided commit in doubt was sent again")
				}
				return nil
			},
			After: func() func(context.Context, redis.Cmder) error {
				n := 0
				return func(_ context.Context, cmd redis.Cmder) error {
					if isScript(cmd, commitScript) {
						if n++; n == 1 { // of the settling request
							return io.ErrUnexpectedEOF
						}
					}
					return nil
				}
			}(),
		})
		mustDo(t, c, "42", Join("b", "s"))
		mustDo(t, c, "42", Leave("b", "s"))
		before, _ := c.Read(t.Context(), "42")
		if err := client().Do(t.Context(), late...).Err(); err != nil {
			t.Fatal(err)
		}
		if after, _ := c.Read(t.Context(), "42"); after.Version != before.Version || describeUsers(after.Users()) != "a@0" {
			t.Errorf("the late commit made it %s at version %d", describeUsers(after.Users()), after.Version)
		}
	})
	t.Run("carried out", func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		warm(t, rdb)
		c := newCoordinator(t, rdb, Options{ElideLock: true})
		mustDo(t, c, "42", Join("a", "s"))
		rdb.AddHook(redistest.Hook{After: once(commitScript, func() error { return io.ErrUnexpectedEOF })})
		if r := mustDo(t, c, "42", Leave("a", "s")); r.Version != 2 {
			t.Errorf("version %d", r.Version)
		}
	})
}

// A late copy of an elided commit meets the room at the very version it builds on.
func TestVoidedCommit(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		rdb := client()
		c := newCoordinator(t, rdb, Options{})
		ticket, err := c.locks.Ticket("42", c.store.keysOf("42").both...)
		if err != nil {
			t.Fatal(err)
		}
		r := NewRoom("42", "", 0, map[string]Member{})
		if _, err := r.Apply(Join("a", "s"), Rules{}); err != nil {
			t.Fatal(err)
		}
		first := c.store.prepare(r, c.store.keysOf("42"), newIdentity("n"), ticket.Token(), "", modeElided)
		settling := *first
		settling.args = slices.Clone(first.args)
		settling.void()
		for range 2 { // its reply may be lost, too
			if _, _, err := c.store.send(t.Context(), ticket, &settling); !errors.Is(err, errLost) {
				t.Fatalf("void: %v", err)
			}
		}
		if _, _, err := c.store.send(t.Context(), ticket, first); !errors.Is(err, errLost) {
			t.Errorf("the late commit: %v", err)
		}
		if ttl := rdb.PTTL(t.Context(), "Room:42:Meta").Val(); ttl <= 0 {
			t.Errorf("Room:42:Meta stays, TTL %v", ttl)
		}
	})
}

// Random actions, committed or reverted: a copy that follows the events is the
// room, and a reverted room is what it was.
func TestCopyAndOriginal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		original := NewRoom("42", "e", 1, map[string]Member{})
		copied := NewRoom("42", "e", 1, map[string]Member{})
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for range rapid.IntRange(1, 20).Draw(t, "batches") {
			before, was := describeRoom(original), original.Snapshot()
			shown := describeUsers(was.Users())
			for _, p := range random.Perm(40)[:random.IntN(20)] {
				user, session := fmt.Sprint("u", p), fmt.Sprint("s", random.IntN(2))
				a := Join(user, session)
				if random.IntN(2) == 0 {
					a = Leave(user, session)
				}
				a.node, a.at = "n", 5
				_, _ = original.Apply(a, Rules{Capacity: 30})
			}
			if random.IntN(3) == 0 {
				original.Revert()
				if after := describeRoom(original); after != before {
					t.Fatalf("reverted from\n%s to\n%s", before, after)
				}
				continue
			}
			if original.Changed() {
				w := wireEvent{original.Epoch, original.Version + 1, "m", "n", original.changes}
				e, err := parseEvent("42", string(w.append(nil)))
				if err != nil || !copied.follow(e) {
					t.Fatalf("cannot follow %s: %v", w.append(nil), err)
				}
			}
			original.Commit("e")
			if got, want := describeRoom(copied), describeRoom(original); got != want {
				t.Fatalf("the copy is\n%s, the room is\n%s", got, want)
			}
			if describeUsers(slices.Collect(func(yield func(Occupant) bool) {
				for i, c := range was.view.chunks {
					for j, user := range c {
						if user != "" && !yield(Occupant{user, i*chunkSeats + j}) {
							return
						}
					}
				}
			})) != shown {
				t.Fatal("a snapshot changed")
			}
		}
	})
}

func describeRoom(r *Room) string {
	var list []string
	for user, m := range r.members {
		list = append(list, fmt.Sprint(user, m))
	}
	slices.Sort(list)
	s := r.Snapshot()
	return fmt.Sprint(r.Epoch, r.Version, list, describeUsers(s.Users()), s.Count(), r.size, r.seats.lowestFree())
}

// What a copy cannot follow, it does not.
func TestFollowNeedsEveryEvent(t *testing.T) {
	event := func(epoch string, version uint64) *Event {
		return &Event{Epoch: epoch, Version: version, From: version - 1, wire: &wireEvent{}}
	}
	for _, tt := range []struct {
		e      *Event
		follow bool
		at     uint64
	}{
		{event("e", 3), true, 5}, {event("e", 5), true, 5}, {event("e", 6), true, 6}, {event("e", 7), false, 5}, {event("f", 6), false, 5},
		{&Event{Epoch: "e", Version: 6, From: 5, Snapshot: &Snapshot{}}, false, 5},
	} {
		r := NewRoom("42", "e", 5, map[string]Member{})
		if got := r.follow(tt.e); got != tt.follow || r.Version != tt.at {
			t.Errorf("%+v: %v, version %d", tt.e, got, r.Version)
		}
	}
	var d desk
	d.copy = NewRoom("42", "e", 1, map[string]Member{})
	for v := range uint64(maxInbox + 1) {
		d.events.put(event("e", v+2))
	}
	if d.catchUp(); d.copy != nil {
		t.Error("a copy that missed events was kept")
	}
}

// While somebody else holds the lock or waits for it, nothing is elided.
func TestElisionRespectsTheLock(t *testing.T) {
	for _, key := range []string{"LockRoom:42", "LockRoom:42:Queue"} {
		onBoth(t, func(t *testing.T, client func() *redis.Client) {
			rdb := client()
			c := newCoordinator(t, rdb, Options{ElideLock: true, LockWait: 50 * time.Millisecond})
			mustDo(t, c, "42", Join("a", "s"))
			if key == "LockRoom:42" {
				rdb.Set(t.Context(), key, "another", time.Minute)
			} else {
				rdb.ZAdd(t.Context(), key, redis.Z{Score: 1, Member: "another"})
			}
			if _, err := c.Do(t.Context(), "42", Join("b", "s")); !errors.Is(err, ErrBusy) {
				t.Errorf("%s: %v", key, err)
			}
		})
	}
}

// Behind a commit the next batch of the same node has the lock already if no other
// node waits; and if one does, it waits in line until nobody needs it any more.
func TestHeir(t *testing.T) {
	for _, contended := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			_, rdb := redistest.Mini(t)
			var n counting
			c := newCoordinator(t, rdb, Options{MaxBatch: 1})
			mustDo(t, c, "42", Join("z", "s"))
			rdb.Set(t.Context(), "LockRoom:42", "another", 500*time.Millisecond)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var wg sync.WaitGroup
			for i := range 3 {
				wg.Go(func() { _, _ = c.Do(ctx, "42", Join(fmt.Sprint(i), "s")) })
			}
			time.Sleep(100 * time.Millisecond)
			if contended { // by one that has died
				rdb.ZAdd(t.Context(), "LockRoom:42:Queue", redis.Z{Score: 1e17, Member: "another"})
			}
			rdb.AddHook(n.hook())
			rdb.AddHook(redistest.Hook{After: once(commitScript, func() error {
				if contended {
					cancel()
				}
				return nil
			})})
			wg.Wait()
			time.Sleep(time.Second)
			if !contended && n.commits.Load() != 3 {
				t.Errorf("%d commits for 3 actions", n.commits.Load())
			}
			if left := rdb.ZRange(t.Context(), "LockRoom:42:Queue", 0, -1).Val(); len(left) > 0 {
				t.Errorf("%v wait in line", left)
			}
		})
	}
}
