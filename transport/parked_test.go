package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"roomd/room"
	"roomd/transport/protocol"
)

// leaves is the event that a user has left.
func leaves(user string, version uint64) *room.Event {
	return &room.Event{Room: "42", Epoch: "e", Version: version, From: version - 1,
		Changes: []room.Change{{Type: room.KindLeave, User: user, Seat: 1}}}
}

// roomWith is a room of one user.
func roomWith(user, epoch string, version uint64) *listing {
	members := map[string]room.Member{user: {Seat: 1}}
	return &listing{room.NewRoom("42", room.Position{Epoch: epoch, Version: version}, members).Snapshot(), 1}
}

// What is kept back of a parked stream, and what the client gets when it goes on.
func TestAParkedStream(t *testing.T) {
	big := strings.Repeat("x", 5000)
	for _, tt := range []struct {
		name string
		run  func(s *streams) (resumed bool)
		want string
	}{
		{"nothing was lost: the events go on", func(s *streams) bool {
			s.park("42")
			s.push(change(4))
			return s.resume("42", roomWith("a", "e", 4), false)
		}, "events 4"},
		{"nothing is written before", func(s *streams) bool {
			s.push(change(4))
			s.park("42")
			s.push(change(5))
			return true
		}, ""},
		{"the member's own leave: a snapshot in place of all up to it", func(s *streams) bool {
			s.push(change(4))
			s.push(leaves("a", 5))
			s.push(change(6))
			s.push(change(7))
			return s.resume("42", roomWith("a", "e", 6), false)
		}, "events =6+7"},
		{"the member's own leave, and no snapshot", func(s *streams) bool {
			s.push(leaves("a", 4))
			return s.resume("42", nil, false)
		}, "still parked"},
		{"the member's own leave, and a snapshot before it", func(s *streams) bool {
			s.push(change(4))
			s.push(leaves("a", 5))
			return s.resume("42", roomWith("a", "e", 4), false)
		}, "still parked"},
		{"a list without the member", func(s *streams) bool {
			s.push(leaves("a", 4))
			return s.resume("42", roomWith("b", "e", 5), false)
		}, "still parked"},
		{"the room begins anew without the member", func(s *streams) bool {
			s.push(&room.Event{Room: "42", Epoch: "new", Version: 1, Changes: []room.Change{{Type: room.KindJoin, User: "b"}}})
			return s.resume("42", roomWith("a", "new", 2), true)
		}, "events =2"},
		{"the room begins anew without the member, and nobody has found it", func(s *streams) bool {
			s.push(&room.Event{Room: "42", Epoch: "new", Version: 1, Changes: []room.Change{{Type: room.KindJoin, User: "b"}}})
			return s.resume("42", nil, false)
		}, "still parked"},
		{"the room begins anew with the member", func(s *streams) bool {
			s.push(&room.Event{Room: "42", Epoch: "new", Version: 1, Changes: []room.Change{{Type: room.KindJoin, User: "a"}}})
			return true
		}, "events 1"},
		{"a snapshot of another epoch without the member is over", func(s *streams) bool {
			s.push(snapshot("", 0))
			return s.resume("42", roomWith("a", "new", 1), true)
		}, "events =1"},
		{"the client has a later list", func(s *streams) bool {
			s.push(leaves("a", 4))
			s.hold("42")
			list := listAt(6)
			s.replyList(list)
			s.push(change(7))
			s.release("42")
			return s.resume("42", roomWith("a", "e", 5), true)
		}, "reply 6, events 7"},
		{"changes of an epoch that is over", func(s *streams) bool {
			s.park("42")
			s.resume("42", roomWith("a", "new", 1), true)
			s.push(change(4))
			return true
		}, "events =1"},
		{"too much is kept back: it is dropped, and the connection stays", func(s *streams) bool {
			s.park("42")
			e := leaves(big, 4)
			fits := s.push(e)
			s.push(change(5))
			return fits && s.resume("42", roomWith("a", "e", 4), false)
		}, "events =4+5"},
		{"too much is kept back, and a snapshot before it", func(s *streams) bool {
			s.park("42")
			s.push(change(4))
			s.push(leaves(big, 5))
			return s.resume("42", roomWith("a", "e", 4), true)
		}, "still parked"},
		{"too much is kept back, and a snapshot comes with the events", func(s *streams) bool {
			s.park("42")
			s.push(leaves(big, 4))
			e := snapshot("e", 7)
			e.Snapshot = &roomWith("a", "e", 7).Snapshot
			s.setMember("42", "")
			s.push(e)
			return s.resume("42", nil, false)
		}, "events =7"},
		{"what is kept back of one room is dropped before another room ends the connection", func(s *streams) bool {
			s.open("43")
			s.replyList(&protocol.Reply{ID: new(int64), Room: "43", Epoch: "e", Version: 3})
			s.release("43")
			s.park("42")
			s.push(leaves(big[:2000], 4))
			other := leaves(big[:3000], 4)
			other.Room = "43"
			fits := s.push(other)
			return fits && s.resume("42", roomWith("a", "e", 4), false)
		}, "reply 3, events 4, events =4"},
		{"the session is replaced: what is kept back is not written", func(s *streams) bool {
			s.push(change(4))
			s.push(leaves("a", 5))
			s.hold("42") // also if a request runs
			s.end("42")
			s.setMember("42", "")
			s.release("42")
			return s.resume("42", nil, false)
		}, ""},
		{"a snapshot of another epoch, a list, and a snapshot of what the list has", func(s *streams) bool {
			s.setMember("42", "")
			s.hold("42")
			s.push(snapshot("old", 9))
			s.replyList(listAt(6))
			s.push(snapshot("e", 6))
			s.push(change(7))
			s.release("42")
			return true
		}, "reply 6, events 7"},
	} {
		o := newOutbox(func() {}, 4096)
		o.streams.open("42")
		o.streams.setMember("42", "a")
		listed(o, listAt(3))
		written(o)
		o.written()
		resumed := tt.run(o.streams)
		got := written(o)
		if !resumed {
			got = "still parked"
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// However many sessions come back in one commit, the room is encoded once.
func TestTheSnapshotOfThoseWhoComeBackIsShared(t *testing.T) {
	found := roomWith("a", "e", 6)
	first, second := eventFrameOf(found.event("42")).frame(), eventFrameOf((&listing{found.Snapshot, 0}).event("42")).frame()
	if &first[0] != &second[0] {
		t.Error("each client has a copy of its own")
	}
	later := found.Snapshot
	later.Version = 7 // the same members
	if frame := eventFrameOf((&listing{later, 0}).event("42")).frame(); !strings.Contains(string(frame), `"version":7`) {
		t.Errorf("got %s", frame)
	}
}

// A member who is being brought back asks for the list: the reply waits for that, and without it
// is a refusal. A request to watch is treated the same.
func TestAListWaitsForTheRejoin(t *testing.T) {
	for _, action := range []string{"users", "watch"} {
		for _, back := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, back %v", action, back), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
					first.hook.setBefore(func(context.Context, room.Action) error { return room.ErrBusy })
					removeA(t, first, second)
					synctest.Wait()
					a.send(fmt.Sprintf(`{"id":3,"action":%q,"room":"42"}`, action))
					time.Sleep(2 * time.Second)
					a.expectSilence()
					if !back {
						a.expectWithin(`{"id":3,"room":"42","error":{"code":"unavailable","message":"the room's store cannot be reached; nothing was written","retry":true}}`, placeWait)
						return
					}
					first.hook.setBefore(nil)
					a.expectWithin(`{"id":3,"room":"42","version":4,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`, placeWait)
					a.expectSilence() // the reply has what a snapshot would have
				})
			})
		}
	}
}

