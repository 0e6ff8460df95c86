package transport

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/transport/protocol"
)

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
