package api

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/auth"
	"roomd/transport/protocol"
)

// So many run at once, of one address and of all; a place that is given back is free again.
func TestLimits_Gate(t *testing.T) {
	g := newGate(3, 2)
	a, b, c := netip.MustParsePrefix("1.1.1.1/32"), netip.MustParsePrefix("2.2.2.2/32"), netip.MustParsePrefix("3.3.3.3/32")
	enter := func(from netip.Prefix, want error) func() {
		t.Helper()
		leave, err := g.enter(from)
		if !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("%v: %v, want %v", from, err, want)
		}
		return leave
	}
	leaveA := enter(a, nil)
	enter(a, nil)
	enter(a, protocol.ErrRateLimited)
	leaveB := enter(b, nil)
	enter(c, protocol.ErrUnavailable)
	leaveA()
	enter(c, nil)
	enter(b, protocol.ErrUnavailable)
	leaveB()
	enter(a, nil)
	enter(a, protocol.ErrRateLimited)
	if len(g.of) != 2 {
		t.Errorf("it keeps %d addresses", len(g.of))
	}
}

// A caller may send so many at once, and so many a second, and is forgotten when they count no more.
func TestLimits_Callers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCallers(10, 5)
		for range 5 {
			if wait := c.take("a"); wait != 0 {
				t.Fatal(wait)
			}
		}
		for range 100 {
			if wait := c.take("a"); wait != 100*time.Millisecond {
				t.Fatalf("wait %v", wait)
			}
		}
		if wait := c.take("b"); wait != 0 {
			t.Errorf("another caller waits %v", wait)
		}
		time.Sleep(100 * time.Millisecond)
		if c.take("a") != 0 || c.take("a") == 0 {
			t.Error("one more has become free, and only one")
		}
		for i := range 10 * minSweep {
			c.take(strconv.Itoa(i))
			time.Sleep(time.Millisecond)
		}
		if n := len(c.byName); n > 2*minSweep {
			t.Errorf("it keeps %d callers, of whom 100 count", n)
		}
		if newCallers(-1, 1).take("a") != 0 {
			t.Error("a limit where there is none")
		}
	})
}

// Who asks too often gets 429 and hears how long to wait, by the user or by the address; operators
// do not.
func TestLimits_TooManyRequests(t *testing.T) {
	for _, keyed := range []bool{false, true} {
		var refused []string
		var mu sync.Mutex
		w := newWorld(t, keyed, Options{Rate: 1, Burst: 2, Refused: func(limit string) {
			mu.Lock()
			defer mu.Unlock()
			refused = append(refused, limit)
		}})
		get := call{method: "GET", path: "/api/rooms", status: 200}
		if keyed {
			get.token = sign(t, "p", auth.RolePlayer)
		}
		w.do(get)
		w.do(get)
		get.status, get.want = 429, []string{`"code":"rate_limited"`, `"retry":true`}
		if r := w.do(get); r.Header.Get("Retry-After") != "1" {
			t.Errorf("Retry-After: %s", r.Header.Get("Retry-After"))
		}
		if len(refused) != 1 || refused[0] != transport.LimitAPIRate {
			t.Errorf("counted: %v", refused)
		}
		for range 5 {
			w.do(call{method: "GET", path: "/api/rooms", operator: true, status: 200})
		}
		if !keyed {
			continue
		}
		w.do(call{method: "GET", path: "/api/rooms", token: sign(t, "q", auth.RolePlayer), status: 200})
		for _, status := range []int{401, 401, 429} { // who guesses tokens
			w.do(call{method: "GET", path: "/api/rooms", token: "x", status: status})
		}
	}
}

// slow keeps each list back until it is let go.
type slow struct {
	Rooms
	came, goes chan struct{}
}

func (s *slow) Lobby(ctx context.Context) (*coordinator.Lobby, error) {
	s.came <- struct{}{}
	select {
	case <-s.goes:
		return s.Rooms.Lobby(ctx)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Requests that take long keep further ones out, and operators have places of their own.
func TestLimits_AtOnce(t *testing.T) {
	w := newWorld(t, false, Options{Rate: -1})
	rooms := &slow{w.rooms, make(chan struct{}), make(chan struct{})}
	w.api.rooms = rooms
	var wg sync.WaitGroup
	for range maxOfOne {
		wg.Go(func() { w.do(call{method: "GET", path: "/api/rooms", status: 200}) })
		redistest.Receive(t, rooms.came, "a request")
	}
	r := w.do(call{method: "GET", path: "/api/rooms", status: 429, want: []string{"16 requests from your address"}})
	if r.Header.Get("Retry-After") == "" {
		t.Error("it does not say when to come again")
	}
	w.do(call{method: "PUT", path: "/api/rooms/42", body: "{}", operator: true, status: 200})
	close(rooms.goes)
	wg.Wait()
	wg.Go(func() { <-rooms.came })
	w.do(call{method: "GET", path: "/api/rooms", status: 200})
	wg.Wait()
}

// failing fails as it is told.
type failing struct {
	Rooms
	err error
}

func (f *failing) Do(context.Context, string, room.Action) (room.Result, error) {
	return room.Result{Snapshot: room.Snapshot{Epoch: "e", Version: 1}}, f.err
}

// Each error of the rooms has a status of its own, and the code of the protocol. Nothing of Redis is
// told.
func TestErrors_Problems(t *testing.T) {
	w := newWorld(t, false, Options{})
	for err, want := range map[error]struct {
		status int
		code   string
	}{
		room.ErrInvalid:     {400, protocol.CodeBadRequest},
		room.ErrFull:        {409, protocol.CodeRoomFull},
		room.ErrSeatTaken:   {409, protocol.CodeSeatTaken},
		room.ErrBanned:      {409, protocol.CodeBanned},
		room.ErrRoomClosed:  {409, protocol.CodeClosed},
		room.ErrConflict:    {412, protocol.CodeConflict},
		room.ErrForbidden:   {403, protocol.CodeForbidden},
		room.ErrDuplicate:   {409, protocol.CodeDuplicateUser},
		room.ErrNotMember:   {409, protocol.CodeNotMember},
		room.ErrBusy:        {503, protocol.CodeBusy},
		room.ErrUnknown:     {504, protocol.CodeUnknown},
		room.ErrUnavailable: {503, protocol.CodeUnavailable},
		room.ErrClosed:      {503, protocol.CodeUnavailable},
		errors.New("x"):     {500, protocol.CodeInternal},
	} {
		w.api.rooms = &failing{w.rooms, fmt.Errorf("%w: redis://secret", err)}
		r := w.do(call{method: "PUT", path: "/api/rooms/42", body: "{}", operator: true, status: want.status, want: []string{`"code":"` + want.code + `"`, `"type":"urn:roomd:problem:` + want.code + `"`}})
		if (r.Header.Get("Retry-After") != "") != (want.status == 503) {
			t.Errorf("%v: Retry-After %q", err, r.Header.Get("Retry-After"))
		}
	}
}
