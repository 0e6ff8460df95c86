package transport

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rs/zerolog"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/internal/session"
	"roomd/transport/protocol"
)

func withLog(log *bytes.Buffer, level slog.Level) Options {
	return Options{Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level}))}
}

// The log says at level debug who did what, with its result and duration, and at level info nothing of it.
func TestDebugLog_Requests(t *testing.T) {
	for level, want := range map[slog.Level][]string{
		slog.LevelInfo: nil,
		slog.LevelDebug: {
			`msg=request room=42 user=a action=join result=ok took=`,
			`msg=request room=43 user=a action=leave result=not_member took=`,
			`msg=request room=(invalid) user=a action=join result=bad_request took=`,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			s := start(t, room.Rules{}, withLog(&log, level))
			c := s.connect(t, "a")
			c.send(join42)
			c.send(`{"id":2,"action":"leave","room":"43"}`)
			c.send(fmt.Sprintf(`{"id":3,"action":"join","room":%q}`, strings.Repeat("x", 1000)))
			synctest.Wait()
			n := strings.Count(log.String(), "msg=request")
			redistest.ErrorIf(t, n != len(want), "%v: %d requests are logged:\n%s", level, n, &log)
			for _, line := range want {
				redistest.ErrorIf(t, !strings.Contains(log.String(), line),
					"%v: no line has %q:\n%s", level, line, &log)
			}
		})
	}
}

// Clients do not decide how much is logged, at level debug neither.
func TestDebugLog_Bounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := session.NewDebugLog(withLog(&log, slog.LevelDebug).Log, stopwatch())
		for range 10 * session.MaxDebugLines {
			d.Write("connected")
		}
		redistest.Equal(t, "lines in an instant:", strings.Count(log.String(), "\n"), session.MaxDebugLines)
		time.Sleep(time.Second)
		log.Reset()
		d.Write("connected")
		d.Write("connected")
		if text := log.String(); strings.Count(text, "left_out=") != 1 || !strings.Contains(text, fmt.Sprint("left_out=", 9*session.MaxDebugLines)) {
			t.Errorf("it does not say once what it left out:\n%s", text)
		}
	})
}

// stopwatch returns the time since its call, as a Server's clock does.
func stopwatch() func() time.Duration {
	began := time.Now()
	return func() time.Duration { return time.Since(began) }
}

// Clients cannot choose how much is logged: not by requests while Redis is away, and not by
// asking for /readyz.
func TestLog_ClientsDoNotFillIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := start(t, room.Rules{}, Options{Grace: time.Second, Log: slog.New(zerolog.NewSlogHandler(zerolog.New(zerolog.SyncWriter(&log)).Level(zerolog.InfoLevel)))})
		a := s.connect(t, "a")
		a.exchange(join42, `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
		s.hook.setBefore(func(context.Context, room.Action) error { return room.ErrUnavailable })
		for range 500 {
			a.send(join42)
			a.expect(`{"id":1,"room":"42","error":{"code":"unavailable","message":"the room's store cannot be reached; nothing was written","retry":true}}`)
			time.Sleep(100 * time.Millisecond)
		}
		s.hook.unreachable.Store(true)
		for range 50 {
			answer := httptest.NewRecorder()
			s.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/readyz", nil))
			redistest.ErrorIf(t, answer.Code != http.StatusServiceUnavailable, "readyz: %d", answer.Code)
			time.Sleep(10 * time.Second)
		}
		s.hook.setBefore(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		var got []string
		for line := range strings.Lines(log.String()) {
			_, message, _ := strings.Cut(line, `"message":`)
			_, times, _ := strings.Cut(line, `"times":`)
			times, _, _ = strings.Cut(times, ",")
			got = append(got, times+strings.TrimRight(message, "}\n"))
		}
		want := `"requests are refused: unavailable" "not ready: Redis does not do what this node asks" ` +
			`500"over: requests are refused: unavailable" 50"over: not ready: Redis does not do what this node asks"`
		redistest.ErrorIf(t, strings.Join(got, " ") != want, "logged\n%s\nwant\n%s", strings.Join(got, " "), want)
	})
}

// A page of another origin is refused with a message that says how to allow it. However many
// requests come, from however many origins, the log has two lines.
func TestLog_RefusedOrigins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s, err := New(sizedRooms{}, Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		redistest.OK(t, err)
		for i := range 100 {
			request := httptest.NewRequest("GET", "http://game.example/ws?user=a", nil)
			request.Header.Set("Origin", fmt.Sprintf("https://evil-%d.example\n%s", i, strings.Repeat("x", 10_000)))
			answer := httptest.NewRecorder()
			s.Handler().ServeHTTP(answer, request)
			redistest.FatalIf(t, answer.Code != http.StatusForbidden || !strings.Contains(answer.Body.String(), "--allow-origin"),
				"answered %d %s", answer.Code, answer.Body)
		}
		redistest.OK(t, s.Shutdown(t.Context()))
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		redistest.FatalIf(t, len(lines) != 2 || len(log.String()) > 2000,
			"logged %d lines, %d bytes", len(lines), log.Len())
		for _, part := range []string{"level=WARN", "pages of another origin are refused", `https://evil-0.example\\n`, "--allow-origin"} {
			redistest.ErrorIf(t, !strings.Contains(lines[0], part),
				"the first line does not have %s: %s", part, lines[0])
		}
	})
}

