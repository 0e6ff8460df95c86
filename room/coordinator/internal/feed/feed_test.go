package feed

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"roomd/lockmgr/redisconn/pubsub"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator/internal/store"
	"roomd/room/ratelog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newFeeds(client redis.UniversalClient) *Feeds {
	return New(pubsub.New(client, nil), store.New(client, store.Options{}), nothingIsLost{}, nil, ratelog.NewSet(slog.New(slog.DiscardHandler), time.Second))
}

// nothingIsLost are Repairs that are not needed.
type nothingIsLost struct{ Repairs }

func (nothingIsLost) KeptNames() []string { return nil }

// changesAt returns the event of a version with those updates.
func changesAt(epoch string, version uint64, updates ...room.Update) *room.Event {
	return (&room.Commit{Position: room.Position{Epoch: epoch, Version: version}, Node: "writer", Updates: updates}).Event("42")
}

// Events that a snapshot stands for are not published after it, but they show who was
// replaced.
func TestFeed_HeldEventsShowWhoWasReplaced(t *testing.T) {
	f := newFeed("42")
	var told []*room.Event
	f.add(&watch{fn: func(e *room.Event) { told = append(told, e) }})
	f.receive(changesAt("e", 1, room.Update{Type: room.KindJoin, User: "a", Session: "s"}), 100)
	f.interrupt()
	f.receive(changesAt("e", 3, room.Update{Type: "replace", User: "a", Session: "new", Old: "s"}), 100)
	f.receive(changesAt("e", 4, room.Update{Type: room.KindLeave, User: "a"}), 100)
	f.receive(changesAt("e", 5, room.Update{Type: room.KindJoin, User: "b", Session: "s"}), 100)
	f.resume(room.NewRoom("42", room.Position{Epoch: "e", Version: 4}, map[string]room.Member{}), nil)
	if len(told) != 3 || told[1].Snapshot == nil || told[2].Version != 5 {
		t.Fatalf("told %+v", told)
	}
	if missed := told[1].Missed; len(missed) != 3 || missed[0].Version != 3 {
		t.Errorf("the snapshot has missed %d events, not versions 3 to 5", len(missed))
	}
}

// An event that comes again, as the node's own do from Redis, is not published again, and nothing is missing before it.
func TestFeed_KnownEvents(t *testing.T) {
	f := newFeed("42")
	told := 0
	f.add(&watch{fn: func(*room.Event) { told++ }})
	for i, version := range []uint64{7, 7, 8, 7, 8} {
		if f.receive(changesAt("e", version), 100) {
			t.Errorf("event %d, of version %d, needs a snapshot", i, version)
		}
	}
	redistest.Equal(t, "events", told, 2)
}

// A node's new name is published at once, also while a snapshot is read, and needs none.
func TestFeed_NewNameAtOnce(t *testing.T) {
	f := newFeed("42")
	var told []*room.Event
	f.add(&watch{fn: func(e *room.Event) { told = append(told, e) }})
	f.receive(changesAt("e", 7), 100)
	f.interrupt()
	f.rejoin()
	if e := told[len(told)-1]; !e.Rejoin || e.Version != 7 || e.From != 7 || e.Snapshot != nil || len(e.Changes) != 0 {
		t.Errorf("told %+v", e)
	}
}

