package coordinator

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
)

// harm is what can happen to one key of a room while the other one stays.
var harm = map[string]struct {
	do    func(t *testing.T, rdb *redis.Client)
	there string // who is left, for a node that does not know the room
}{
	"Users are evicted": {func(t *testing.T, rdb *redis.Client) { rdb.Del(t.Context(), "Room:42:Users") }, ""},
	"Meta is evicted":   {func(t *testing.T, rdb *redis.Client) { rdb.Del(t.Context(), "Room:42:Meta") }, "a@0 b@1 c@2"},
	"a field is removed by hand": {func(t *testing.T, rdb *redis.Client) {
		rdb.HDel(t.Context(), "Room:42:Users", "b")
	}, "a@0 c@2"},
	"a field is put in by hand": {func(t *testing.T, rdb *redis.Client) {
		rdb.HSet(t.Context(), "Room:42:Users", "x", `{"seat":7,"session":"x","node":"x","at":1}`)
	}, "a@0 b@1 c@2 x@7"},
}

// Half of a room is lost. Whatever node notices first begins a new epoch, with the room as it knows that, or else with the members
// who are there, and watchers get a snapshot.
func TestRoom_NotWhole(t *testing.T) {
	looks := map[string]struct {
		knows bool
		do    func(t *testing.T, c, other *Coordinator)
	}{
		"by an action that changes something": {true, func(t *testing.T, c, _ *Coordinator) {
			mustDo(t, c, "42", room.Join{User: "y", Session: "s", Seat: new(9)})
			mustDo(t, c, "42", room.Leave{User: "y", Session: "s"})
		}},
		"by an action that changes nothing": {true, func(t *testing.T, c, _ *Coordinator) {
			expectRefused(t, "leave", c, "42", room.Leave{User: "nobody", Session: "s"}, room.ErrNotMember)
		}},
		"by a node that has no copy": {false, func(t *testing.T, _, other *Coordinator) {
			mustDo(t, other, "42", room.Join{User: "y", Session: "s", Seat: new(9)})
			mustDo(t, other, "42", room.Leave{User: "y", Session: "s"})
		}},
		"by who only reads": {false, func(t *testing.T, _, other *Coordinator) {
			mustRead(t, other, "42")
		}},
		"by a watcher's node, whose connection was lost": {true, func(_ *testing.T, c, _ *Coordinator) {
			c.feeds.Compare(c.feeds.At("42"), room.NewRoom("42", room.Position{}, nil))
		}},
	}
	for what, h := range harm {
		for how, look := range looks {
			t.Run(what+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mini, rdb := redistest.Mini(t)
					c := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
					other := newCoordinator(t, redistest.MiniClient(t, mini), Options{})
					f, _ := follow(t, c, "42")
					for i, user := range []string{"a", "b", "c"} {
						mustDo(t, c, "42", room.Join{User: user, Session: "s"})
						f.expect(t, fmt.Sprintf("%d<%d +%s@%d", i+1, i, user, i))
					}
					before := mustRead(t, c, "42")
					h.do(t, rdb)
					look.do(t, c, other)
					time.Sleep(time.Second)
					now, err := other.store.Load(t.Context(), "42") // puts nothing right
					redistest.OK(t, err)
					s, want := now.Snapshot(), h.there
					if look.knows {
						want = "a@0 b@1 c@2"
					}
					if got := describeUsers(s.Users()); got != want || s.Epoch == before.Epoch {
						t.Errorf("it holds %q in epoch %s, after epoch %s; %q are there", got, s.Epoch, before.Epoch, want)
					}
					var last *room.Event
					told := false // a snapshot of the new epoch
					for len(f.events) > 0 {
						last = <-f.events
						told = told || last.Snapshot != nil && last.Epoch == s.Epoch
					}
					if last == nil || !told || last.Epoch != s.Epoch || last.Version != s.Version {
						t.Errorf("the watcher was told a snapshot: %v, and last %+v; the room is at version %d of %s", told, last, s.Version, s.Epoch)
					}
					if r := mustDo(t, other, "42", room.Join{User: "z", Session: "s", Seat: new(8)}); r.Epoch != s.Epoch || r.Version != s.Version+1 {
						t.Errorf("afterwards version %d of %s, after version %d of %s", r.Version, r.Epoch, s.Version, s.Epoch)
					}
				})
			})
		}
	}
}

