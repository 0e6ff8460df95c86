package coordinator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

func ranked(capacity int) Wanted {
	return Wanted{Labels: `{"mode":"ranked"}`, Seats: 1, Settings: room.Settings{Capacity: capacity}, Prefix: "m-"}
}

// match seats a user by Match, and returns where.
func match(t *testing.T, c *Coordinator, w Wanted, user string) (id string) {
	t.Helper()
	redistest.OK(t, tryMatch(t.Context(), c, w, user, &id))
	return id
}

func tryMatch(ctx context.Context, c *Coordinator, w Wanted, user string, id *string) error {
	tries := 0
	return c.Match(ctx, w, func(ctx context.Context, found string, begin *room.Settings) (room.Result, error) {
		if tries++; tries > 10*maxMatches {
			return room.Result{}, fmt.Errorf("%d rooms were tried, and it goes on", tries)
		}
		*id = found
		return c.Do(ctx, found, room.Join{User: user, Session: "s", Begin: begin})
	})
}

func fourNodes(t *testing.T) (nodes []*Coordinator) {
	mini, _ := redistest.Mini(t)
	for range 4 {
		nodes = append(nodes, newCoordinator(t, redistest.MiniClient(t, mini), Options{}))
	}
	return nodes
}

// However many players look for a table at once, on however many nodes, all tables but one are full, and nobody is refused.
func TestMatch_FullTables(t *testing.T) {
	const players = 202
	nodes := fourNodes(t)
	var mu sync.Mutex
	tables := make(map[string]int)
	var wg sync.WaitGroup
	for i := range players {
		wg.Go(func() {
			var id string
			if err := tryMatch(soon(t), nodes[i%4], ranked(4), fmt.Sprint("u", i), &id); err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			tables[id]++
		})
	}
	wg.Wait()
	sizes := make(map[int]int)
	for n := range maps.Values(tables) {
		sizes[n]++
	}
	redistest.ErrorIf(t, len(sizes) != 2 || sizes[4] != players/4 || sizes[players%4] != 1,
		"tables by how many sit there: %v", sizes)
}

// The fullest table comes first; closed ones, those with other labels, and those that do not let this user in are passed
// over; more labels than were asked for do no harm.
func TestMatch_Choice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := fourNodes(t)
		c := nodes[0]
		w := ranked(4)
		configure := func(id string, s room.Settings, members int) {
			mustDo(t, c, id, room.Configure{Settings: s})
			for i := range members {
				mustDo(t, c, id, room.Join{User: fmt.Sprint(id, i), Session: "s"})
			}
		}
		mustLobby(t, c)
		configure("closed", room.Settings{Capacity: 9, Labels: w.Labels}, 8)
		mustDo(t, c, "closed", room.Configure{Settings: room.Settings{Capacity: 9, Labels: w.Labels, Closed: true}})
		configure("full", room.Settings{Capacity: 4, Labels: w.Labels}, 4)
		configure("other", room.Settings{Capacity: 4, Labels: `{"mode":"fast"}`}, 3)
		configure("banned", room.Settings{Capacity: 4, Labels: w.Labels}, 3)
		mustDo(t, c, "banned", room.Kick{User: "x", Until: room.Forever})
		configure("more", room.Settings{Capacity: 4, Labels: `{"mode":"ranked","region":"eu"}`}, 2)
		configure("empty", room.Settings{Capacity: 4, Labels: w.Labels}, 1)
		time.Sleep(time.Second)
		redistest.Equal(t, "who is banned from one:", match(t, nodes[1], w, "x"), "more")
		redistest.Equal(t, "another:", match(t, nodes[2], w, "y"), "banned")
		redistest.Equal(t, "the next:", match(t, nodes[3], w, "z"), "more")
		w.Seats = 3
		redistest.Equal(t, "a party:", match(t, nodes[3], w, "party"), "empty")
		mustDo(t, c, "more", room.Configure{Settings: room.Settings{Capacity: 9, Labels: `{"mode":"fast"}`}})
		got := match(t, nodes[1], w, "party2")
		redistest.ErrorIf(t, !slices.Contains([]string{"m-"}, got[:2]), "a party sits in %s", got)
	})
}

// only is for a token that allows the rooms whose ids begin so.
func only(prefix string) func(string) bool {
	return func(id string) bool { return strings.HasPrefix(id, prefix) }
}