// What a feed holds back is bounded, in events and in bytes. What it drops leads to another
// snapshot.
func TestFeed_HeldEventsAreBounded(t *testing.T) {
	for name, size := range map[string]int{"events": 1, "bytes": maxHeldBytes / 10} {
		f := newFeed("42")
		var told []*room.Event
		f.add(&watch{fn: func(e *room.Event) { told = append(told, e) }})
		f.receive(changesAt("e", 1), size)
		f.interrupt()
		const last = 3 * maxHeld
		for v := range uint64(last - 1) {
			if f.receive(changesAt("e", v+2), size); f.held.bytes > maxHeldBytes || len(f.held.events) > maxHeld {
				t.Fatalf("%s: it holds %d events of %d bytes back", name, len(f.held.events), f.held.bytes)
			}
		}
		if gap, _ := f.resume(room.NewRoom("42", room.Position{Epoch: "e", Version: 5}, map[string]room.Member{}), nil); !gap {
			t.Fatalf("%s: no other snapshot is wanted, and told were %d events", name, len(told))
		}
		f.resume(room.NewRoom("42", room.Position{Epoch: "e", Version: last}, map[string]room.Member{}), nil)
		if e := told[len(told)-1]; e.Version != last {
			t.Errorf("%s: the last event is of version %d", name, e.Version)
		}
	}
}

// Redis is away when a watch and a follow begin. The watch fails; the follow gets a snapshot
// when Redis is back.
func TestFeed_ComesToLifeWithRedis(t *testing.T) {
	server := redistest.Start(t)
	fs := newFeeds(server.Client())
	defer fs.Close()
	server.Kill()
	told := make(chan *room.Event, 100)
	w := &watch{fn: func(e *room.Event) { told <- e }}
	f, err := fs.open("42", w)
	redistest.OK(t, err)
	defer fs.remove(f, w)
	for range 2 { // the second shares its feed with who follows
		if _, err := fs.Watch(t.Context(), "42", func(*room.Event) {}); !errors.Is(err, room.ErrUnavailable) {
			t.Errorf("watch without Redis: %v", err)
		}
	}
	server.Restart()
	next := func() *room.Event {
		select {
		case e := <-told:
			return e
		case <-time.After(10 * time.Second):
			t.Fatal("waited 10s for an event")
			return nil
		}
	}
	if e := next(); e.Snapshot == nil {
		t.Errorf("told %+v, want a snapshot", e)
	}
	server.Client().Publish(t.Context(), "Room:42:Events", `{"epoch":"e","version":1,"mark":"m","prev":"","node":"n","changes":[]}`)
	next() // Redis does not know of that epoch: another snapshot
}

// joined returns the event of a commit.
func joined(epoch string, version uint64, user string) *room.Event {
	return (&room.Commit{
		Position: room.Position{Epoch: epoch, Version: version, CommitID: fmt.Sprint("m", version)}, Node: "n",
		Updates: []room.Update{{Type: room.KindJoin, User: user, Seat: int(version), Session: "s"}},
	}).Event("42")
}

// A replica holds events while its room is read, and follows them to the version that was read.
func TestFollow(t *testing.T) {
	read := func(version uint64, users ...string) *room.Room {
		members := make(map[string]room.Member)
		for i, user := range users {
			members[user] = room.Member{Seat: i + 1, Session: "s", Node: "n"}
		}
		return room.NewRoom("42", room.Position{Epoch: "e", Version: version, CommitID: fmt.Sprint("m", version)}, members)
	}
	s := &Replica{news: make(chan struct{}, 1)}
	meet := func(is *room.Room, version uint64, differences string) {
		t.Helper()
		at, found, known := s.Meet(t.Context(), is)
		if !known || at.Version != version || !strings.Contains(found, differences) || differences == "" && found != "" {
			t.Errorf("the shadow is at %+v, %q, %v", at, found, known)
		}
	}
	s.Use()
	s.put(joined("e", 1, "a")) // before what is read
	s.put(joined("e", 3, "c"))
	s.Adopt(read(2, "a", "b"))
	s.Release()
	s.Use()
	s.put(joined("e", 4, "d"))
	meet(read(3, "a", "b", "c"), 3, "")
	meet(read(3, "a", "b"), 3, `"c" is missing`)
	meet(read(5), 4, "")
	meet(read(2), 4, "")
	s.Release()
	if missed := s.Gap(); missed != "" {
		t.Errorf("nothing is missing: %s", missed)
	}

	s.put(joined("e", 6, "f"))
	if missed := s.Gap(); missed != "the event of version 6 came after that of version 4" || s.Gap() != "" {
		t.Errorf("version 5 is missing: %q", missed)
	}
	s.Use()
	s.put(room.SnapshotEvent(read(9), nil, nil))
	s.Adopt(read(8)) // was read before
	if _, _, known := s.Meet(t.Context(), read(9)); known {
		t.Error("what a snapshot has overtaken was adopted")
	}
	s.Release()
	s.Use()
	s.Adopt(read(10))
	for version := range uint64(maxHeld) {
		s.put(joined("e", 11+version, "a"))
	}
	meet(read(11), 11, `"a" is missing`)
	s.put(joined("e", 9999, "a"))
	s.put(joined("e", 9999, "a"))
	if _, _, known := s.Meet(t.Context(), read(12)); known || len(s.held.events) > 1 {
		t.Errorf("%d events are held", len(s.held.events))
	}
}