// A room's key holds something that roomd has not written: every action fails at once, names
// the key and what to do, and changes neither the key nor the lock.
func TestRoom_ForeignKeys(t *testing.T) {
	server := redistest.Start(t) // miniredis words its errors otherwise
	for name, test := range map[string]struct {
		put  func(t *testing.T, rdb *redis.Client)
		says []string
	}{
		"the article's list": {func(t *testing.T, rdb *redis.Client) {
			rdb.Set(t.Context(), "Room:42:Users", `["张三","李四"]`, 0)
		}, []string{"Room:42:Users", "string", "张三", "rename or delete"}},
		"a list": {func(t *testing.T, rdb *redis.Client) {
			rdb.RPush(t.Context(), "Room:42:Users", "张三")
		}, []string{"Room:42:Users", "a list", "rename or delete"}},
		"another Meta": {func(t *testing.T, rdb *redis.Client) {
			rdb.Set(t.Context(), "Room:42:Meta", "{}", 0)
		}, []string{"Room:42:Meta", "string", "rename or delete"}},
		"a member of another form": {func(t *testing.T, rdb *redis.Client) {
			rdb.HSet(t.Context(), "Room:42:Users", "张三", "1")
		}, []string{"Room:42:Users", "张三", `"1"`, "rename or delete"}},
	} {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", the room was known: ", known), func(t *testing.T) {
				rdb := server.Client()
				rdb.FlushAll(t.Context())
				c := newCoordinator(t, server.Client(), Options{})
				if known {
					mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
					rdb.Del(t.Context(), "Room:42:Users", "Room:42:Meta")
				}
				test.put(t, rdb)
				before := rdb.Dump(t.Context(), "Room:42:Users").Val()
				failed := map[string]error{}
				for _, a := range []room.Action{room.Join{User: "b", Session: "s"}, room.Leave{User: "b", Session: "s"}} {
					_, failed[string(room.KindOf(a))] = c.Do(t.Context(), "42", a)
				}
				_, failed["read"] = c.Read(t.Context(), "42")
				for what, err := range failed {
					if !errors.Is(err, room.ErrUnavailable) || errors.Is(err, room.ErrUnknown) {
						t.Errorf("%s: %v", what, err)
						continue
					}
					for _, word := range test.says {
						redistest.ErrorIf(t, !strings.Contains(err.Error(), word),
							"%s does not say %q: %v", what, word, err)
					}
				}
				redistest.Equal(t, "LockRoom:42 is left over:", rdb.Exists(t.Context(), "LockRoom:42").Val(), 0)
				after := rdb.Dump(t.Context(), "Room:42:Users").Val()
				redistest.ErrorIf(t, after != before, "Room:42:Users is not what it was")
			})
		}
	}
}

// Watchers of a room that cannot be read do not keep Redis busy, and are brought up to
// date when it can be.
func TestRoom_ForeignWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, rdb := redistest.Mini(t)
		client := redistest.MiniClient(t, mini)
		var loads atomic.Int32
		beforeScript(client, store.LoadScript, func() error {
			loads.Add(1)
			return nil
		})
		c := newCoordinator(t, client, Options{})
		f, _ := follow(t, c, "42")
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		f.expect(t, "1<0 +a@0")
		whole := rdb.HGet(t.Context(), "Room:42:Users", "a").Val()
		rdb.HSet(t.Context(), "Room:42:Users", "a", "1")
		rdb.Publish(t.Context(), "Room:42:Events", "{") // not readable either: a snapshot is wanted
		time.Sleep(time.Minute)
		n := loads.Load()
		redistest.ErrorIf(t, n > 15, "it was read %d times in a minute", n)
		rdb.HSet(t.Context(), "Room:42:Users", "a", whole)
		time.Sleep(10 * time.Second)
		f.expect(t, "1= a@0")
	})
}

// A key that another program has written is named, whichever it is: trying again does not help.
func TestForeign_EachKey(t *testing.T) {
	t.Parallel()
	join := func(t *testing.T, c *Coordinator) error {
		_, err := c.Do(soon(t), "42", room.Join{User: "a", Session: "s"})
		return err
	}
	for _, test := range []struct {
		key string
		do  func(t *testing.T, c *Coordinator) error
	}{
		{"LockRoom:42:Queue", join},
		{"Room:42:Users", join},
		{"Room:42:Meta", join},
		{"Timers:due", func(t *testing.T, c *Coordinator) error {
			_, err := c.Do(soon(t), "42", room.SetTimer{Name: "x", In: time.Hour.Milliseconds()})
			return err
		}},
		{"Lobby:State", func(t *testing.T, c *Coordinator) error { _, err := c.Lobby(soon(t)); return err }},
		{"Nodes", func(t *testing.T, c *Coordinator) error { _, err := c.Nodes(soon(t)); return err }},
	} {
		t.Run(test.key, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			c := newCoordinator(t, server.Client(), Options{})
			redistest.OK(t, server.Client().Del(t.Context(), test.key).Err())
			redistest.OK(t, server.Client().SAdd(t.Context(), test.key, "another").Err())
			if err := test.do(t, c); !errors.Is(err, room.ErrForeign) || !strings.Contains(err.Error(), test.key+" is a set and not a ") {
				t.Errorf("%v", err)
			}
			shared := !strings.Contains(test.key, "42")
			if err := c.Check(soon(t)); errors.Is(err, room.ErrForeign) != shared {
				t.Errorf("before it begins a node says %v", err)
			}
		})
	}
}