// Who may not enter all tables finds those that are allowed, whatever others there are, and leaves the seats of the others
// to others.
func TestMatch_OnlySome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := fourNodes(t)
		mustLobby(t, nodes[0])
		for i := range 30 {
			mustDo(t, nodes[0], fmt.Sprint("t", i), room.Configure{Settings: room.Settings{Capacity: 2, Labels: ranked(2).Labels}})
		}
		mustDo(t, nodes[0], "t7", room.Join{User: "seven", Session: "s"})
		mustDo(t, nodes[0], "vip", room.Configure{Settings: room.Settings{Capacity: 9, Labels: ranked(2).Labels}})
		time.Sleep(time.Second)
		w := ranked(2)
		w.Allow, w.Prefix = only("vip"), ""
		redistest.Equal(t, "who may enter one:", match(t, nodes[1], w, "a"), "vip")
		w.Allow, w.Prefix = only("v-"), "v-"
		first := match(t, nodes[1], w, "b")
		redistest.Equal(t, "its id begins with", first[:2], "v-")
		redistest.Equal(t, "another one, at once:", match(t, nodes[2], w, "c"), first)
		next := match(t, nodes[2], w, "d")
		redistest.ErrorIf(t, next == first || next[:2] != "v-", "a third one sits in %s", next)
		w.Allow, w.Prefix = only("none"), ""
		id := ""
		err := tryMatch(t.Context(), nodes[1], w, "e", &id)
		redistest.ErrorIf(t, !errors.Is(err, room.ErrForbidden) || id != "", "who may enter none: %v in %s", err, id)
		redistest.Equal(t, "the fullest of all:", match(t, nodes[3], ranked(2), "f"), "t7")
	})
}

// Who sits at a table, and looks for one again, takes no other seat there from others.
func TestMatch_SitsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := fourNodes(t)
		first := match(t, nodes[0], ranked(4), "a")
		for range 5 {
			redistest.Equal(t, "again:", match(t, nodes[0], ranked(4), "a"), first)
			time.Sleep(time.Second)
		}
		redistest.Equal(t, "another:", match(t, nodes[1], ranked(4), "b"), first)
	})
}

// Many tables let somebody in no more. One begins.
func TestMatch_ManyRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := fourNodes(t)
		mustLobby(t, nodes[0])
		for i := range 2 * maxMatches {
			id := fmt.Sprint("t", i)
			mustDo(t, nodes[0], id, room.Configure{Settings: room.Settings{Capacity: 2, Labels: ranked(2).Labels}})
			mustDo(t, nodes[0], id, room.Kick{User: "x", Until: room.Forever})
		}
		time.Sleep(time.Second)
		redistest.Equal(t, "a table of its own:", match(t, nodes[1], ranked(2), "x")[:2], "m-")
	})
}

// A request that is sent again finds the same table. One that may have failed in a new one leaves that to others.
func TestMatch_Again(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := fourNodes(t)
		w := ranked(4)
		w.Key = "k"
		first := match(t, nodes[0], w, "a")
		redistest.Equal(t, "the same request again:", match(t, nodes[1], w, "a"), first)
		w.Labels = `{"mode":"fast"}`
		other := match(t, nodes[1], w, "a")
		redistest.ErrorIf(t, other == first, "a request for other labels, by the same name, sits in %s", other)
		w.Labels, w.Key = ranked(4).Labels, ""
		for i := range 3 {
			redistest.Equal(t, "others:", match(t, nodes[2], w, fmt.Sprint("b", i)), first)
		}
		id := refuse(t, nodes[0], w, room.ErrUnknown)
		redistest.ErrorIf(t, id == first, "found is %s, which is full", id)
		redistest.Equal(t, "the table that nobody has begun:", match(t, nodes[1], w, "c"), id)
		_, _ = nodes[0].Do(t.Context(), id, room.Leave{User: "c", Session: "s"})
		time.Sleep(10 * time.Minute)
		next := match(t, nodes[1], w, "d")
		redistest.ErrorIf(t, next == id || next == first, "a table that was forgotten is found")
	})
}

// refuse looks for a table whose join fails without reading the room, and returns which it was.
func refuse(t *testing.T, c *Coordinator, w Wanted, why error) (id string) {
	t.Helper()
	tries := 0
	err := c.Match(t.Context(), w, func(_ context.Context, found string, _ *room.Settings) (room.Result, error) {
		id = found
		if tries++; tries > maxMatches {
			return room.Result{}, errors.New("it goes on")
		}
		return room.Result{}, why
	})
	redistest.ErrorIf(t, !errors.Is(err, why), "refused with %v, not %v", err, why)
	return id
}

// indexOf returns all that the index has of rooms and claims.
func indexOf(t *testing.T, client redis.UniversalClient) string {
	t.Helper()
	keys := client.Keys(t.Context(), "Lobby:[FM]*").Val()
	slices.Sort(keys)
	all := fmt.Sprint(client.HGetAll(t.Context(), "Lobby:Rooms").Val(), keys)
	for _, key := range append(keys, "Lobby:Changed", "Lobby:Gone") {
		if !strings.HasPrefix(key, "Lobby:Match:") {
			all += fmt.Sprint(" ", key, client.ZRangeWithScores(t.Context(), key, 0, -1).Val())
		}
	}
	return all
}

