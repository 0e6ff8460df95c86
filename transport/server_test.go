package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/internal/ws"
	"roomd/transport/protocol"
)

func TestError_Codes(t *testing.T) {
	for err, code := range map[error]string{
		&room.InvalidError{Field: "user"}: protocol.CodeBadRequest,
		room.ErrFull:                      protocol.CodeRoomFull,
		room.ErrSeatTaken:                 protocol.CodeSeatTaken,
		room.ErrNotMember:                 protocol.CodeNotMember,
		room.ErrForbidden:                 protocol.CodeForbidden,
		room.ErrDuplicate:                 protocol.CodeDuplicateUser,
		room.ErrBusy:                      protocol.CodeBusy,
		room.ErrUnavailable:               protocol.CodeUnavailable,
		room.ErrUnknown:                   protocol.CodeUnknown,
		room.ErrClosed:                    protocol.CodeUnavailable,
		errors.New("dial 10.0.0.1"):       protocol.CodeInternal,
	} {
		got := ErrorOf(fmt.Errorf("wrapped: %w", err))
		redistest.ErrorIf(t, got.Code != code, "%v became %v, want %s", err, got, code)
		redistest.ErrorIf(t, strings.Contains(got.Message, "10.0.0.1"), "%v shows clients where Redis is", got)
	}
}

func TestOptions_Bad(t *testing.T) {
	s := start(t, room.Rules{}, Options{})
	for name, opts := range map[string]Options{
		"MaxConnections": {MaxConnections: -1}, "PingInterval": {PingInterval: -1}, "WriteTimeout": {WriteTimeout: -1},
		"HandshakeTimeout": {HandshakeTimeout: -1}, "LeaveTimeout": {LeaveTimeout: -1},
		"MaxRooms": {MaxRooms: -1}, "AuthTimeout": {AuthTimeout: -1}, "Burst": {Burst: -1}, "Burst must": {Burst: maxRate + 1},
		"Rate": {Rate: maxRate + 1}, "MaxFrame": {MaxFrame: -1}, "MaxFrame must": {MaxFrame: minFrame - 1}, "from 1024": {MaxFrame: maxFrame + 1},
		"TrustProxy": {TrustProxy: []netip.Prefix{{}}}, "TrustProxy must": {TrustProxy: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}},
		"not \"https://game.example/\"": {AllowOrigins: []string{"https://game.example/"}},
		"not \"game.example\"":          {AllowOrigins: []string{"https://game.example", "game.example"}},
		"not \"\"":                      {AllowOrigins: []string{""}},
	} {
		_, err := New(s.rooms, opts)
		redistest.ErrorIf(t, err == nil || !strings.Contains(err.Error(), name), "%s: %v", name, err)
	}
	_, err := New(nil, Options{})
	redistest.ErrorIf(t, err == nil || !strings.Contains(err.Error(), "rooms"), "rooms: %v", err)
}

