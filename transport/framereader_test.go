package transport

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/transport/internal/session"
	"roomd/transport/internal/ws"
	"roomd/transport/internal/ws/wstest"
	"roomd/transport/protocol"
)

func TestFlood_Fragments(t *testing.T) {
	runCases(t, []frameCase{
		{"as many as allowed", together(wstest.Fragments(usersOf(1), ws.MaxFragments)), "1"},
		{"one more", together(wstest.Fragments(usersOf(1), ws.MaxFragments+1)), "close 1008"},
		{"never the last", together(first(""), strings.Repeat(more(""), 1000)), "close 1008"},
		{"never the last, one byte each", together(first("x"), strings.Repeat(more("x"), 1000)), "close 1008"},
		{"with pings between them", together(first(""), strings.Repeat(more("")+pong(""), session.NoopBurst)), "close 1008"},
	})
}

// Whoever sends frames that ask for nothing is cut off. That takes no time here, so the rate
// gives nobody a further frame.
func TestFlood_CutOff(t *testing.T) {
	for name, unit := range map[string]string{
		"pongs":     pong("x"),
		"fragments": first("{") + last("}"),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t, sizedRooms{}, Options{Rate: -1})
			c := s.connectRawAs(t, "a")
			go c.write(strings.Repeat(unit, session.NoopBurst), text(usersOf(7)), strings.Repeat(unit, 100))
			got := strings.TrimSpace(strings.ReplaceAll(c.readAll(), "bad_request ", ""))
			want := fmt.Sprint("7 close ", protocol.CloseTooMany)
			redistest.ErrorIf(t, got != want, "%s: got %q, want %q", name, got, want)
		})
	}
}

// A client may always send spare frames at the rate, and after a pause all at once.
func TestFlood_AtTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sizedRooms{}, Options{PingInterval: time.Hour})
		c := s.connectRawAs(t, "a")
		for range 10 * 60 {
			c.write(strings.Repeat(pong(""), session.NoopRate))
			time.Sleep(time.Second)
		}
		time.Sleep((session.NoopBurst/session.NoopRate + 1) * time.Second)
		go c.write(strings.Repeat(pong(""), session.NoopBurst), text(usersOf(1)), closing(1000, ""))
		redistest.Equal(t, "got", c.readAll(), "1 close 1000")
	})
}

// A message that never ends ends the connection, whatever comes between its fragments.
func TestFrames_MessageMustEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, sizedRooms{}, Options{})
		c := s.connectRawAs(t, "a")
		start := time.Now()
		var sending sync.WaitGroup
		defer sending.Wait()
		sending.Go(func() {
			c.write(first("{"))
			for range 30 {
				c.write(pong(""))
				time.Sleep(10 * time.Second)
			}
			_ = c.raw.Close()
		})
		c.readAll()
		took := time.Since(start)
		redistest.ErrorIf(t, took > 3*DefaultPingInterval, "the connection lasted %v", took)
	})
}
