package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/relay"
	"roomd/room/coordinator/internal/store"
)

// withFeed are the options of a coordinator that adds to the feed.
var withFeed = Options{Journal: 1000, Feed: 100_000}

// listener reads the feed, and checks that each room's commits come in order and without gaps.
type listener struct {
	t     testing.TB
	c     *Coordinator
	next  string
	rooms map[string][]FeedEntry // without repetitions
	gaps  []FeedEntry
	lists []FeedList
	jumps map[string]bool // rooms with a gap behind their last commit
	again int             // repetitions
}

func listen(t testing.TB, c *Coordinator) *listener {
	return &listener{t: t, c: c, rooms: make(map[string][]FeedEntry), jumps: make(map[string]bool)}
}

// read reads one page.
func (l *listener) read(limit int) {
	l.t.Helper()
	page, err := l.c.Feed(soon(l.t), l.next, limit, func(string) bool { return true })
	redistest.OK(l.t, err)
	l.next = page.Next
	for _, e := range page.Entries {
		l.hear(e)
	}
}

func (l *listener) hear(e FeedEntry) {
	if e.Gap != nil && e.Room == "" {
		l.lists = append(l.lists, e.Gap.List)
		return
	}
	if e.Gap != nil {
		l.gaps, l.jumps[e.Room] = append(l.gaps, e), true
		return
	}
	list := l.rooms[e.Room]
	if slices.ContainsFunc(list, func(o FeedEntry) bool { return o.Epoch == e.Epoch && o.Version == e.Version }) {
		l.again++
		return
	}
	if n := len(list); n > 0 && list[n-1].Epoch == e.Epoch && e.Version != list[n-1].Version+1 && !l.jumps[e.Room] {
		l.t.Errorf("room %s: version %d comes behind %d", e.Room, e.Version, list[n-1].Version)
	}
	l.rooms[e.Room], l.jumps[e.Room] = append(list, e), false
}

// until reads until a room has come to a position.
func (l *listener) until(id string, at room.Position) {
	l.t.Helper()
	awaitUntil(l.t, patience, func() string {
		l.read(MaxFeedPage)
		if slices.ContainsFunc(l.rooms[id], func(e FeedEntry) bool { return e.Epoch == at.Epoch && e.Version == at.Version }) {
			return ""
		}
		return fmt.Sprintf("the feed does not have room %s at %+v, but %d entries and %d gaps", id, at, len(l.rooms[id]), len(l.gaps))
	})
}

func (l *listener) versions(id string) (list string) {
	for _, e := range l.rooms[id] {
		list += fmt.Sprintf("%d %s, ", e.Version, describeChanges(e.Changes))
	}
	return list
}

func at(t testing.TB, c *Coordinator, id string) room.Position {
	t.Helper()
	r, err := c.store.Load(soon(t), id)
	redistest.OK(t, err)
	return r.Position
}

// The feed has each commit of all rooms, by whichever node, in the order of its room, also that by which the last one leaves,
// and it goes on with another epoch when the room begins anew.
func TestFeed(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		a, b := newCoordinator(t, client(), withFeed), newCoordinator(t, client(), withFeed)
		mustDo(t, a, "42", room.Join{User: "a", Session: "s"})
		mustDo(t, b, "42", room.Join{User: "b", Session: "s"})
		mustDo(t, b, "43", room.Join{User: "b", Session: "s"})
		mustDo(t, a, "42", room.Leave{User: "a", Session: "s"})
		mustDo(t, b, "42", room.Leave{User: "b", Session: "s"})
		l := listen(t, a)
		l.until("42", at(t, a, "42"))
		l.until("43", at(t, a, "43"))
		redistest.Equal(t, "room 42:", l.versions("42"), "1 +a@0, 2 +b@1, 3 -a@0, 4 -b@1, ")
		rdb, keys := client(), a.store.KeysOf("42")
		redistest.OK(t, rdb.Del(t.Context(), keys.Users, keys.Meta).Err()) // as when they expire
		mustDo(t, a, "42", room.Join{User: "c", Session: "s"})
		l.until("42", at(t, a, "42"))
		if redistest.Equal(t, "and anew:", l.versions("42"), "1 +a@0, 2 +b@1, 3 -a@0, 4 -b@1, 1 +c@0, "); len(l.gaps) > 0 || l.again > 0 {
			t.Errorf("%d gaps, %d again", len(l.gaps), l.again)
		}
		small := listen(t, b)
		for range 20 {
			small.read(1)
		}
		redistest.Equal(t, "by pages of one:", small.versions("42"), l.versions("42"))
		whole := listen(t, a)
		whole.next = "0-0"
		whole.read(100)
		if redistest.Equal(t, "marks of the list:", fmt.Sprint(whole.lists), "[begin end]"); len(whole.gaps) != 2 || whole.next != small.next {
			t.Errorf("%d of two rooms are listed, and it goes on from %s", len(whole.gaps), whole.next)
		}
		some, err := a.Feed(soon(t), "", 100, func(id string) bool { return id == "43" })
		if redistest.OK(t, err); len(some.Entries) != 1 || some.Entries[0].Room != "43" || some.Next != l.next {
			t.Errorf("of room 43: %+v", some)
		}
		for field, fails := range map[string]func() error{
			"limit": func() error { _, err := a.Feed(soon(t), "", 0, nil); return err },
			"after": func() error { _, err := a.Feed(soon(t), "7", 1, nil); return err },
		} {
			checkInvalid(t, fails(), field, "")
		}
	})
}

