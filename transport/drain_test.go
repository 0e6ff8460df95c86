package transport

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/protocol"
)

// A drained node says at once that it takes no clients, and sends those it has away
// one after the other.
func TestDrainIsSpread(t *testing.T) {
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
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mini, _ := redistest.Mini(t)
				s := startInBubble(t, mini, room.Rules{}, Options{DrainSpread: tt.spread})
				closed := make(chan int, 5)
				var start time.Time
				for i := range 5 {
					v := s.connect(t, fmt.Sprint("u", i))
					v.say(joinOf42)
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
				if answer.Code != http.StatusServiceUnavailable {
					t.Errorf("readyz: %d", answer.Code)
				}
				if err := redistest.Receive(t, done, "Shutdown"); err != nil {
					t.Fatal(err)
				}
				var got []int
				for range 5 {
					got = append(got, redistest.Receive(t, closed, "a connection to be closed"))
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("closed after %v ms, want %v", got, tt.want)
				}
				if got := s.members(t, "42"); got != "u0 u1 u2 u3 u4" {
					t.Errorf("in the room are %q", got)
				}
			})
		})
	}
}

// Those who go by themselves are not waited for.
func TestDrainEndsWithTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mini, _ := redistest.Mini(t)
		s := startInBubble(t, mini, room.Rules{}, Options{DrainSpread: time.Hour})
		var all []*visitor
		for i := range 5 {
			all = append(all, s.connect(t, fmt.Sprint("u", i)))
		}
		start := time.Now()
		done := make(chan error, 1)
		go func() { done <- s.Shutdown(context.Background()) }()
		time.Sleep(time.Second)
		for _, v := range all {
			v.cut()
		}
		if err := redistest.Receive(t, done, "Shutdown"); err != nil || time.Since(start) > time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
