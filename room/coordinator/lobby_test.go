package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// describeLobby writes each room as id:members/capacity.
func describeLobby(l *Lobby) string {
	list := make([]string, len(l.Rooms))
	for i, r := range l.Rooms {
		list[i] = fmt.Sprintf("%s:%d/%d", r.ID, r.Members, r.Capacity)
		if r.Closed {
			list[i] += " closed"
		}
	}
	if l.Truncated {
		list = append(list, "…")
	}
	return strings.Join(list, " ")
}

func mustLobby(t *testing.T, c *Coordinator) string {
	t.Helper()
	l, err := c.Lobby(soon(t))
	if err != nil {
		t.Fatal(err)
	}
	return describeLobby(l)
}

func TestLobby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		c := newCoordinator(t, rdb, Options{Rules: room.Rules{Seating: room.Capacity(4)}})
		if got := mustLobby(t, c); got != "" {
			t.Errorf("without a room: %s", got)
		}
		mustDo(t, c, "b", room.Join("1", "s"))
		mustDo(t, c, "b", room.Join("2", "s"))
		mustDo(t, c, "a", room.Join("1", "s"))
		mustDo(t, c, "a", room.Leave("1", "s"))
		mustDo(t, c, "c", room.Configure(room.Settings{Capacity: 9, Closed: true, Keep: true}))
		rdb.HSet(t.Context(), "Room:old:Meta", "version", 3, "members", 1)        // of a version without settings
		rdb.HSet(t.Context(), "Room:odd:Meta", "version", 3, "settings", "[")     // not as we write it
		rdb.HSet(t.Context(), "Room:not an id:Meta", "version", 3, "members", 1)  // nor this
		rdb.Set(t.Context(), "Room:string:Meta", "", 0)                           // nor this
		rdb.HSet(t.Context(), "Room:nothing:Meta", "by:node", "x", "members", 12) // a room without a commit
		if got := mustLobby(t, c); got != "" {
			t.Errorf("a fresh list is not made again: %s", got)
		}
		time.Sleep(lobbyFresh + lobbyStale)
		if got, want := mustLobby(t, c), "a:0/4 b:2/4 c:0/9 closed old:1/4"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if l, _ := c.Lobby(t.Context()); l.Rooms[1].Free() != 2 || (&Listed{Members: 1}).Free() != room.MaxSeats-1 || (&Listed{Members: 2, Capacity: 1}).Free() != 0 {
			t.Errorf("free seats of %+v", l.Rooms[1])
		}
		time.Sleep(DefaultIdle + lobbyFresh + lobbyStale)
		if got := mustLobby(t, c); strings.Contains(got, "a:") || !strings.Contains(got, "c:") {
			t.Errorf("after the room a was forgotten, and not c, which is kept: %q", got)
		}
	})
}

// However many clients ask however many nodes in the moment in which the list is too old, Redis is
// searched once, and each node decodes the list once.
func TestLobbyIsMadeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, rdb := redistest.Mini(t)
		var scans, held atomic.Int32
		var nodes []*Coordinator
		for range 3 {
			client := redistest.MiniClient(t, r)
			client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
				if cmd.Name() == "scan" {
					scans.Add(1)
					time.Sleep(50 * time.Millisecond) // so that all of them come meanwhile
				}
				return nil
			}})
			nodes = append(nodes, newCoordinator(t, client, Options{Rules: room.Rules{Seating: room.Capacity(4)}}))
		}
		mustDo(t, nodes[0], "42", room.Join("a", "s"))
		for round, pause := range []time.Duration{0, lobbyFresh, lobbyFresh + lobbyStale, lobbyFresh} {
			rdb.HSet(t.Context(), "Room:42:Meta", "members", round+1)
			time.Sleep(pause)
			scans.Store(0)
			var shown [3]sync.Map
			var wg sync.WaitGroup
			for i := range 1000 {
				wg.Go(func() {
					l, err := nodes[i%3].Lobby(soon(t))
					if err != nil {
						t.Error(err)
						return
					}
					if _, others := shown[i%3].LoadOrStore(l, true); !others {
						held.Add(1)
					}
				})
			}
			wg.Wait()
			time.Sleep(100 * time.Millisecond) // the load in the background
			synctest.Wait()
			if scans.Load() != 1 {
				t.Errorf("round %d: 1,000 requests searched Redis %d times", round, scans.Load())
			}
			if n := held.Swap(0); n > 3 {
				t.Errorf("round %d: three nodes hold %d lists", round, n)
			}
			time.Sleep(lobbyShare)
			if got, want := mustLobby(t, nodes[round%3]), fmt.Sprintf("42:%d/4", round+1); got != want {
				t.Errorf("round %d: %s, want %s", round, got, want)
			}
		}
	})
}