// A list lacks a member of whose removal no event has come. The server finds out by itself.
func TestAListBeforeTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _, a, b := twoNodes(t, room.Rules{}, Options{})
		first.redis.FlushAll(t.Context())
		a.send(users42)
		frame := a.next("a reply", time.Minute)
		if !strings.Contains(frame, `{"user":"a","seat":1}`) {
			t.Errorf("a got %s", frame)
		}
		time.Sleep(time.Minute)
		for name, v := range map[string]*bubbleClient{"a": a, "b": b} {
			for len(v.frames) > 0 {
				if frame := <-v.frames; !strings.Contains(frame, fmt.Sprintf(`{"user":%q`, name)) && strings.Contains(frame, "snapshot") {
					t.Errorf("%s got %s", name, frame)
				}
			}
		}
	})
}

// A place can be taken away in the very commit that gives it. Its join is not acknowledged with a
// list that lacks the session.
func TestAJoinThatIsUndoneInItsCommit(t *testing.T) {
	s := &session{user: "a"}
	if err := s.ifListed(room.Result{Seat: 1, Snapshot: roomWith("b", "e", 4).Snapshot}); !errors.Is(err, room.ErrUnknown) {
		t.Errorf("a list without the user: %v", err)
	}
	for _, seat := range []int{1, 2} { // a seat that is not that of the list, too
		if err := s.ifListed(room.Result{Seat: seat, Snapshot: roomWith("a", "e", 4).Snapshot}); err != nil {
			t.Error(err)
		}
	}
}

// undoneRooms undo joins of a's session, as often as left says, as if that were in the same commit.
type undoneRooms struct {
	Rooms
	session string
	left    atomic.Int64
}

func (r *undoneRooms) Do(ctx context.Context, id string, a room.Action) (room.Result, error) {
	result, err := r.Rooms.Do(ctx, id, a)
	if a.Kind() == room.KindJoin && r.left.Add(-1) >= 0 {
		undone, _ := r.Rooms.Do(ctx, id, room.Leave("a", r.session).Because(room.ReasonNode))
		result.Snapshot = undone.Snapshot
	}
	return result, err
}

// So it is with the join of a client, and with that of a rejoin, which is tried again.
func TestTheClientOfAnUndoneJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		undone := &undoneRooms{Rooms: first.hook.Rooms, session: first.session(t, "a")}
		first.hook.Rooms = undone
		undone.left.Store(2)
		removeA(t, first, second) // version 3
		a.expectWithin(strings.Replace(eventABackIn, `"version":4`, `"version":8`, 1), time.Second)
		undone.left.Store(1)
		a.send(join42)
		a.expect(`{"id":1,"room":"42","error":{"code":"unknown","message":"it may or may not have been written; ask for users","retry":false}}`)
		a.expectWithin(strings.Replace(eventABackIn, `"version":4`, `"version":10`, 1), time.Second)
		a.send(users42)
		a.expect(`{"id":3,"room":"42","version":10,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`)
	})
}

// A node has a new name, and cannot write to the room for a while: its members may have lost their
// places. They see what others do when it is known that they have not, and no snapshot.
func TestEventsWaitForTheConfirmation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		first.hook.setBefore(func(context.Context, room.Action) error { return room.ErrBusy })
		before := first.rooms.Node()
		first.redis.Del(t.Context(), "Node:"+before)
		time.Sleep(5 * time.Second)
		if first.rooms.Node() == before {
			t.Fatal("the node kept its name")
		}
		second.connect(t, "c").send(join42)
		time.Sleep(time.Second)
		a.expectSilence()
		first.hook.setBefore(nil)
		a.expectWithin(`{"event":"changes","room":"42","version":4,"from":2,"changes":[{"type":"join","user":"c","seat":2}]}`, lastPause)
		a.expectSilence()
	})
}
