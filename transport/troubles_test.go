package transport

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// Clients do not choose how much is logged: not by what they ask for while Redis is
// away, nor by going away themselves, nor by asking whether the node is ready.
func TestClientsDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, _ := redistest.Mini(t)
		var log bytes.Buffer
		s := startInBubble(t, mini, room.Rules{}, Options{Grace: time.Second, Log: slog.New(zerolog.NewSlogHandler(zerolog.New(zerolog.SyncWriter(&log)).Level(zerolog.InfoLevel)))})
		a := s.connect(t, "a")
		a.say(joinOf42)
		a.hear(`{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
		s.hook.set(func(context.Context, room.Action) error { return room.ErrUnavailable })
		for range 500 {
			a.say(joinOf42)
			a.hear(`{"id":1,"error":{"code":"unavailable","message":"the room's store cannot be reached; nothing was written","retry":true}}`)
			time.Sleep(100 * time.Millisecond)
		}
		s.hook.deaf.Store(true)
		for range 50 {
			answer := httptest.NewRecorder()
			s.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/readyz", nil))
			if answer.Code != http.StatusServiceUnavailable {
				t.Errorf("readyz: %d", answer.Code)
			}
			time.Sleep(10 * time.Second)
		}
		s.hook.set(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		var got []string
		for line := range strings.Lines(log.String()) {
			_, message, _ := strings.Cut(line, `"message":`)
			_, times, _ := strings.Cut(line, `"times":`)
			times, _, _ = strings.Cut(times, ",")
			got = append(got, times+strings.TrimRight(message, "}\n"))
		}
		want := `"requests are refused: unavailable" "not ready: Redis does not answer" ` +
			`500"over: requests are refused: unavailable" 50"over: not ready: Redis does not answer"`
		if strings.Join(got, " ") != want {
			t.Errorf("logged\n%s\nwant\n%s", strings.Join(got, " "), want)
		}
	})
}
