package transport

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport/internal/session"
	"roomd/transport/protocol"
)

// drain drops what has come.
func (v *testClient) drain() {
	synctest.Wait()
	for len(v.frames) > 0 {
		<-v.frames
	}
}

// expectIn waits for a snapshot of room T with the user, of the session that has to be there.
func (v *testClient) expectIn(want ...string) {
	v.t.Helper()
	got := ""
	for !strings.HasPrefix(got, `{"event":"snapshot","room":"T"`) {
		got = v.next("a snapshot of T", time.Second)
	}
	for _, part := range want {
		redistest.ErrorIf(v.t, !strings.Contains(got, part), "got %s, without %s", got, part)
	}
}

const lostMoved = `{"event":"lost","room":"42","reason":"moved","to":"T"}`

// Users who are moved hear where to, and then get a snapshot of that room with themselves in it and
// its events, on whichever node they are. They are ordinary members there.
func TestMove_Told(t *testing.T) {
	for _, watched := range []string{"not", "before", "with a version"} {
		bubble(t, "watched "+watched, func(t *testing.T) {
			first, second, a, b := twoNodes(t, room.Rules{}, Options{MaxRooms: 2})
			c := second.connect(t, "c")
			c.ask(`"watch"`, `"version":2,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]`)
			if watched == "with a version" {
				second.joins(t, "x", "T")
			}
			for _, v := range []*testClient{a, b} {
				if watched != "not" {
					v.send(`{"id":7,"room":"T","action":"watch"}`)
					synctest.Wait()
				} else { // as many as a connection may be in
					v.send(`{"id":7,"room":"other","action":"watch"}`)
					synctest.Wait()
				}
				v.drain()
			}
			first.moveTo(t, "42", "T", "a", "b")
			left := eventOf(3, `{"type":"leave","user":"a","seat":1,"reason":"moved","to":"T"}`, `{"type":"leave","user":"b","seat":0,"reason":"moved","to":"T"}`)
			c.expect(left)
			for _, v := range []*testClient{a, b} {
				v.expectAmong(lostMoved)
				v.expectIn(`"user":"a"`, `"user":"b"`)
			}
			time.Sleep(time.Minute)
			a.drain()
			b.drain()
			now, err := second.rooms.Read(t.Context(), "T")
			redistest.OK(t, err)
			for _, o := range now.Users() {
				redistest.ErrorIf(t, o.Away, "%s is away", o.User)
			}
			a.askAbout("T", `"say","text":"hi"`, fmt.Sprintf(`"version":%d,"count":%d`, now.Version+1, now.Count()))
			expectAll(fmt.Sprintf(`{"event":"changes","room":"T","version":%d,"from":%d,"changes":[{"type":"message","user":"a","text":"hi"}]}`, now.Version+1, now.Version), a, b)
			a.askAbout("T", `"leave"`, fmt.Sprintf(`"version":%d,"count":%d`, now.Version+2, now.Count()-1))
			c.expectSilence()
		})
	}
}

// expectAmong expects a frame behind events of T that a watcher gets.
func (v *testClient) expectAmong(want string) {
	v.t.Helper()
	for got := ""; got != want; {
		if got = v.next(want, time.Second); got != want && !strings.Contains(got, `"event":"changes","room":"T"`) {
			v.t.Fatalf("got %s, want %s", got, want)
		}
	}
}

// A user who is a member of the other room already stays that, and its events go on.
func TestMove_ToOwnRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		a.askAbout("T", `"join"`, `"version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]`)
		second.moveTo(t, "42", "T", "a")
		a.expect(lostMoved)
		time.Sleep(time.Minute)
		a.drain()
		first.expectMembers(t, "T", "a")
		second.expectMembers(t, "42", "b")
		a.askAbout("T", `"ready","value":true`, `"version":2,"count":1`)
		a.expect(`{"event":"changes","room":"T","version":2,"from":1,"changes":[{"type":"member","user":"a","seat":0,"ready":true}]}`)
	})
}

