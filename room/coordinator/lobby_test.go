package coordinator

import (
	"context"
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
	"roomd/room/coordinator/internal/keys"
)

// How old a list may be; see package lobby.
const (
	lobbyShare  = 200 * time.Millisecond
	newsPause   = lobbyShare / 2
	lobbySearch = time.Minute // until all was compared
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
	redistest.OK(t, err)
	return describeLobby(l)
}

func TestLobby(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, rdb := onMini(t, Options{Rules: room.Rules{Seating: room.Capacity(4)}})
		redistest.Equal(t, "without a room:", mustLobby(t, c), "")
		mustDo(t, c, "b", room.Join{User: "1", Session: "s"})
		mustDo(t, c, "b", room.Join{User: "2", Session: "s"})
		mustDo(t, c, "a", room.Join{User: "1", Session: "s"})
		mustDo(t, c, "a", room.Leave{User: "1", Session: "s"})
		mustDo(t, c, "c", room.Configure{Settings: room.Settings{Capacity: 9, Closed: true, Keep: true}})
		mustDo(t, c, "d", room.Configure{Settings: room.Settings{Capacity: 2}})
		mustDo(t, c, "e", room.Join{User: "1", Session: "s"})
		mustDo(t, c, "e", room.Close{})                                           // nobody can come in: it has ended
		rdb.HSet(t.Context(), "Room:old:Meta", "version", 3, "members", 1)        // of a version without settings
		rdb.HSet(t.Context(), "Room:odd:Meta", "version", 3, "settings", "[")     // not as we write it
		rdb.HSet(t.Context(), "Room:not an id:Meta", "version", 3, "members", 1)  // nor this
		rdb.Set(t.Context(), "Room:string:Meta", "", 0)                           // nor this
		rdb.HSet(t.Context(), "Room:nothing:Meta", "by:node", "x", "members", 12) // a room without a commit
		got, want := mustLobby(t, c), "b:2/4 c:0/9 closed d:0/2"
		redistest.ErrorIf(t, got != want, "before Redis is searched again: %q, want %q", got, want)
		time.Sleep(lobbySearch)
		if got, want := mustLobby(t, c), "b:2/4 c:0/9 closed d:0/2 old:1/4"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if l, _ := c.Lobby(t.Context()); l.Rooms[0].Free() != 2 || (&Listed{Members: 1}).Free() != room.MaxSeats-1 || (&Listed{Members: 2, Capacity: 1}).Free() != 0 {
			t.Errorf("free seats of %+v", l.Rooms[0])
		}
		time.Sleep(DefaultIdle + lobbySearch)
		if got := mustLobby(t, c); strings.Contains(got, "d:0") || !strings.Contains(got, "c:") {
			t.Errorf("after the room d was forgotten, and not c, which is kept: %q", got)
		}
	})
}

