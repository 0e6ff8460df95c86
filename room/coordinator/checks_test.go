package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pause"
	"roomd/lockmgr/redistest"
	"roomd/room"
)

// reporting returns the options of a coordinator that checks its rooms.
func reporting(seats int) Options {
	return Options{Rules: room.Rules{Seating: room.Capacity(seats)}, Report: func(*NodeReport) {}}
}

// checking starts a node that checks its rooms.
func checking(t *testing.T, rdb *redis.Client) *Coordinator {
	t.Helper()
	c := newCoordinator(t, rdb, reporting(4))
	redistest.OK(t, c.Start(soon(t)))
	return c
}

// watchedRoom has a node watch a room with three members on four seats.
func watchedRoom(t *testing.T, c *Coordinator, id string) {
	t.Helper()
	stop, err := c.Watch(soon(t), id, func(*room.Event) {})
	redistest.OK(t, err)
	t.Cleanup(stop)
	for _, user := range []string{"a", "b", "c"} {
		mustDo(t, c, id, room.Join{User: user, Session: "session"})
	}
	mustDo(t, c, id, room.SetData{Data: `{"pot":1}`})
}

// awaitChecks waits until so many further checks were made.
func (c *Coordinator) awaitChecks(t *testing.T, n uint64) {
	t.Helper()
	start := c.Checks()[CheckVersions].Checked
	awaitUntil(t, patience, func() string {
		if done := c.Checks()[CheckVersions].Checked; done < start+n {
			return fmt.Sprintf("%d of %d checks were made", done-start, n)
		}
		return ""
	})
}

// awaitDifference waits until a check says of a room what is wanted; "" for nothing.
func (c *Coordinator) awaitDifference(t *testing.T, check Check, id, want string) {
	t.Helper()
	awaitUntil(t, patience, func() string {
		all := c.Checks()
		for _, d := range all[check].Differs {
			if d.Room == id && want != "" && strings.Contains(d.What, want) {
				return ""
			}
		}
		if want == "" && !slices.ContainsFunc(all[check].Differs, func(d Difference) bool { return d.Room == id }) {
			return ""
		}
		return fmt.Sprintf("%s of room %s: want %q, found %+v", check, id, want, all)
	})
}

// Whatever somebody does to a room by hand is found.
func TestInvariants_Damage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		c := checking(t, rdb)
		member := func(seat int) string {
			return fmt.Sprintf(`{"seat":%d,"session":"session","node":"n","at":1}`, seat)
		}
		kinds := map[string]struct {
			damage, repair []any // a command whose key is Users or Meta
			check          Check
			what           string
		}{
			"two-on-a-seat":      {[]any{"hset", "Users", "x", member(1)}, []any{"hdel", "Users", "x"}, CheckSeats, `"b" and "x" are on seat 1`},
			"an-extra-member":    {[]any{"hset", "Users", "x", member(3)}, []any{"hdel", "Users", "x"}, CheckCopies, `"x" is too many, on seat 3`},
			"a-seat-beyond":      {[]any{"hset", "Users", "x", member(9)}, []any{"hdel", "Users", "x"}, CheckCapacity, `"x" is on seat 9, and the last one is 3`},
			"more-than-seats":    {[]any{"hset", "Users", "x", member(3), "y", member(3)}, []any{"hdel", "Users", "x", "y"}, CheckCapacity, `5 members are on 4 seats`},
			"a-missing-member":   {[]any{"hdel", "Users", "b"}, nil, CheckCopies, `"b" is missing on seat 1`},
			"another-session":    {[]any{"hset", "Users", "b", member(1)}, nil, CheckCopies, `"b" has another session`},
			"other-settings":     {[]any{"hset", "Meta", "settings", `{"capacity":5}`}, []any{"hset", "Meta", "settings", `{"capacity":4,"default":true}`}, CheckCopies, "the settings are"},
			"other-data":         {[]any{"hset", "Meta", "data", `{"version":4,"value":2}`}, nil, CheckCopies, "the data is"},
			"a-later-version":    {[]any{"hset", "Meta", "version", "99"}, []any{"hset", "Meta", "version", "4"}, CheckVersions, "Redis is at version 99"},
			"an-earlier-version": {[]any{"hset", "Meta", "version", "2"}, []any{"hset", "Meta", "version", "4"}, CheckVersions, "was followed by version 2"},
			"no-version-at-all":  {[]any{"hset", "Meta", "version", "-5"}, []any{"hset", "Meta", "version", "4"}, CheckCopies, `holds "-5"`},
			"another-mark":       {[]any{"hset", "Meta", "mark", "x"}, nil, CheckVersions, "with other content"},
			"another-epoch":      {[]any{"hset", "Meta", "epoch", "x"}, nil, CheckVersions, `epoch "x"`},
			"no-member-at-all":   {[]any{"hset", "Users", "b", "garbage"}, nil, CheckCopies, "is no member as roomd writes it"},
			"another-ban":        {[]any{"hset", "Meta", "bans", `{"x":9}`}, []any{"hdel", "Meta", "bans"}, CheckCopies, "1 users are banned instead of 0"},
			"data-set-before":    {[]any{"hset", "Meta", "data", `{"version":3,"value":{"pot":1}}`}, nil, CheckCopies, "of version 3 instead of"},
			"somebody-kicked":    {[]any{"hset", "Meta", "gone", `{"x":{"version":2,"reason":"kicked"}}`}, []any{"hdel", "Meta", "gone"}, CheckCopies, "1 users were taken out instead of 0"},
			"meta-expires":       {[]any{"pexpire", "Meta", 600000}, []any{"persist", "Meta"}, CheckCopies, "Meta expires in"},
			"users-expires":      {[]any{"pexpire", "Users", 600000}, []any{"persist", "Users"}, CheckCopies, "Users expires in"},
			"the-room-is-gone":   {[]any{"del", "Meta"}, nil, CheckVersions, "Redis is at version 0"},
		}
		run := func(id string, command []any) {
			t.Helper()
			command[1] = "Room:" + id + ":" + command[1].(string)
			redistest.OK(t, rdb.Do(t.Context(), command...).Err())
		}
		for id := range kinds {
			watchedRoom(t, c, id)
		}
		c.awaitChecks(t, 2*uint64(len(kinds)))
		for check, found := range c.Checks() {
			redistest.FatalIf(t, found.Rooms > 0, "before the damage %s: %+v", check, found)
		}
		for id, kind := range kinds {
			run(id, kind.damage)
		}
		for id, kind := range kinds {
			c.awaitDifference(t, kind.check, id, kind.what)
		}
		for id, kind := range kinds {
			if kind.repair != nil {
				run(id, kind.repair)
			}
		}
		for id, kind := range kinds {
			if kind.repair != nil {
				c.awaitDifference(t, kind.check, id, "")
			}
		}
	})
}

