package lobby

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
	"roomd/room/ratelog"
)

func newLobby(t testing.TB, client redis.UniversalClient) *Lobby {
	t.Helper()
	open, shut := context.WithCancel(context.Background())
	l := New(open, open, store.New(client, store.Options{}), 0, time.Second, ratelog.NewSet(slog.New(slog.DiscardHandler), time.Second))
	t.Cleanup(func() {
		shut()
		l.Close()
	})
	return l
}

// free returns the key of the free seats of rooms with those labels.
func (x *index) free(labels room.Labels) string { return x.store.Lobby("Free:" + string(labels)) }

func mustGet(t testing.TB, l *Lobby) (text string) {
	t.Helper()
	list, err := l.Get(t.Context())
	redistest.OK(t, err)
	for _, r := range list.Rooms {
		text += fmt.Sprintf("%s:%d/%d%s ", r.ID, r.Members, r.Capacity, r.Labels)
	}
	return text
}

// Whatever the order in which nodes write what they have done, the latest version of a room counts.
func TestNews_AnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		l := newLobby(t, rdb)
		mustGet(t, l)
		of := func(epoch string, version uint64, members int) *change {
			return &change{Listed: Listed{ID: "42", Epoch: epoch, Version: version, Members: members}, listed: members > 0}
		}
		for _, step := range []struct {
			change *change
			want   string
		}{
			{of("e", 2, 2), "42:2/0 "}, {of("e", 1, 1), "42:2/0 "}, {of("e", 3, 0), ""}, {of("e", 2, 2), ""},
			{of("f", 1, 1), "42:1/0 "}, {of("f", 2, 3), "42:3/0 "}, {of("f", 1, 1), "42:3/0 "},
		} {
			redistest.OK(t, l.index.note(t.Context(), []*change{step.change}))
			time.Sleep(share)
			redistest.Equal(t, fmt.Sprintf("after %+v:", step.change.Listed), mustGet(t, l), step.want)
		}
	})
}

// A node's copy of the index goes on where it was, in many pages, and begins anew where it cannot.
func TestIndex_Changes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		x := newLobby(t, rdb).index
		_, before, _, anew, err := x.changes(t.Context(), known{})
		if redistest.OK(t, err); !anew {
			t.Error("a copy of nothing goes on")
		}
		var all []*change
		for i := range 2*readChunk + 1 {
			all = append(all, &change{Listed: Listed{ID: fmt.Sprint(i), Epoch: "e", Version: 1, Members: 1, Labels: `{"a":"b"}`}, listed: true})
		}
		redistest.OK(t, x.note(t.Context(), all))
		changed, now, whole, anew, err := x.changes(t.Context(), before)
		if redistest.OK(t, err); len(changed) != len(all) || anew || whole || changed["7"].Members != 1 || changed["7"].Labels != `{"a":"b"}` || changed["7"].Since == 0 {
			t.Errorf("%d rooms, anew %v, whole %v, %+v", len(changed), anew, whole, changed["7"])
		}
		gone := &change{Listed: Listed{ID: "7", Epoch: "e", Version: 2}}
		redistest.OK(t, x.note(t.Context(), []*change{gone, all[8]}))
		changed, last, _, _, err := x.changes(t.Context(), now)
		if redistest.OK(t, err); len(changed) != 1 || changed["7"].listed {
			t.Errorf("%+v", changed)
		}
		time.Sleep(2 * goneTTL)
		_, err = x.run(t.Context(), searchScript, nil, nil, 0, 0, goneTTL.Milliseconds())
		redistest.OK(t, err)
		if rdb.HExists(t.Context(), x.keys[0], "7").Val() || rdb.ZCard(t.Context(), x.keys[2]).Val() != 0 {
			t.Error("the room that is gone is remembered")
		}
		for name, since := range map[string]known{"has not heard that a room is gone": now, "is from another life": {"x", last.number}, "is ahead": {last.run, "9999999"}} {
			if _, _, _, anew, err := x.changes(t.Context(), since); err != nil || !anew {
				t.Errorf("a copy that %s goes on, %v", name, err)
			}
		}
		if _, _, _, anew, err := x.changes(t.Context(), last); err != nil || anew {
			t.Errorf("a copy that has heard all begins anew, %v", err)
		}
	})
}

// Who waits for another list learns in which rooms it differs, also of what the node itself has done, and after a long
// time.
func TestLobby_Next(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		l, other := newLobby(t, rdb), newLobby(t, rdb).index
		mustGet(t, l) // the first search is over
		first, _, err := l.Next(t.Context(), nil)
		redistest.OK(t, err)
		note := func(id string, version int) {
			redistest.OK(t, other.note(t.Context(), []*change{{Listed: Listed{ID: id, Epoch: "e", Version: uint64(version), Members: version}, listed: true}}))
		}
		note("42", 1)
		l.news.put(&change{Listed: Listed{ID: "own", Epoch: "e", Version: 1, Members: 1}, listed: true})
		seen := map[string]bool{}
		for list := first; len(seen) < 2; {
			var ids []string
			list, ids, err = l.Next(t.Context(), list)
			redistest.OK(t, err)
			for _, id := range ids {
				seen[id] = list.Find(id) != nil
			}
		}
		if !seen["42"] || !seen["own"] {
			t.Errorf("%v", seen)
		}
		before, _, err := l.Next(t.Context(), nil)
		redistest.OK(t, err)
		for i := range 5 {
			note(fmt.Sprint("4", 2+i), 2)
			time.Sleep(share)
			mustGet(t, l)
		}
		_, ids, err := l.Next(t.Context(), before)
		redistest.OK(t, err)
		redistest.Equal(t, "after many lists they differ in", fmt.Sprint(ids), "[42 43 44 45 46]")
		ended, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for now, _, err := l.Next(t.Context(), nil); err == nil; now, _, err = l.Next(ended, now) {
		}
	})
}

