package transport

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rs/zerolog"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

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
			if answer.Code != http.StatusForbidden || !strings.Contains(answer.Body.String(), "--allow-origin") {
				t.Fatalf("answered %d %s", answer.Code, answer.Body)
			}
		}
		redistest.OK(t, s.Shutdown(t.Context()))
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		redistest.FatalIf(t, len(lines) != 2 || len(log.String()) > 2000,
			"logged %d lines, %d bytes", len(lines), log.Len())
		for _, part := range []string{"level=WARN", "pages of another origin are refused", `https://evil-0.example\\n`, "--allow-origin"} {
			if !strings.Contains(lines[0], part) {
				t.Errorf("the first line does not have %s: %s", part, lines[0])
			}
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