// A user without a connection keeps the seat in the other room for a grace, and can come there.
func TestMove_Away(t *testing.T) {
	for _, comes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			first, second, a, b := twoNodes(t, room.Rules{}, Options{})
			a.cut()
			b.expect(eventAAway)
			time.Sleep(defaultGrace / 2)
			second.moveTo(t, "42", "T", "a")
			time.Sleep(defaultGrace - time.Second)
			first.expectMembers(t, "T", "a")
			want := ""
			if comes {
				first.connect(t, "a").askAbout("T", `"join"`, `"version":2,"seat":0,"count":1,"users":[{"user":"a","seat":0}]`)
				want = "a"
			}
			time.Sleep(time.Minute)
			got := first.members(t, "T")
			redistest.ErrorIf(t, got != want, "a has come: %v, and in T are %q", comes, got)
		})
	}
}

// A move that is refused changes nothing.
func TestMove_Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, b := twoNodes(t, room.Rules{Seating: room.Capacity(2)}, Options{})
		second.connect(t, "x").askAbout("T", `"join"`, `"version":1,"seat":0,"count":1,"settings":{"capacity":2},"users":[{"user":"x","seat":0}]`)
		_, _, err := first.Move(t.Context(), "42", "T", "a", "b")
		redistest.ErrorIf(t, !errors.Is(err, room.ErrFull), "%v", err)
		if _, _, err := first.Move(t.Context(), "42", "T", "nobody"); !errors.Is(err, room.ErrNotMember) {
			t.Error(err)
		}
		redistest.Equal(t, "timers are left:", first.disconnectTimers.count(), 0)
		expectQuiet(a, b)
	})
}

// Users are moved at the same instant as they do something. In the end each is where the server
// says, and knows it.
func TestMove_AtTheSameInstant(t *testing.T) {
	t.Parallel()
	for _, meanwhile := range []string{"42 leave", "42 join", "42 users", "T join", "T watch", "T leave", "T users", "cut", "take over", "move back"} {
		for round := range 6 { // in whatever order the goroutines run
			t.Run(fmt.Sprint(meanwhile, round), func(t *testing.T) {
				if round > 1 {
					redistest.Thorough(t)
				}
				synctest.Test(t, func(t *testing.T) { moveMeanwhile(t, meanwhile) })
			})
		}
	}
}

func moveMeanwhile(t *testing.T, meanwhile string) {
	first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
	moved := make(chan error, 2)
	go func() {
		_, _, err := second.Move(t.Context(), "42", "T", "a")
		moved <- err
	}()
	switch part := strings.Fields(meanwhile); {
	case meanwhile == "cut":
		a.cut()
	case meanwhile == "take over":
		first.connect(t, "a").send(join42)
	case meanwhile == "move back":
		go func() {
			_, _, err := first.Move(t.Context(), "T", "42", "a")
			moved <- err
		}()
	default:
		a.send(fmt.Sprintf(`{"id":99,"room":"%s","action":"%s"}`, part[0], part[1]))
	}
	<-moved
	time.Sleep(30 * time.Second)
	knows := map[string]bool{"42": true}
	for len(a.frames) > 0 {
		text := <-a.frames
		frame, err := protocol.DecodeFrame([]byte(text))
		redistest.OK(t, err)
		switch f := frame.(type) {
		case *protocol.Event:
			switch f.Event {
			case protocol.EventLost:
				knows[f.Room] = false
			case protocol.EventSnapshot:
				knows[f.Room] = strings.Contains(text, `"user":"a"`)
			}
		case *protocol.Reply:
			if f.Seat != nil || strings.Contains(text, `"user":"a"`) { // a list may stand for the snapshot
				knows[f.Room] = true
			} else if strings.HasSuffix(meanwhile, "leave") {
				knows[f.Room] = false
			}
		}
	}
	for _, id := range []string{"42", "T"} {
		now, err := second.rooms.Read(t.Context(), id)
		redistest.OK(t, err)
		in := false
		for _, o := range now.Users() {
			in = in || o.User == "a"
			redistest.ErrorIf(t, o.Away, "%s is away in %s for good", o.User, id)
		}
		redistest.ErrorIf(t, in != knows[id] && meanwhile != "cut" && meanwhile != "take over",
			"a is in %s: %v, and takes itself for a member: %v", id, in, knows[id])
	}
}

