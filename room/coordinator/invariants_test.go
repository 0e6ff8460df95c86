package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

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
	if err := c.Start(soon(t)); err != nil {
		t.Fatal(err)
	}
	return c
}

// watchedRoom has a node watch a room with three members on four seats.
func watchedRoom(t *testing.T, c *Coordinator, id string) {
	t.Helper()
	stop, err := c.Watch(soon(t), id, func(*room.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for _, user := range []string{"a", "b", "c"} {
		mustDo(t, c, id, room.Join(user, "session"))
	}
	mustDo(t, c, id, room.SetData(`{"pot":1}`))
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
func TestDeliberateDamageIsFound(t *testing.T) {
	t.Parallel() // it mostly waits
	rdb := redistest.Start(t).Client()
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
		"other-settings":     {[]any{"hset", "Meta", "settings", `{"capacity":5}`}, []any{"hset", "Meta", "settings", `{"capacity":4}`}, CheckCopies, "the settings are"},
		"other-data":         {[]any{"hset", "Meta", "data", `{"version":4,"value":2}`}, nil, CheckCopies, "the data is"},
		"a-later-version":    {[]any{"hset", "Meta", "version", "99"}, []any{"hset", "Meta", "version", "4"}, CheckVersions, "Redis is at version 99"},
		"an-earlier-version": {[]any{"hset", "Meta", "version", "2"}, []any{"hset", "Meta", "version", "4"}, CheckVersions, "was followed by version 2"},
		"no-version-at-all":  {[]any{"hset", "Meta", "version", "-5"}, []any{"hset", "Meta", "version", "4"}, CheckCopies, `holds "-5"`},
		"another-mark":       {[]any{"hset", "Meta", "mark", "x"}, nil, CheckVersions, "with other content"},
		"another-epoch":      {[]any{"hset", "Meta", "epoch", "x"}, nil, CheckVersions, `epoch "x"`},
		"no-member-at-all":   {[]any{"hset", "Users", "b", "garbage"}, nil, CheckCopies, "is no member as roomd writes it"},
		"the-room-is-gone":   {[]any{"del", "Meta"}, nil, CheckVersions, "Redis is at version 0"},
	}
	run := func(id string, command []any) {
		t.Helper()
		command[1] = "Room:" + id + ":" + command[1].(string)
		if err := rdb.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for id := range kinds {
		watchedRoom(t, c, id)
	}
	c.awaitChecks(t, 2*uint64(len(kinds)))
	for check, found := range c.Checks() {
		if found.Rooms > 0 {
			t.Fatalf("before the damage %s: %+v", check, found)
		}
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
}