// Where a journal has dropped commits before they were copied, the feed says which, and shows the room.
func TestFeed_JournalTrimmed(t *testing.T) {
	rdb := redistest.Start(t).Client()
	silent := newCoordinator(t, rdb, Options{Journal: 1000}) // it has no feed
	mustDo(t, silent, "42", room.Join{User: "a", Session: "s"})
	reader := newCoordinator(t, rdb, withFeed)
	l := listen(t, reader)
	mustDo(t, reader, "42", room.Join{User: "b", Session: "s"})
	l.until("42", at(t, reader, "42"))
	for range 5 {
		mustDo(t, silent, "42", room.Join{User: "c", Session: "s"})
		mustDo(t, silent, "42", room.Leave{User: "c", Session: "s"})
	}
	redistest.OK(t, rdb.XTrimMaxLen(t.Context(), reader.store.KeysOf("42").Log, 2).Err())
	mustDo(t, reader, "42", room.Leave{User: "b", Session: "s"})
	now := at(t, reader, "42")
	awaitUntil(t, patience, func() string {
		l.read(100)
		if len(l.gaps) == 0 {
			return "there is no gap"
		}
		return ""
	})
	if g := l.gaps[0].Gap; len(l.gaps) != 1 || g.After.Version != 2 || g.Before.Version != 11 || g.Before.Epoch != now.Epoch || g.After.Epoch != now.Epoch || g.Now == nil || g.Now.Version != 13 {
		t.Errorf("%d gaps: %+v", len(l.gaps), l.gaps[0].Gap)
	}
}

// Another server takes over which lacks the journal's end, and whose clock is behind: what is committed there comes into the feed,
// wherever its ids are, also if one is that of an entry which is in the feed.
func TestFeed_JournalLosesItsEnd(t *testing.T) {
	for name, same := range map[string]bool{"smaller ids": false, "the same ids": true} {
		t.Run(name, func(t *testing.T) {
			rdb := redistest.Start(t).Client()
			c := newCoordinator(t, rdb, withFeed)
			l := listen(t, c)
			for _, user := range []string{"a", "b", "c"} {
				mustDo(t, c, "42", room.Join{User: user, Session: "s"})
			}
			l.until("42", at(t, c, "42"))
			log := c.store.KeysOf("42").Log
			had, err := rdb.XRange(t.Context(), log, "-", "+").Result()
			redistest.OK(t, err)
			before, _, err := store.ParseEntry(had[1])
			redistest.OK(t, err)
			text := func(version int, mark, prev string) string {
				return fmt.Sprintf(`{"epoch":"later","version":%d,"mark":"%s","prev":"%s","node":"n","changes":[]}`, version, mark, prev)
			}
			redistest.OK(t, rdb.Del(t.Context(), log).Err())
			ms, _, _ := strings.Cut(had[2].ID, "-")
			ids := []string{"1-0", "2-0", "3-0", ms + "000-0"}
			if same {
				ids = []string{had[0].ID, had[1].ID, had[2].ID, ms + "000-0"}
			}
			for i, entry := range []any{had[0].Values[store.JournalField], had[1].Values[store.JournalField], text(3, "one", before.CommitID), text(4, "two", "one")} {
				redistest.OK(t, rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: log, ID: ids[i], Values: []any{store.JournalField, entry}}).Err())
			}
			c.relay.Committed("42")
			l.until("42", room.Position{Epoch: "later", Version: 4})
			if redistest.Equal(t, "the feed has", l.versions("42"), "1 +a@0, 2 +b@1, 3 +c@2, 3 , 4 , "); len(l.gaps) > 0 {
				t.Errorf("%d gaps: %+v", len(l.gaps), l.gaps[0].Gap)
			}
		})
	}
}