// Rooms without members expire, unless they are kept.
func TestInvariants_WrongExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		c := checking(t, rdb)
		for _, id := range []string{"kept", "empty"} {
			watchedRoom(t, c, id)
			mustDo(t, c, id, room.Configure{Settings: room.Settings{Keep: id == "kept"}})
			for _, user := range []string{"a", "b", "c"} {
				mustDo(t, c, id, room.Leave{User: user, Session: "session"})
			}
		}
		c.awaitChecks(t, 4)
		for check, found := range c.Checks() {
			redistest.FatalIf(t, found.Rooms > 0, "before the damage %s: %+v", check, found)
		}
		rdb.PExpire(t.Context(), "Room:kept:Meta", time.Hour)
		rdb.Persist(t.Context(), "Room:empty:Meta")
		c.awaitDifference(t, CheckCopies, "kept", "Meta expires in")
		c.awaitDifference(t, CheckCopies, "empty", "Meta does not expire")
		mustDo(t, c, "empty", room.Join{User: "a", Session: "session"})
		c.awaitDifference(t, CheckCopies, "empty", "")
	})
}

// What does not last is no difference.
func TestInvariants_Moment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		c := checking(t, rdb)
		watchedRoom(t, c, "42")
		c.awaitChecks(t, 1)
		stop := findNothing(t, []*Coordinator{c})
		defer stop()
		for range 2 {
			redistest.OK(t, rdb.HSet(t.Context(), "Room:42:Meta", "version", 2).Err())
			c.awaitChecks(t, 1)
			redistest.OK(t, rdb.HSet(t.Context(), "Room:42:Meta", "version", 4).Err())
			c.awaitChecks(t, 2)
		}
	})
}

// Nothing stays watched because it is checked, and what was found goes with the room.
func TestInvariants_NobodyWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		c := checking(t, rdb)
		stop, err := c.Watch(soon(t), "42", func(*room.Event) {})
		redistest.OK(t, err)
		mustDo(t, newCoordinator(t, rdb, Options{}), "42", room.Join{User: "a", Session: "s"})
		c.awaitChecks(t, 2)
		redistest.OK(t, rdb.HSet(t.Context(), "Room:42:Users", "x", `{"seat":0}`).Err())
		c.awaitDifference(t, CheckSeats, "42", "on seat 0")
		stop()
		left := c.feeds.Watched()
		redistest.ErrorIf(t, len(left) > 0, "still watched: %v", left)
		c.awaitDifference(t, CheckSeats, "42", "")
		stopAgain, err := c.Watch(soon(t), "42", func(*room.Event) {})
		redistest.OK(t, err)
		defer stopAgain()
		c.awaitDifference(t, CheckSeats, "42", "on seat 0")
	})
}

// watchesAll has each of the nodes watch all of the rooms.
func watchesAll(t *testing.T, nodes []*Coordinator, rooms []string) {
	t.Helper()
	for _, node := range nodes {
		for _, id := range rooms {
			stop, err := node.Watch(soon(t), id, func(*room.Event) {})
			redistest.OK(t, err)
			t.Cleanup(stop)
		}
	}
}