// Shutdown lets the request that runs finish and be answered, refuses new connections, and
// costs nobody a seat.
func TestShutdown_Drains(t *testing.T) {
	t.Parallel()
	s := start(t, room.Rules{}, Options{})
	rooms, rdb, entered := s.rooms, s.redis, make(chan struct{}, 2)
	s.hook.setBefore(func(context.Context, room.Action) error { entered <- struct{}{}; return nil })
	a, b := s.connect(t, "a"), s.connect(t, "b")
	a.exchange(`{"id":1,"action":"join","room":"42"}`, `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
	redistest.Receive(t, entered, "an action to begin")

	rdb.Set(t.Context(), "LockRoom:42", "somebody", 0)
	b.send(`{"id":1,"action":"join","room":"42"}`)
	redistest.Receive(t, entered, "an action to begin")
	done := s.shutdown()
	a.expectClose(protocol.CloseRestart)
	_, res, err := websocket.DefaultDialer.Dial("ws://"+s.addr+"/ws?user=c", nil)
	redistest.ErrorIf(t, err == nil || res.StatusCode != 503, "a new connection: %v", err)
	rdb.Del(t.Context(), "LockRoom:42")
	b.expect(`{"id":1,"room":"42","version":2,"seat":1,"count":2,"users":[{"user":"a","seat":0},{"user":"b","seat":1}]}`)
	b.expectClose(protocol.CloseRestart)
	redistest.OK(t, redistest.Receive(t, done, "Shutdown"))
	if r, err := rooms.Read(t.Context(), "42"); err != nil || fmt.Sprint(r.Users()) != "[{a 0 false false } {b 1 false false }]" {
		t.Errorf("after the shutdown the room holds %v, %v", r.Users(), err)
	}
}

// At a close with 1012 what has no reply was not begun: the request that runs is answered first, and those behind it
// are not done. Where the reply cannot be given there is no close frame.
func TestShutdown_NotAnsweredNotBegun(t *testing.T) {
	for name, tt := range map[string]struct {
		outcome func() error // of the request that runs
		want    string
	}{
		"done":    {func() error { return nil }, "1 close 1012"},
		"refused": {func() error { return room.ErrUnknown }, "unknown close 1012"},
		"panic":   {func() error { panic("on purpose") }, ""},
	} {
		bubble(t, name, func(t *testing.T) {
			s, begun, goOn := start(t, room.Rules{}, Options{}), 0, make(chan struct{})
			s.hook.setBefore(func(context.Context, room.Action) error {
				begun++
				<-goOn
				return tt.outcome()
			})
			c := s.connectRaw(t)
			c.write(together(text(`{"id":1,"action":"join","room":"42"}`), text(`{"id":2,"action":"join","room":"43"}`))...)
			synctest.Wait()
			done := s.shutdown()
			time.Sleep(defaultDrainSpread) // virtual: the close is decided
			close(goOn)
			redistest.Equal(t, "the client gets", c.readAll(), tt.want)
			_ = c.raw.Close()
			redistest.OK(t, redistest.Receive(t, done, "Shutdown"))
			redistest.Equal(t, "requests begun", begun, 1)
		})
	}
}

// When the ctx of Shutdown ends, it cuts off the connections that are left.
func TestShutdown_CutShort(t *testing.T) {
	s, entered := start(t, room.Rules{}, Options{}), make(chan struct{})
	s.hook.reading = func(ctx context.Context, _ string) error {
		close(entered)
		<-ctx.Done()
		return ctx.Err()
	}
	p := s.connect(t, "a")
	p.send(`{"id":1,"action":"users","room":"42"}`)
	redistest.Receive(t, entered, "a read to begin")
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	redistest.ErrorIs(t, "shutdown", s.Shutdown(ctx), enough)
}

// A server that shuts down is not ready at once, and closes its connections at even intervals.
func TestDrain_Spread(t *testing.T) {
	for _, tt := range []struct {
		name    string
		spread  time.Duration
		timeout time.Duration
		want    []int // milliseconds
	}{
		{"by default", 0, time.Minute, []int{0, 600, 1200, 1800, 2400}},
		{"as asked for", 10 * time.Second, time.Minute, []int{0, 2000, 4000, 6000, 8000}},
		{"not at all", -1, time.Minute, []int{0, 0, 0, 0, 0}},
		{"with little time", 0, 2 * time.Second, []int{0, 200, 400, 600, 800}},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			s := start(t, room.Rules{}, Options{DrainSpread: tt.spread})
			closed := make(chan int, 5)
			var start time.Time
			for i := range 5 {
				v := s.connect(t, fmt.Sprint("u", i))
				v.send(join42)
				time.Sleep(time.Second)
				go func() {
					if err := <-v.closed; !websocket.IsCloseError(err, protocol.CloseRestart) {
						t.Errorf("closed with %v", err)
					}
					closed <- int(time.Since(start).Milliseconds())
				}()
			}
			start = time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), tt.timeout)
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- s.Shutdown(ctx) }()
			time.Sleep(time.Nanosecond)
			answer := httptest.NewRecorder()
			s.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/readyz", nil))
			redistest.ErrorIf(t, answer.Code != http.StatusServiceUnavailable, "readyz: %d", answer.Code)
			redistest.OK(t, redistest.Receive(t, done, "Shutdown"))
			var got []int
			for range 5 {
				got = append(got, redistest.Receive(t, closed, "a connection to be closed"))
			}
			redistest.ErrorIf(t, !slices.Equal(got, tt.want), "closed after %v ms, want %v", got, tt.want)
			s.expectMembers(t, "42", "u0 u1 u2 u3 u4")
		})
	}
}

// Shutdown does not wait for the turn of a connection that has ended.
func TestDrain_EndsWithTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{DrainSpread: time.Hour})
		var all []*testClient
		for i := range 5 {
			all = append(all, s.connect(t, fmt.Sprint("u", i)))
		}
		start := time.Now()
		done := s.shutdown()
		time.Sleep(time.Second)
		for _, v := range all {
			v.cut()
		}
		err := redistest.Receive(t, done, "Shutdown")
		redistest.ErrorIf(t, err != nil || time.Since(start) > time.Second, "%v after %v", err, time.Since(start))
	})
}

// A client that does not read delays Shutdown by a few seconds at most, and not beyond the end of its ctx.
func TestShutdown_ClientsThatDoNotRead(t *testing.T) {
	for most, want := range map[time.Duration]error{
		15 * time.Second: nil, time.Second: context.DeadlineExceeded,
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t, sizedRooms{}, Options{})
			for i := range 5 {
				p := s.connectIdle(t, fmt.Sprint("u", i))
				go func() {
					for p.ws.WriteMessage(1, []byte(`{"id":1,"action":"users","room":"2000"}`)) == nil {
					}
				}()
			}
			time.Sleep(time.Second)
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), most)
			defer cancel()
			err, took := s.Shutdown(ctx), time.Since(start)
			redistest.ErrorIf(t, !errors.Is(err, want) || took > min(most, defaultDrainSpread+ws.CloseTimeout+2*ws.LingerTimeout),
				"drained in %v: %v", took, err)
		})
	}
}

// A request that runs longer than CloseTimeout is answered all the same.
func TestShutdown_LongRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sizedRooms{}, Options{})
		a := s.connectIdle(t, "a")
		a.send(`{"id":1,"action":"users","room":"9s"}`)
		synctest.Wait()
		done := s.shutdown()
		a.expectEnd(`{"user":"player-8","seat":8}]}`)
		a.expectClose(protocol.CloseRestart)
		redistest.OK(t, redistest.Receive(t, done, "Shutdown"))
	})
}