// A reader that comes back after what it has not read was dropped gets all rooms as they are, and goes on behind them.
func TestFeed_Dropped(t *testing.T) {
	rdb := redistest.Start(t).Client()
	c := newCoordinator(t, rdb, withFeed)
	l := listen(t, c)
	mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	l.until("42", at(t, c, "42"))
	mustDo(t, c, "42", room.Leave{User: "a", Session: "s"})
	mustDo(t, c, "43", room.Join{User: "a", Session: "s"})
	other := listen(t, c)
	other.until("42", at(t, c, "42"))
	other.until("43", at(t, c, "43"))
	redistest.OK(t, rdb.XTrimMaxLen(t.Context(), relay.KeysOf(unprefixed).Entries, 1).Err())
	for range 3 {
		l.read(100)
	}
	seen := make(map[string]uint64)
	for _, g := range l.gaps {
		seen[g.Room] = g.Gap.Now.Version
	}
	redistest.ErrorIf(t, len(l.gaps) != 2 || seen["42"] != 2 || seen["43"] != 1 || l.next != other.next,
		"%d gaps, the rooms are at %v; it goes on from %s instead of %s", len(l.gaps), seen, l.next, other.next)
	redistest.Equal(t, "marks of the list:", fmt.Sprint(l.lists), "[begin end]")
}

// A Redis that has lost the end of the feed, and whose clock is behind, gives no place to another entry that a reader has come to:
// the last entry that is left may be far ahead of the clock, or long ago, and what comes first may append nothing.
func TestFeed_LosesItsEnd(t *testing.T) {
	for name, left := range map[string]time.Duration{"written when the clock was ahead": time.Hour, "written long ago": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			rdb, keys := server.Client(), relay.KeysOf(unprefixed)
			now, err := rdb.Time(t.Context()).Result()
			redistest.OK(t, err)
			add := func(at time.Duration) {
				t.Helper()
				redistest.OK(t, rdb.XAdd(t.Context(), &redis.XAddArgs{
					Stream: keys.Entries, ID: fmt.Sprint(now.Add(at).UnixMilli(), "-0"), Values: []any{"room", "41", "at", "1-0", "gap", "{}"},
				}).Err())
			}
			add(left)
			redistest.OK(t, rdb.HSet(t.Context(), keys.Rooms, "41", "1-0 e 1 c").Err())
			save(t, server)
			// by a server whose clock was ahead, or that went on beside this one
			add(max(left, 0) + 23*time.Hour + 30*time.Minute)
			c := newCoordinator(t, rdb, withFeed)
			l := listen(t, c)
			l.read(MaxFeedPage)
			restartOld(server)
			awaitUntil(t, patience, func() string {
				if _, err := c.store.Run(soon(t), relay.AppendScript, []string{keys.Entries, keys.Rooms}, 1000, "41", "1-0 e 1 c", "", 0); err != nil {
					return err.Error() // a room is forgotten
				}
				return ""
			})
			l.read(MaxFeedPage) // before the feed goes on
			for _, user := range []string{"a", "b"} {
				mustDo(t, c, "42", room.Join{User: user, Session: "s"})
			}
			l.until("42", at(t, c, "42"))
			redistest.Equal(t, "it has heard", l.versions("42")+fmt.Sprint(l.lists), "1 +a@0, 2 +b@1, []")
		})
	}
}

// A place that the feed does not have any more, or never had, is none to go on from.
func TestFeed_PlaceBeyondItsEnd(t *testing.T) {
	onBoth(t, func(t *testing.T, client func() *redis.Client) {
		c := newCoordinator(t, client(), withFeed)
		mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
		l := listen(t, c)
		l.until("42", at(t, c, "42"))
		for _, place := range []string{"99999999999999-0", "9999999999999999999-9999999999999999999", "1-0~123"} {
			l.next, l.lists = place, nil
			l.read(MaxFeedPage)
			redistest.Equal(t, "marks of the list behind "+place, fmt.Sprint(l.lists), "[begin end]")
		}
	})
}

// Entries of a journal that nobody can read are passed over, with a gap, however many they are.
func TestFeed_UnreadableJournal(t *testing.T) {
	rdb := redistest.Start(t).Client()
	c := newCoordinator(t, rdb, withFeed)
	mustDo(t, c, "43", room.Join{User: "a", Session: "s"}) // the node begins to copy
	var last string
	for range 250 {
		id, err := rdb.XAdd(t.Context(), &redis.XAddArgs{Stream: c.store.KeysOf("42").Log, Values: []any{"line", "of another program"}}).Result()
		redistest.OK(t, err)
		last = id
	}
	c.relay.Committed("42")
	redistest.Until(t, "the feed is beyond them", func() bool {
		return strings.HasPrefix(rdb.HGet(t.Context(), relay.KeysOf(c.store.Space).Rooms, "42").Val(), last)
	})
	mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	l := listen(t, c)
	l.until("42", at(t, c, "42"))
	if redistest.Equal(t, "it has heard", l.versions("42"), "1 +a@0, "); len(l.gaps) != 1 {
		t.Errorf("%d gaps", len(l.gaps))
	}
}