// findNothing fails the test as soon as a check shows a room that differs, until stop is called.
func findNothing(t *testing.T, nodes []*Coordinator) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause.For(ctx, 20*time.Millisecond) == nil {
			for _, node := range nodes {
				for check, found := range node.Checks() {
					if found.Rooms > 0 {
						t.Errorf("%s of node %s: %+v", check, node.Node(), found)
						return
					}
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

// Redis comes back from an old copy, and a node stands still for so long that its members are removed, while
// everything is done to rooms that checks compare: an epoch that ends makes up for it.
func TestChecks_OldCopies(t *testing.T) {
	t.Parallel() // it mostly waits
	redistest.Thorough(t)
	server, rooms := redistest.Start(t), []string{"42", "43"}
	proxy := redistest.StartProxy(t, server.Addr())
	opts := reporting(4)
	opts.LockTTL, opts.NodeTTL, opts.Grace = 500*time.Millisecond, 500*time.Millisecond, 100*time.Millisecond
	nodes := []*Coordinator{newCoordinator(t, server.Client(), opts), newCoordinator(t, proxy.Client(), opts)}
	watchesAll(t, nodes, rooms)
	ctx, cancel := context.WithCancel(t.Context())
	var acting sync.WaitGroup
	var done atomic.Int64
	for n, node := range nodes {
		for player := range 4 {
			acting.Go(func() {
				user, other := fmt.Sprintf("u%d-%d", n, player), fmt.Sprintf("u%d-%d", 1-n, player)
				for i := 0; ctx.Err() == nil; i++ {
					for _, a := range []room.Action{
						room.Join{User: user, Session: "s"},
						room.Ready{User: user, Session: "s", Value: true},
						room.SetMemberData{User: user, Session: "s", Data: fmt.Sprintf(`{"\u0041":%d}`, i)},
						room.SetData{Data: fmt.Sprintf(`[1.0,%d]`, i%3)},
						room.Kick{User: other, Text: "enough"},
						room.Kick{User: "x", Until: int64(i)},
						room.Configure{Settings: room.Settings{Capacity: 8, Keep: i%2 == 0, Host: room.HostLongest}},
						room.Leave{User: user, Session: "s"},
						room.Reserve{Session: "r", Users: []string{other}},
						room.Release{Users: []string{other}},
					} {
						if _, err := node.Do(ctx, rooms[(i+player)%2], a); err == nil {
							done.Add(1)
						}
					}
				}
			})
		}
	}
	defer acting.Wait()
	defer cancel()
	goOn := func() {
		t.Helper()
		from := done.Load()
		awaitUntil(t, patience, func() string {
			if n := done.Load() - from; n < 100 {
				return fmt.Sprintf("only %d actions are done", n)
			}
			return ""
		})
		nodes[0].awaitChecks(t, 4)
	}
	stop := findNothing(t, nodes)
	defer stop()
	goOn()
	proxy.Pause()
	goOn()
	proxy.Resume()
	goOn()
	save(t, server)
	goOn()
	restartOld(server)
	goOn()
	nodes[1].awaitChecks(t, 6) // longer than confirmAfter
}

// On Cluster the keys of what nodes say of themselves are on the masters of their hash slots.
func TestChecks_Cluster(t *testing.T) {
	t.Parallel() // it mostly waits
	redistest.Thorough(t)
	servers := redistest.StartCluster(t)
	a, b := newCoordinator(t, servers.Client(), reporting(4)), newCoordinator(t, servers.Client(), reporting(4))
	ids, _ := roomsOf(t, servers, 1, 2)
	watchesAll(t, []*Coordinator{a}, ids)
	for _, id := range ids {
		for i, node := range []*Coordinator{a, b} {
			mustDo(t, node, id, room.Join{User: fmt.Sprint("user", i), Session: "s"})
		}
	}
	mustMove(t, b, ids[0], ids[1], "s", "user1")
	if r := a.reportOf(t, b.Node(), func(r *NodeReport) bool { return r.Totals.Commits > 0 }); r.Node != b.Node() {
		t.Errorf("%+v", r)
	}
	b.reportOf(t, a.Node(), func(r *NodeReport) bool { return r.Checks[CheckCopies].Checked > 3*uint64(len(ids)) })
	for check, found := range a.Checks() {
		redistest.ErrorIf(t, found.Rooms > 0, "%s: %+v", check, found)
	}
	member := `{"seat":1,"session":"s","node":"n","at":1}`
	redistest.OK(t, servers.Client().HSet(t.Context(), usersOf(ids[3]), "x", member).Err())
	a.awaitDifference(t, CheckSeats, ids[3], "on seat 1")
	redistest.OK(t, a.Drain(soon(t), b.Node()))
	redistest.Receive(t, b.DrainRequested(), "the request to stop")
}