func TestLobby_Fails(t *testing.T) {
	r, rdb := redistest.Mini(t)
	c := newCoordinator(t, redistest.MiniClient(t, r), Options{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newCoordinator(t, redistest.MiniClient(t, r), Options{}).Lobby(ended)
	redistest.ErrorIf(t, !errors.Is(err, context.Canceled), "a call that was given up: %v", err)
	rdb.HSet(t.Context(), unprefixed.Lobby("Rooms"), "42", "x")
	rdb.ZAdd(t.Context(), unprefixed.Lobby("Changed"), redis.Z{Score: 1, Member: "42"})
	if _, err := c.Lobby(soon(t)); !errors.Is(err, room.ErrUnavailable) || !strings.Contains(err.Error(), "room 42") {
		t.Errorf("a list that is none: %v", err)
	}
	down := newCoordinator(t, redistest.MiniClient(t, r), Options{})
	redistest.OK(t, down.Close(t.Context()))
	redistest.ErrorIs(t, "a closed coordinator", redistest.Err(down.Lobby(soon(t))), room.ErrClosed)
	r.Close()
	redistest.ErrorIs(t, "without Redis", redistest.Err(c.Lobby(soon(t))), room.ErrUnavailable)
}

// On Cluster the rooms of all masters are in the list, and those of the others where one is away.
func TestLobby_Cluster(t *testing.T) {
	t.Parallel() // it mostly waits
	servers := redistest.StartCluster(t)
	c := newCoordinator(t, servers.Client(), patient(Options{}))
	all, of := roomsOf(t, servers, 0, 5)
	for _, id := range all {
		mustDo(t, c, id, room.Join{User: "a", Session: "s"})
	}
	redistest.Until(t, "the rooms of all masters", func() bool {
		l, err := c.Lobby(soon(t))
		return err == nil && len(l.Rooms) == len(all) && !l.Truncated
	})
	home := servers.Owner(keys.Space{Cluster: true}.Lobby("Rooms"))
	for server := range of {
		if server == home {
			continue
		}
		server.Kill()
		next := newCoordinator(t, servers.Client(), patient(Options{}))
		if l, err := next.Lobby(soon(t)); err != nil || len(l.Rooms) != len(all) {
			t.Errorf("without a master: %+v, %v", l, err)
		}
		return
	}
}

// moment is how old the list of a node may be.
const moment = lobbyShare + newsPause + 50*time.Millisecond

// What one node does is in every node's list within a second: a room that begins, fills, empties, is
// configured, and ends. The node that has done it shows it at once. Redis is not searched for it.
func TestLobby_WithinASecond(t *testing.T) {
	redistest.Thorough(t)
	redistest.FatalIf(t, moment > time.Second, "a list may be %v old", moment)
	synctest.Test(t, func(t *testing.T) {
		r, rdb := redistest.Mini(t)
		searches := 0
		var nodes []*Coordinator
		for range 2 {
			client := redistest.MiniClient(t, r)
			client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
				if cmd.Name() == "scan" {
					searches++
				}
				return nil
			}})
			nodes = append(nodes, newCoordinator(t, client, Options{Rules: room.Rules{Seating: room.Capacity(4)}}))
		}
		mustLobby(t, nodes[1]) // as a page that shows the list all the time
		for try := range 5 {
			id := fmt.Sprint("table-", try)
			doer, other := nodes[try%2], nodes[1-try%2]
			for _, step := range []struct {
				action room.Action
				want   string
			}{
				{room.Join{User: "a", Session: "s"}, id + ":1/4"},
				{room.Join{User: "b", Session: "s"}, id + ":2/4"},
				{room.Leave{User: "a", Session: "s"}, id + ":1/4"},
				{room.Leave{User: "b", Session: "s"}, ""},
				{room.Configure{Settings: room.Settings{Capacity: 9}}, id + ":0/9"},
				{room.Configure{Settings: room.Settings{Capacity: 9, Closed: true, Keep: true}}, id + ":0/9 closed"},
				{room.Close{}, ""},
			} {
				mustDo(t, doer, id, step.action)
				if got := mustLobby(t, doer); got != step.want {
					t.Errorf("%s of %s: the node that did it lists %q, want %q", room.KindOf(step.action), id, got, step.want)
				}
				time.Sleep(moment)
				for name, c := range map[string]*Coordinator{"it": doer, "the other": other} {
					if got := mustLobby(t, c); got != step.want {
						t.Errorf("%s of %s: a moment later %s lists %q, want %q", room.KindOf(step.action), id, name, got, step.want)
					}
				}
			}
		}
		most := int(35*moment/(30*time.Second)) + 1
		redistest.ErrorIf(t, searches > most, "Redis was searched %d times", searches)
		mustDo(t, nodes[0], "42", room.Join{User: "a", Session: "s"})
		time.Sleep(2 * time.Hour)
		redistest.Equal(t, "a list after a long time:", mustLobby(t, nodes[1]), "42:1/4")
		rdb.Del(t.Context(), rdb.Keys(t.Context(), unprefixed.Lobby("*")).Val()...)
		mustDo(t, nodes[0], "43", room.Join{User: "a", Session: "s"})
		time.Sleep(lobbySearch)
		redistest.Equal(t, "after Redis has lost the index:", mustLobby(t, nodes[1]), "42:1/4 43:1/4")
	})
}

// A node that dies before it has told the others leaves a room out of the lists until Redis is searched
// again. One that is closed tells them.
func TestLobby_NodeHasEnded(t *testing.T) {
	for _, dies := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r, _ := redistest.Mini(t)
			client := redistest.MiniClient(t, r)
			var dead atomic.Bool
			client.AddHook(redistest.Hook{Before: func(context.Context, redis.Cmder) error {
				if dead.Load() {
					return errors.New("it is dead")
				}
				return nil
			}})
			first := newCoordinator(t, client, Options{})
			second := newCoordinator(t, redistest.MiniClient(t, r), Options{})
			mustLobby(t, second)
			mustDo(t, first, "42", room.Join{User: "a", Session: "s"})
			if dead.Store(dies); !dies {
				redistest.OK(t, first.Close(t.Context()))
			}
			time.Sleep(moment)
			if got := mustLobby(t, second); (got == "") != dies {
				t.Errorf("the node dies: %v; a moment later the other lists %q", dies, got)
			}
			time.Sleep(lobbySearch)
			got := mustLobby(t, second)
			redistest.ErrorIf(t, got != "42:1/0", "the node dies: %v; in the end the other lists %q", dies, got)
			dead.Store(false)
		})
	}
}