// A seat that is reserved is nobody's: a session that has lost its place takes it, and is not
// replaced by it.
func TestSeats_ReservedForMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		_, heal := first.hook.failing(room.ErrUnavailable)
		removeA(t, first, second)
		second.reserveIn42(t, "a")
		heal()
		a.expectWithin(`{"event":"snapshot","room":"42","version":5,"count":2,"users":[{"user":"b","seat":0},{"user":"a","seat":1}]}`, session.LastPause)
		expectQuiet(a)
	})
}

// On a Cluster a move is undone when the second room cannot be had: a seat that was reserved before is kept for the grace.
func TestMove_UndoneSeatIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{Grace: 5 * time.Second})
		s.hook.move = func(ctx context.Context, to, session string, users []string) error {
			_, err := s.rooms.Do(ctx, to, room.Reserve{Session: session, Users: users})
			redistest.OK(t, err)
			return fmt.Errorf("%w, %w", room.ErrBusy, coordinator.ErrUndone)
		}
		if _, _, err := s.Move(t.Context(), "43", "T", "z"); !errors.Is(err, room.ErrBusy) {
			t.Fatal(err)
		}
		s.expectMembers(t, "T", "z")
		time.Sleep(4 * time.Second)
		s.expectMembers(t, "T", "z")
		time.Sleep(2 * time.Second)
		s.expectMembers(t, "T", "")
	})
}

// reserveIn42 seats a party.
func (s *testNode) reserveIn42(t *testing.T, users ...string) {
	t.Helper()
	redistest.OK(t, redistest.Err(s.Reserve(t.Context(), "42", users...)))
	synctest.Wait()
}

// The seats of a party are kept for the grace. Who joins meanwhile, through any node, is back; the
// others leave. All of them sit down, or nobody does; members keep their seats.
func TestParty_Seated(t *testing.T) {
	for name, duplicate := range map[string]room.Duplicate{"replace": room.Replace, "reject": room.Reject} {
		bubble(t, name, func(t *testing.T) {
			first, second, a, b := twoNodes(t, room.Rules{Duplicate: duplicate, Seating: room.Capacity(4)}, Options{})
			_, err := first.Reserve(t.Context(), "42", "p", "q", "r")
			redistest.ErrorIf(t, !errors.Is(err, room.ErrFull), "a party of 3 for 2 seats: %v", err)
			a.expectSilence()
			first.reserveIn42(t, "p", "a", "q")
			party := eventOf(3, `{"type":"join","user":"p","seat":2,"away":true}`, `{"type":"join","user":"q","seat":3,"away":true}`)
			a.expect(party)
			b.expect(party)
			time.Sleep(defaultGrace - time.Second)
			p := second.connect(t, "p")
			p.ask(`"join"`, `"version":4,"seat":2,"count":4,"settings":{"capacity":4},"users":[{"user":"b","seat":0},{"user":"a","seat":1},{"user":"p","seat":2},{"user":"q","seat":3,"away":true}]`)
			a.expect(eventOf(4, `{"type":"back","user":"p","seat":2}`))
			a.expectWithin(eventOf(5, `{"type":"leave","user":"q","seat":3,"reason":"timeout"}`), 2*time.Second)
			p.expect(eventOf(5, `{"type":"leave","user":"q","seat":3,"reason":"timeout"}`))
			expectQuiet(p, a)
		})
	}
}