// A list of all rooms that Redis is restarted in begins again: else it would leave out rooms of which nobody told the reader.
func TestFeed_RestartInList(t *testing.T) {
	server := redistest.Start(t, "--hash-max-listpack-entries", "8")
	c := newCoordinator(t, server.Client(), withFeed)
	mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	l := listen(t, c)
	l.until("42", at(t, c, "42"))
	const rooms = 1000 // the order of a restarted server's hash is another one
	var places []any
	for i := range rooms {
		places = append(places, fmt.Sprint("old", i), "1-0 e 1 c")
	}
	redistest.OK(t, server.Client().HSet(t.Context(), relay.KeysOf(unprefixed).Rooms, places...).Err())
	save(t, server)
	l.next = "0-0"
	for range 4 {
		l.read(100)
	}
	before := len(l.gaps)
	if restartOld(server); before < 100 || before > rooms/2 {
		t.Fatalf("%d rooms are listed before the restart", before)
	}
	awaitUntil(t, patience, func() string {
		page, err := c.Feed(soon(t), l.next, 100, func(string) bool { return true })
		if err != nil {
			return err.Error()
		}
		if l.next = page.Next; len(l.lists) == 1 {
			l.gaps = nil // who hears the beginning begins anew
		}
		for _, e := range page.Entries {
			l.hear(e)
		}
		if n := len(l.lists); l.lists[n-1] != FeedListEnds {
			return fmt.Sprint("the list has not ended: ", l.lists)
		}
		return ""
	})
	seen := make(map[string]bool)
	for _, g := range l.gaps {
		seen[g.Room] = true
	}
	if redistest.Equal(t, "marks of the list:", fmt.Sprint(l.lists), "[begin begin end]"); len(seen) != rooms+1 {
		t.Errorf("behind the restart %d of %d rooms are listed", len(seen), rooms+1)
	}
}

// What a node has not copied before it died, another one finds. Nobody has to use the room again.
func TestFeed_NodeDies(t *testing.T) {
	rdb := redistest.Start(t).Client()
	dead := newCoordinator(t, rdb, Options{Journal: 1000}) // like one that dies after each commit
	mustDo(t, dead, "42", room.Join{User: "a", Session: "s"})
	mustDo(t, dead, "42", room.Leave{User: "a", Session: "s"})
	ttl := rdb.PTTL(t.Context(), dead.store.KeysOf("42").Log).Val()
	redistest.ErrorIf(t, ttl <= 0, "the journal of an empty room stays for %v", ttl)
	c := newCoordinator(t, rdb, withFeed)
	redistest.OK(t, c.Start(soon(t)))
	l := listen(t, c)
	l.until("42", at(t, c, "42"))
	mustDo(t, c, "42", room.Join{User: "a", Session: "s"})
	mustDo(t, c, "42", room.Leave{User: "a", Session: "s"})
	keys := c.store.KeysOf("42")
	if meta, log := rdb.PTTL(t.Context(), keys.Meta).Val(), rdb.PTTL(t.Context(), keys.Log).Val(); log < DefaultIdle/2 || meta > DefaultIdle/2 {
		t.Errorf("with a feed the journal of an empty room stays for %v, and the room for %v", log, meta)
	}
}

// The same on a Cluster, where the feed and the rooms are on different masters.
func TestFeed_Cluster(t *testing.T) {
	redistest.Thorough(t)
	cluster := redistest.StartCluster(t)
	var nodes []*Coordinator
	for range 3 {
		nodes = append(nodes, newCoordinator(t, cluster.Client(), withFeed))
	}
	last := make(map[string]uint64)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for n := range 9 {
		wg.Go(func() {
			for i := range 40 {
				id := fmt.Sprint((n + i) % 7)
				r, err := nodes[n%3].Do(context.WithoutCancel(t.Context()), id, room.Join{User: fmt.Sprint(n, "-", i), Session: "s"})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				last[id] = max(last[id], r.Version)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	l := listen(t, nodes[0])
	for id := range last {
		l.until(id, at(t, nodes[1], id))
		redistest.ErrorIf(t, int(last[id]) != len(l.rooms[id]),
			"room %s has come to version %d, the feed has %d commits", id, last[id], len(l.rooms[id]))
	}
	redistest.ErrorIf(t, len(l.gaps) > 0 || l.again > 0, "%d gaps, %d again", len(l.gaps), l.again)
}
