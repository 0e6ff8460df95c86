package transport

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/internal/session"
)

// A member who is being brought back asks for the list: the reply waits for that, and without it
// is a refusal. A request to watch is treated the same.
func TestList_DuringRejoin(t *testing.T) {
	for _, action := range []string{"users", "watch"} {
		for _, back := range []bool{true, false} {
			bubble(t, fmt.Sprintf("%s, back %v", action, back), func(t *testing.T) {
				first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
				first.hook.setBefore(func(context.Context, room.Action) error { return room.ErrBusy })
				removeA(t, first, second)
				synctest.Wait()
				a.send(fmt.Sprintf(`{"id":3,"action":%q,"room":"42"}`, action))
				time.Sleep(500 * time.Millisecond) // the next attempt comes long before session.SeatWait has passed
				a.expectSilence()
				if !back {
					a.expectWithin(`{"id":3,"room":"42","error":{"code":"unavailable","message":"the room's store cannot be reached; nothing was written","retry":true}}`, session.SeatWait)
					return
				}
				first.hook.setBefore(nil)
				a.expectWithin(`{"id":3,"room":"42","version":4,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`, session.SeatWait)
				a.expectSilence() // the reply has what a snapshot would have
			})
		}
	}
}

// A list lacks a member of whose removal no event has come. The server finds out by itself.
func TestList_BeforeTheEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, _, a, b := twoNodes(t, room.Rules{}, Options{})
		first.redis.FlushAll(t.Context())
		a.send(users42)
		frame := a.next("a reply", time.Minute)
		redistest.ErrorIf(t, !strings.Contains(frame, `{"user":"a","seat":1}`), "a got %s", frame)
		time.Sleep(time.Minute)
		for name, v := range map[string]*testClient{"a": a, "b": b} {
			for len(v.frames) > 0 {
				if frame := <-v.frames; !strings.Contains(frame, fmt.Sprintf(`{"user":%q`, name)) && strings.Contains(frame, "snapshot") {
					t.Errorf("%s got %s", name, frame)
				}
			}
		}
	})
}

// undoneRooms undo joins of a's session, as often as left says, as if that were in the same commit.
type undoneRooms struct {
	Rooms
	session string
	left    atomic.Int64
}

func (r *undoneRooms) Do(ctx context.Context, id string, a room.Action) (room.Result, error) {
	result, err := r.Rooms.Do(ctx, id, a)
	if room.KindOf(a) == room.KindJoin && r.left.Add(-1) >= 0 {
		undone, _ := r.Rooms.Do(ctx, id, room.Leave{User: "a", Session: r.session, Reason: "node"})
		result.Snapshot = undone.Snapshot
	}
	return result, err
}

// So it is with the join of a client, and with that of a rejoin, which is tried again.
func TestJoin_UndoneTold(t *testing.T) {
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
		a.exchange(users42, `{"id":3,"room":"42","version":10,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`)
	})
}

// A node has a new name, and cannot write to the room for a while: its members may have lost their
// places. They see what others do when it is known that they have not, and no snapshot.
func TestEvents_WaitForConfirmation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		first.hook.setBefore(func(context.Context, room.Action) error { return room.ErrBusy })
		before := first.rooms.Node()
		first.redis.Del(t.Context(), "Node:"+before)
		time.Sleep(2 * time.Second)
		redistest.FatalIf(t, first.rooms.Node() == before, "the node kept its name")
		second.connect(t, "c").send(join42)
		time.Sleep(time.Second)
		a.expectSilence()
		first.hook.setBefore(nil)
		a.expectWithin(`{"event":"changes","room":"42","version":4,"from":2,"changes":[{"type":"join","user":"c","seat":2}]}`, session.LastPause)
		a.expectSilence()
	})
}
