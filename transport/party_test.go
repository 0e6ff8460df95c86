package transport

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

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
			time.Sleep(time.Minute)
			p.expectSilence()
			a.expectSilence()
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
		time.Sleep(time.Minute)
		p.expectSilence()
		a.expectSilence()
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