// A claim whose join failed without reading the room is given back, in a new room, in one that others have claimed, and in one that
// there is. One whose join may still be carried out is not.
func TestMatch_GivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, client := redistest.Mini(t)
		var nodes []*Coordinator
		for range 3 {
			nodes = append(nodes, newCoordinator(t, redistest.MiniClient(t, mini), Options{}))
		}
		w := ranked(4)
		w.Key = "k"
		mustLobby(t, nodes[0])
		failed := errors.New("the client has gone")
		begin := indexOf(t, client)
		refuse(t, nodes[0], w, failed)
		redistest.Equal(t, "after a new room:", indexOf(t, client), begin)
		claimed := refuse(t, nodes[0], ranked(4), room.ErrUnknown)
		before := indexOf(t, client)
		redistest.Equal(t, "the same one:", refuse(t, nodes[1], w, failed), claimed)
		redistest.Equal(t, "after one that another has claimed:", indexOf(t, client), before)
		table := match(t, nodes[1], ranked(4), "a")
		time.Sleep(time.Second)
		before = indexOf(t, client)
		for range 5 {
			redistest.Equal(t, "the table:", refuse(t, nodes[2], w, room.ErrInvalid), table)
		}
		redistest.Equal(t, "after one that there is:", indexOf(t, client), before)
		_ = nodes[2].Match(t.Context(), ranked(4), func(context.Context, string, *room.Settings) (room.Result, error) {
			for _, capacity := range []int{5, 4} {
				mustDo(t, nodes[1], table, room.Configure{Settings: room.Settings{Capacity: capacity, Labels: w.Labels}})
			}
			time.Sleep(time.Second)
			return room.Result{}, failed
		})
		redistest.Equal(t, "free seats, after one that was noted meanwhile:", client.ZScore(t.Context(), "Lobby:Free:"+string(w.Labels), table).Val(), 3)
		for i := range 3 {
			redistest.Equal(t, "others:", match(t, nodes[2], ranked(4), fmt.Sprint("b", i)), table)
		}
	})
}

// What cannot be looked for is refused, and names the field.
func TestMatch_BadInput(t *testing.T) {
	c, _ := onMini(t, Options{})
	for field, change := range map[string]func(*Wanted){
		"labels":          func(w *Wanted) { w.Labels = "" },
		"labels.a":        func(w *Wanted) { w.Labels = `{"a":""}` },
		"settings.labels": func(w *Wanted) { w.Settings.Labels = `{"b":"c"}` },
		"capacity":        func(w *Wanted) { w.Settings.Capacity = -1 },
		"users":           func(w *Wanted) { w.Seats = 5 },
		"room":            func(w *Wanted) { w.Prefix = strings.Repeat("p", room.MaxIDLength-NewIDLength+1) },
	} {
		w, id := ranked(4), ""
		change(&w)
		err := tryMatch(t.Context(), c, w, "a", &id)
		invalid, is := errors.AsType[*room.InvalidError](err)
		redistest.ErrorIf(t, !is || invalid.Field != field, "%s: %v", field, err)
	}
}

// Servers that refuse keys which a script has not declared can match: also where another node has given the room other
// labels meanwhile, and where a claim in such a room is given back.
func TestMatch_DeclaresKeys(t *testing.T) {
	server := redistest.Start(t).CheckKeys()
	rdb := server.Client()
	a, b := newCoordinator(t, server.Client(), Options{}), newCoordinator(t, server.Client(), Options{})
	casual := ranked(4)
	casual.Labels = `{"mode":"casual"}`
	freeIn := func(w Wanted, room string) float64 {
		return rdb.ZScore(t.Context(), "Lobby:Free:"+string(w.Labels), room).Val()
	}
	table := match(t, a, ranked(4), "u")
	redistest.Until(t, "the table is listed", func() bool { return freeIn(ranked(4), table) == 3 })
	mustDo(t, b, table, room.Configure{Settings: room.Settings{Capacity: 3, Labels: casual.Labels}})
	redistest.Until(t, "its labels change", func() bool { return freeIn(casual, table) == 2 && freeIn(ranked(4), table) == 0 })
	_ = a.Match(t.Context(), casual, func(_ context.Context, found string, _ *room.Settings) (room.Result, error) {
		redistest.Equal(t, "the only table:", found, table)
		mustDo(t, b, table, room.Configure{Settings: room.Settings{Capacity: 4, Labels: ranked(4).Labels}})
		redistest.Until(t, "its labels change again", func() bool { return freeIn(ranked(4), table) == 3 })
		return room.Result{}, errors.New("the client has gone")
	})
	redistest.Equal(t, "free seats:", freeIn(ranked(4), table), 3)
}