// A copy that has missed events is given up.
func TestFollow_MissedEvents(t *testing.T) {
	var r Replica
	r.Room = room.NewRoom("42", room.Position{Epoch: "e", Version: 1}, map[string]room.Member{})
	r.Use()
	for v := range uint64(maxHeld + 1) {
		r.put((&room.Commit{Position: room.Position{Epoch: "e", Version: v + 2}}).Event("42"))
	}
	if r.CatchUp(); r.Room != nil {
		t.Error("a copy that missed events was kept")
	}
}

// Who waits for an event goes on as soon as one has come, also one that came before, or when the time is over.
func TestFollow_Await(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Replica{Room: room.NewRoom("42", room.Position{Epoch: "e", Version: 1}, map[string]room.Member{}), news: make(chan struct{}, 1)}
		r.Use()
		const most = time.Second
		began := time.Now()
		await := func(come bool, took time.Duration) {
			t.Helper()
			if got := r.Await(most); got != come || time.Since(began) != took {
				t.Errorf("it has come: %v, after %v", got, time.Since(began))
			}
			r.CatchUp()
		}
		await(false, most)
		time.AfterFunc(most/2, func() { r.put((&room.Commit{Position: room.Position{Epoch: "e", Version: 2}}).Event("42")) })
		await(true, most+most/2)
		await(false, 2*most+most/2) // that one is known
		r.put((&room.Commit{Position: room.Position{Epoch: "e", Version: 3}}).Event("42"))
		await(true, 2*most+most/2)
		if r.Room.Version != 3 {
			t.Errorf("the room is at version %d", r.Room.Version)
		}
	})
}

// What is known of a room is what was seen since all of its events come, and those that came before it was seen. Another epoch that
// is seen then is one of which the watchers have not heard.
func TestFeed_Recall(t *testing.T) {
	seen := func(epoch string) *room.Room {
		return room.NewRoom("42", room.Position{Epoch: epoch, Version: 1}, map[string]room.Member{"a": {Session: "s", Node: "n", At: 1}})
	}
	recalled := func(f *feed) int {
		now := room.NewRoom("42", room.Position{}, make(map[string]room.Member))
		f.recall(now)
		return now.Count()
	}
	f := newFeed("42")
	if f.saw(seen("e")); recalled(f) != 0 {
		t.Error("it knows a room of which events may be missing")
	}
	f.subscribed()
	f.receive(changesAt("e", 2, room.Update{Type: room.KindJoin, User: "b", Seat: 1, Session: "s", At: 2}), 100)
	if gap := f.saw(seen("e")); gap || recalled(f) != 2 {
		t.Errorf("it knows %d members, a gap %v", recalled(f), gap)
	}
	f = newFeed("42")
	f.subscribed()
	f.saw(seen("e"))
	if gap := f.saw(seen("e")); gap {
		t.Error("a snapshot is read of what is known")
	}
	later := seen("other")
	later.Version = 2
	if gap := f.saw(later); !gap || f.interrupt() {
		t.Errorf("another epoch: a gap %v", gap)
	}
}