// Who seats a party again, through whichever node, as a proxy does that repeats a request, prolongs what
// is reserved. The others see nothing of it.
func TestParty_SeatedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{Seating: room.Capacity(4)}, Options{})
		first.reserveIn42(t, "p", "q")
		a.expect(eventOf(3, `{"type":"join","user":"p","seat":2,"away":true}`, `{"type":"join","user":"q","seat":3,"away":true}`))
		for i, s := range []*testNode{second, first} {
			time.Sleep(defaultGrace - time.Second)
			s.reserveIn42(t, "q", "p")
			a.expect(eventOf(4 + i))
		}
		time.Sleep(defaultGrace - time.Second)
		p := second.connect(t, "p")
		p.ask(`"join"`, `"version":6,"seat":2,"count":4,"settings":{"capacity":4},"users":[{"user":"b","seat":0},{"user":"a","seat":1},{"user":"p","seat":2},{"user":"q","seat":3,"away":true}]`)
		a.expect(eventOf(6, `{"type":"back","user":"p","seat":2}`))
		a.expectWithin(eventOf(7, `{"type":"leave","user":"q","seat":3,"reason":"timeout"}`), 2*time.Second)
		p.expect(eventOf(7, `{"type":"leave","user":"q","seat":3,"reason":"timeout"}`))
		first.reserveIn42(t, "p") // who has come keeps the seat, and no reservation is left that could end it
		expectQuiet(p, a)
	})
}

// A party with somebody who is banned, or in a closed room, does not sit down.
func TestParty_Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, a, _ := twoNodes(t, room.Rules{}, Options{})
		second.act(t, room.Kick{User: "q", Until: room.Forever})
		a.expect(eventOf(3))
		_, err := first.Reserve(t.Context(), "42", "p", "q")
		redistest.ErrorIf(t, !errors.Is(err, room.ErrBanned), "%v", err)
		for _, users := range [][]string{nil, {"p", "p"}, {"p", ""}, make([]string, 65)} {
			_, err := first.Reserve(t.Context(), "42", users...)
			redistest.ErrorIf(t, !errors.Is(err, room.ErrInvalid), "%q: %v", users, err)
		}
		second.act(t, room.Configure{Settings: room.Settings{Closed: true}})
		a.expect(eventOf(4, `{"type":"settings","settings":{"capacity":0,"closed":true}}`))
		redistest.ErrorIs(t, "the error is", redistest.Err(first.Reserve(t.Context(), "42", "p")), room.ErrRoomClosed)
		redistest.Equal(t, "timers are left:", first.disconnectTimers.count(), 0)
		a.expectSilence()
	})
}

// The seats that a node has reserved are free when it has ended, and the others know that it has:
// after a drain, and after its death. Who has joined another node by then stays.
func TestParty_NodeEnds(t *testing.T) {
	for _, dies := range []bool{false, true} {
		bubble(t, fmt.Sprint("dies ", dies), func(t *testing.T) {
			first, second, _, b := twoNodes(t, room.Rules{}, Options{})
			first.reserveIn42(t, "p", "q")
			p := second.connect(t, "p")
			p.tell(`"join"`, `"version":4,"seat":2,"count":4,"users":[{"user":"b","seat":0},{"user":"a","seat":1},{"user":"p","seat":2},{"user":"q","seat":3,"away":true}]`)
			if dies {
				first.redisNet.stop()
			} else {
				redistest.OK(t, first.Shutdown(t.Context()))
				_, err := first.Reserve(t.Context(), "42", "x")
				redistest.ErrorIf(t, !errors.Is(err, room.ErrClosed), "%v", err)
				second.expectMembers(t, "42", "b a p q")
				_ = first.rooms.Close(t.Context())
			}
			time.Sleep(2 * time.Minute)
			second.expectMembers(t, "42", "b p")
			b.expectOpen()
			p.expectOpen()
		})
	}
}

// Without a grace seats are reserved for a moment all the same.
func TestParty_NoGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, _, _ := twoNodes(t, room.Rules{}, Options{Grace: -1})
		first.reserveIn42(t, "p")
		time.Sleep(minReservation - time.Second)
		second.expectMembers(t, "42", "b a p")
		time.Sleep(2 * time.Second)
		second.expectMembers(t, "42", "b a")
	})
}