// What a node has done does not stand over what another one has done later: the room that has ended there is not in the list,
// and who waits hears of it, whichever of the two is in the index first.
func TestLobby_OwnChangeIsOver(t *testing.T) {
	for _, c := range []struct {
		name  string
		epoch string // of the room that has ended
		saved bool   // the node's own change is in the index before
		shown string // at once
	}{{"later version", "e", false, ""}, {"written before", "e", true, ""}, {"another epoch", "f", true, "own:1/0 "}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, rdb := redistest.Mini(t)
				l, other := newLobby(t, rdb), newLobby(t, rdb).index
				mustGet(t, l)
				l.news.put(&change{Listed: Listed{ID: "own", Epoch: "e", Version: 1, Members: 1}, listed: true})
				list, _, err := l.Next(t.Context(), nil)
				if redistest.OK(t, err); list.Find("own") == nil {
					t.Fatal("the node does not show its own change")
				}
				if c.saved {
					redistest.OK(t, l.news.save(t.Context()))
				}
				redistest.OK(t, other.note(t.Context(), []*change{{Listed: Listed{ID: "own", Epoch: c.epoch, Version: 2}}}))
				redistest.OK(t, l.read(t.Context()))
				redistest.Equal(t, "when the index is read:", mustGet(t, l), c.shown)
				bounded, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				for gone := false; !gone; {
					now, ids, err := l.Next(bounded, list)
					redistest.OK(t, err)
					gone, list = slices.Contains(ids, "own") && now.Find("own") == nil, now
				}
			})
		})
	}
}

// Where a search does not find a room, or finds another, the index has it so afterwards. Nothing else is changed.
func TestSearch_PutsRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		l := newLobby(t, rdb)
		mustGet(t, l)
		room := func(id, epoch string, version, members int, settings string) {
			redistest.OK(t, rdb.HSet(t.Context(), "Room:"+id+":Meta", "epoch", epoch, "version", version, "members", members, "settings", settings).Err())
		}
		room("missed", "e", 3, 2, `{"capacity":4,"labels":{"a":"1"}}`)
		room("as-it-is", "e", 1, 1, `{"capacity":4}`)
		room("older", "e", 5, 4, `{"capacity":4}`)
		room("other", "f", 1, 1, `{"capacity":4}`)
		for id, version := range map[string]uint64{"as-it-is": 1, "older": 4, "other": 9, "gone": 7} {
			redistest.OK(t, l.index.note(t.Context(), []*change{{Listed: Listed{ID: id, Epoch: "e", Version: version, Members: 1, Capacity: 4}, listed: true}}))
		}
		number := rdb.ZScore(t.Context(), l.index.keys[1], "as-it-is").Val()
		time.Sleep(searchEvery + searchEvery/3 + time.Second)
		redistest.Equal(t, "afterwards:", mustGet(t, l), `as-it-is:1/4 missed:2/4{"a":"1"} older:4/4 other:1/4 `)
		redistest.Equal(t, "the room that was right:", rdb.ZScore(t.Context(), l.index.keys[1], "as-it-is").Val(), number)
		redistest.OK(t, rdb.ZAdd(t.Context(), l.index.free(`{"a":"1"}`), redis.Z{Score: 1, Member: "missed"}).Err())
		time.Sleep(searchEvery + searchEvery/3)
		redistest.Equal(t, "seats that nobody has taken:", rdb.ZScore(t.Context(), l.index.free(`{"a":"1"}`), "missed").Val(), 2)
	})
}

// However many rooms are gone, the index remembers them for a minute, and the one who is asked next forgets them all.
func TestSearch_ForgetsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		l := newLobby(t, rdb)
		mustGet(t, l)
		gone := make([]*change, 2500)
		for i := range gone {
			gone[i] = &change{Listed: Listed{ID: fmt.Sprint("gone", i), Epoch: "e", Version: 2}}
		}
		redistest.OK(t, l.index.note(t.Context(), gone))
		time.Sleep(goneTTL + searchEvery/3 + time.Second)
		for _, key := range l.index.keys[1:3] {
			redistest.Equal(t, key, rdb.ZCard(t.Context(), key).Val(), 0)
		}
		redistest.Equal(t, "rooms", rdb.HLen(t.Context(), l.index.keys[0]).Val(), 0)
	})
}

// One node at a time searches; while rooms are missing it is another one soon.
func TestSearch_OneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, _ := redistest.Mini(t)
		var scans atomic.Int32
		for range 5 {
			client := redistest.MiniClient(t, mini)
			client.AddHook(redistest.Hook{Before: func(_ context.Context, cmd redis.Cmder) error {
				if cmd.Name() == "scan" {
					scans.Add(1)
				}
				return nil
			}})
			mustGet(t, newLobby(t, client))
		}
		redistest.Equal(t, "searches by five nodes:", scans.Load(), 1)
		time.Sleep(10 * searchEvery)
		if n := scans.Load(); n < 8 || n > 11 {
			t.Errorf("%d searches in the time of ten", n)
		}
	})
}
