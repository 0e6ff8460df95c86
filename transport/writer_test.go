package transport

import (
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// countingConn counts writes, which would be system calls.
type countingConn struct {
	net.Conn
	n *atomic.Int64
}

func (c countingConn) Write(p []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(p)
}

// What was queued during a write is written together.
func TestWriter_FramesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{})
		var writes atomic.Int64
		s.pipes.wrap = func(c net.Conn) net.Conn { return countingConn{c, &writes} }
		a := s.connectIdle(t, "a")
		a.exchange(watch42, `{"id":4,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
		a.exchange(`{"id":4,"action":"watch","room":"43"}`, `{"id":4,"room":"43","epoch":"","version":0,"count":0,"users":[]}`)
		writes.Store(0)
		s.joins(t, "b", "42") // keeps the writer busy
		for _, user := range []string{"c", "d"} {
			s.joins(t, user, "42")
			s.joins(t, user, "43")
		}
		a.send(`{"id":5,"action":"users","room":"44"}`)
		synctest.Wait()
		start := time.Now()
		a.expect(`{"event":"changes","room":"42","version":1,"from":0,"changes":[{"type":"join","user":"b","seat":0}]}`)
		a.expect(`{"event":"changes","room":"42","version":3,"from":1,"changes":[{"type":"join","user":"c","seat":1},{"type":"join","user":"d","seat":2}]}`)
		a.expect(`{"event":"changes","room":"43","version":2,"from":0,"changes":[{"type":"join","user":"c","seat":0},{"type":"join","user":"d","seat":1}]}`)
		a.expect(`{"id":5,"room":"44","epoch":"","version":0,"count":0,"users":[]}`)
		n := writes.Load()
		redistest.ErrorIf(t, n != 2 || time.Since(start) > 0, "%d writes, in %v", n, time.Since(start))
	})
}

// Events that the client does not read do not delay its requests.
func TestWriter_EventsDoNotDelayRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, room.Rules{}, Options{})
		a := s.connectIdle(t, "a")
		a.exchange(watch42, `{"id":4,"room":"42","epoch":"","version":0,"count":0,"users":[]}`)
		a.send(`{"id":5,"action":"users","room":"43"}`)
		synctest.Wait() // the reply waits to be read
		s.joins(t, "b", "42")
		a.expect(`{"id":5,"room":"43","epoch":"","version":0,"count":0,"users":[]}`)
		synctest.Wait() // the event waits, too
		_ = a.ws.SetWriteDeadline(time.Now().Add(time.Second))
		a.send(`{"id":6,"action":"users","room":"43"}`)
		a.expect(`{"event":"changes","room":"42","version":1,"from":0,"changes":[{"type":"join","user":"b","seat":0}]}`)
		a.expect(`{"id":6,"room":"43","epoch":"","version":0,"count":0,"users":[]}`)
	})
}

// A client that does not read is cut off after WriteTimeout, or up to an eighth later.
func TestWriter_ClientThatDoesNotRead(t *testing.T) {
	for _, quiet := range []time.Duration{0, time.Second, 2 * time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, room.Rules{}, Options{Grace: -1, WriteTimeout: 8 * time.Second, PingInterval: time.Hour})
			a := s.connectIdle(t, "a")
			a.exchange(join42, `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
			time.Sleep(quiet)
			s.joins(t, "b", "42")
			start := time.Now()
			for strings.HasPrefix(s.members(t, "42"), "a") {
				redistest.FatalIf(t, time.Since(start) > time.Minute, "it is still in the room")
				time.Sleep(100 * time.Millisecond)
			}
			if took := time.Since(start); took < 8*time.Second || took > 9*time.Second+200*time.Millisecond {
				t.Errorf("cut off after %v", took)
			}
		})
	}
}
