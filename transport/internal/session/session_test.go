package session

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redisconn"
	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/room/ratelog"
	"roomd/transport/auth"
	"roomd/transport/internal/outbox"
	"roomd/transport/protocol"
)

// alone is a session without a connection: it remembers the code with which it was ended.
type alone struct{ code int }

func (a *alone) End(code int, _ string) bool { a.code = code; return true }
func (*alone) IsOver() bool                  { return false }
func (*alone) Named()                        {}

// kickedRooms runs a function behind the first action of a session.
type kickedRooms struct {
	Rooms
	once sync.Once
	then func()
}

func (r *kickedRooms) Do(ctx context.Context, id string, a room.Action) (room.Result, error) {
	defer r.once.Do(r.then)
	return r.Rooms.Do(ctx, id, a)
}

// A session is kicked while it joins, and the events of the room have ended before the request has: it hears so.
func TestLost_WhileJoining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rdb := redistest.Mini(t)
		rooms, err := coordinator.New(rdb, coordinator.Options{})
		redistest.OK(t, err)
		defer func() { _ = rooms.Close(context.Background()) }()
		rooms.AnswerFor(func(string, string) bool { return true })
		kicked := &kickedRooms{Rooms: rooms, then: func() {
			time.Sleep(time.Millisecond) // so that it is not the commit of the join
			_, err := rooms.Do(t.Context(), "42", room.Kick{User: "a"})
			redistest.OK(t, err)
			time.Sleep(time.Second) // until the event has come
		}}
		clock := NewClock()
		shared := &Shared{
			Life: t.Context(), Now: rooms.Now, Clock: clock, Rooms: NewSharedReads(t.Context(), kicked),
			Limits:   Limits{MaxRooms: 1, MaxNewRooms: -1, Rate: -1},
			Watching: redisconn.NewSharedTimeout(t.Context(), WatchTimeout), Users: NewUsers(clock),
			Debug: NewDebugLog(slog.New(slog.DiscardHandler), clock), Refused: func(string) {}, Merged: func(int) {},
			Logs: Logs{Lost: ratelog.NewSet(slog.New(slog.DiscardHandler), time.Minute).Info("lost")},
		}
		out := outbox.New(1 << 20)
		a := New(shared, "a", nil, out, new(alone))
		a.Begin()
		defer a.Close()
		r := &request{session: a, in: protocol.Request{ID: 1, Action: protocol.ActionJoin, Room: "42"}}
		r.hold()
		join(r)
		synctest.Wait() // until the events have ended
		r.release()
		var got []string
		for frame, events := out.Next(); len(frame)+len(events) > 0; frame, events = out.Next() {
			got = append(got, string(frame[2:15])) // behind the header of the frame
		}
		redistest.Equal(t, "the client hears", strings.Join(got, " "), `{"id":1,"room {"event":"los`)
	})
}

// The clock can step past the end of a token before the connection's timer, which does not step.
func TestToken_ClockSteps(t *testing.T) {
	conn := new(alone)
	a := &Access{conn: conn, granted: auth.Identity{User: "a", Expires: time.Now().Add(-time.Second)}}
	err := a.fresh()
	if e := ErrorOf(err); e.Code != protocol.CodeUnauthorized || conn.code != protocol.CloseUnauthorized {
		t.Errorf("%v, closed with %d", err, conn.code)
	}
}

// roomOf is a room of one user.
func roomOf(user string) room.Snapshot {
	return room.NewRoom("42", room.Position{Epoch: "e", Version: 4}, map[string]room.Member{user: {Seat: 1}}).Snapshot()
}

// A place can be taken away in the very commit that gives it. Its join is not acknowledged with a
// list that lacks the session.
func TestJoin_UndoneInItsCommit(t *testing.T) {
	if err := ifListed(room.Result{Seat: 1, Snapshot: roomOf("b")}, "a"); !errors.Is(err, room.ErrUnknown) {
		t.Errorf("a list without the user: %v", err)
	}
	for _, seat := range []int{1, 2} { // a seat that is not that of the list, too
		if err := ifListed(room.Result{Seat: seat, Snapshot: roomOf("a")}, "a"); err != nil {
			t.Error(err)
		}
	}
}