// A node that is full says so in the log, once.
func TestLog_FullNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := serve(t, sizedRooms{}, Options{MaxConnections: 1, Log: slog.New(slog.NewTextHandler(&log, nil))})
		s.connectIdle(t, "a")
		for range 10 {
			dialer := websocket.Dialer{NetDialContext: s.connection}
			if _, res, err := dialer.Dial("ws://pipes/ws?user=b", nil); err == nil || res.StatusCode != http.StatusServiceUnavailable {
				t.Fatalf("a connection beyond the limit: %v", err)
			}
		}
		redistest.OK(t, s.Shutdown(t.Context()))
		if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "level=WARN") || !strings.Contains(text, "1 connections, its limit") {
			t.Errorf("logged\n%s", text)
		}
	})
}

// The log says at level debug why a connection has ended.
func TestLog_ConnectionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := start(t, room.Rules{}, Options{
			WriteTimeout: time.Second,
			Log:          slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		older, idle := s.connect(t, "a"), s.connectIdle(t, "does not read")
		older.send(join42)
		idle.send(join42)
		synctest.Wait()
		s.connect(t, "a").send(join42)
		synctest.Wait()
		time.Sleep(time.Minute)
		leaves := s.connect(t, "leaves")
		_ = leaves.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
		synctest.Wait()
		for _, want := range []string{"closed by the server (4001): replaced by a newer session", "closed by the server (4008): nothing was read for 1s", "websocket: close 1000 (normal)"} {
			redistest.ErrorIf(t, !strings.Contains(log.String(), want), "the log has no %q:\n%s", want, log.String())
		}
	})
}

// counters are what a Trace has counted.
type counters struct{ connected, merged, tooSlow, replaced, otherwise, refused atomic.Int64 }

func (n *counters) trace() *Trace {
	return &Trace{
		Refused:   func(string) { n.refused.Add(1) },
		Connected: func() { n.connected.Add(1) },
		Merged:    func(events int) { n.merged.Add(int64(events)) },
		Closed: func(code int) {
			switch code {
			case protocol.CloseTooSlow:
				n.tooSlow.Add(1)
			case protocol.CloseReplaced:
				n.replaced.Add(1)
			default:
				n.otherwise.Add(1)
			}
		},
	}
}

func (n *counters) String() string {
	return fmt.Sprintf("connected %d, merged %d, too slow %d, replaced %d, otherwise %d, refused %d",
		n.connected.Load(), n.merged.Load(), n.tooSlow.Load(), n.replaced.Load(), n.otherwise.Load(), n.refused.Load())
}

// Events that wait for a client are merged; one that reads nothing is closed; what a client
// does itself is no close of the server's.
func TestTrace_Clients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n counters
		s := start(t, room.Rules{}, Options{MaxQueue: 2000, Trace: n.trace()})
		a := s.connectIdle(t, "a")
		a.exchange(watch42, `{"id":4,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
		s.joins(t, "b", "42") // keeps the writer busy
		for i := range 4 {
			s.joins(t, fmt.Sprint("c", i), "42")
		}
		a.expect(`{"event":"changes","room":"42","version":1,"from":0,"changes":[{"type":"join","user":"b","seat":0}]}`)
		synctest.Wait()
		redistest.Equal(t, "got", n.String(), "connected 1, merged 3, too slow 0, replaced 0, otherwise 0, refused 0")
		for i := range 20 {
			s.joins(t, fmt.Sprint("d", i), "42")
		}
		redistest.Equal(t, "got", n.String(), "connected 1, merged 3, too slow 0, replaced 0, otherwise 0, refused 1")
		time.Sleep(2 * defaultWriteTimeout)
		redistest.Equal(t, "got", n.String(), "connected 1, merged 3, too slow 1, replaced 0, otherwise 0, refused 1")
		for _, code := range []uint16{1000, protocol.CloseTooSlow} {
			c := s.connect(t, "c")
			_ = c.ws.WriteControl(8, []byte{byte(code >> 8), byte(code)}, time.Now().Add(time.Second))
			c.expectClose(int(code))
		}
		redistest.Equal(t, "got", n.String(), "connected 3, merged 3, too slow 1, replaced 0, otherwise 0, refused 1")
		first := s.connect(t, "x")
		first.send(join42)
		synctest.Wait()
		s.connect(t, "x").send(join42)
		first.expectEnd(`"users":[{"user":"x","seat":0}]}`)
		first.expect(`{"event":"lost","room":"42","reason":"replaced"}`)
		first.expectClose(protocol.CloseReplaced)
		redistest.Equal(t, "got", n.String(), "connected 5, merged 3, too slow 1, replaced 1, otherwise 0, refused 1")
	})
}

func TestStats_OfServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{Grace: time.Minute})
		expect := func(want Stats) {
			t.Helper()
			synctest.Wait()
			redistest.Equal(t, "it is", s.Stats(), want)
		}
		expect(Stats{})
		a, b := s.connect(t, "a"), s.connect(t, "b")
		a.send(join42)
		a.send(`{"id":2,"action":"join","room":"43"}`)
		b.send(watch42)
		expect(Stats{Connections: 2, Rooms: 2, Members: 2, Watchers: 1})
		b.send(join42)
		expect(Stats{Connections: 2, Rooms: 2, Members: 3, Watchers: 1})
		a.cut()
		expect(Stats{Connections: 1, Rooms: 1, Members: 1, Watchers: 1, Graces: 1})
		time.Sleep(time.Minute)
		expect(Stats{Connections: 1, Rooms: 1, Members: 1, Watchers: 1})
	})
}