// A search stops at so many rooms, and says so.
func TestLobbyIsBounded(t *testing.T) {
	_, rdb := redistest.Mini(t)
	c := newCoordinator(t, rdb, Options{})
	for i := range 10 {
		mustDo(t, c, fmt.Sprint(i), room.Join("a", "s"))
	}
	for most, want := range map[int]bool{9: false, 10: true, 11: true} {
		rooms, whole, err := c.store.list(soon(t), most, 0)
		if err != nil || whole != want || len(rooms) < min(most, 10) {
			t.Errorf("at most %d: %d rooms, whole: %v, %v", most, len(rooms), whole, err)
		}
	}
	s := search{max: 100, end: time.Now().Add(-time.Second), whole: true}
	if s.add(nil, false) || s.whole {
		t.Error("a search whose time is over goes on, or calls itself whole")
	}
	s = search{max: 100, end: s.end, whole: true}
	if s.add(nil, true); !s.whole {
		t.Error("a search that has found all calls itself unfinished")
	}
}

func TestLobbyFails(t *testing.T) {
	r, rdb := redistest.Mini(t)
	c := newCoordinator(t, rdb, Options{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Lobby(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that was given up: %v", err)
	}
	rdb.HSet(t.Context(), lobbyPrefix+lobbyKey, "value", "{", "by", "x", "at", time.Now().UnixMicro())
	if _, err := c.Lobby(soon(t)); !errors.Is(err, room.ErrUnavailable) || !strings.Contains(err.Error(), "Lobby:rooms") {
		t.Errorf("a list that is none: %v", err)
	}
	down := newCoordinator(t, redistest.MiniClient(t, r), Options{})
	if err := down.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := down.Lobby(soon(t)); !errors.Is(err, room.ErrClosed) {
		t.Errorf("a closed coordinator: %v", err)
	}
	r.Close()
	if _, err := c.Lobby(soon(t)); !errors.Is(err, room.ErrUnavailable) {
		t.Errorf("without Redis: %v", err)
	}
}

// On Cluster the rooms of all masters are in the list, and those of the others where one is away.
func TestLobbyOfACluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	c := newCoordinator(t, cluster.Client(), patient(Options{}))
	all, of := roomsOf(t, cluster, 0, 5)
	for _, id := range all {
		mustDo(t, c, id, room.Join("a", "s"))
	}
	rooms, whole, err := c.store.list(soon(t), 100, 0)
	if err != nil || !whole || len(rooms) != len(all) {
		t.Errorf("%d rooms, whole: %v, %v; want %d", len(rooms), whole, err, len(all))
	}
	l, err := c.Lobby(soon(t))
	if err != nil || len(l.Rooms) != len(all) || l.Truncated || !slices.IsSortedFunc(l.Rooms, func(a, b Listed) int { return strings.Compare(a.ID, b.ID) }) {
		t.Errorf("%+v, %v", l, err)
	}
	home := cluster.Owner(lobbyPrefix + "{" + lobbyKey + "}")
	for server := range of {
		if server == home {
			continue
		}
		server.Kill()
		rooms, whole, err = c.store.list(soon(t), 100, 0)
		if err != nil || whole || len(rooms) != len(all)-len(of[server]) {
			t.Errorf("without a master: %d rooms, whole: %v, %v", len(rooms), whole, err)
		}
		return
	}
}
