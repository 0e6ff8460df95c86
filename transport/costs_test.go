//go:build !race

package transport

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
	"roomd/room/coordinator"
)

// What a WebSocket costs, in allocations of the whole process; the clients make none. Who makes it cheaper lowers the
// numbers here; a change that needs more says why. (The race detector allocates, too.)
var costs = []struct {
	name   string
	allocs float64
	start  func(*testing.T) (act func())
}{
	{"a join and a leave, without the rooms", 12, requestCost},
	{"an event to three members", 5, eventCost},
	{"an action at a table of four", 42, tableCost},
}

func TestCosts(t *testing.T) {
	for _, c := range costs {
		t.Run(c.name, func(t *testing.T) {
			act := c.start(t)
			for range 100 { // what is kept, to be used again
				act()
			}
			const tolerance = 1.1 // a collection empties pools
			got := testing.AllocsPerRun(400, act)
			t.Logf("%.0f allocations", got)
			redistest.ErrorIf(t, got > c.allocs*tolerance, "%.0f allocations; %v are known", got, c.allocs)
		})
	}
}

func requestCost(t *testing.T) (act func()) {
	c := serve(t, newBenchRooms(), Options{Rate: -1}).benchClient(t, "player-3")
	join, leave := masked(join42), masked(leave42)
	joined, left := c.length(join), c.length(leave)
	return func() {
		c.ask(join, joined)
		c.ask(leave, left)
	}
}

func eventCost(t *testing.T) (act func()) {
	rooms := newBenchRooms()
	s := serve(t, rooms, Options{Rate: -1})
	var clients []*benchClient
	for i := range 3 {
		c := s.benchClient(t, fmt.Sprint("player-", i))
		c.length(masked(join42))
		clients = append(clients, c)
	}
	version := uint64(1 << 32)
	return func() {
		version++
		e := &room.Event{Room: "42", Epoch: "abcdefghijklmnop", Version: version, From: version - 1,
			Changes: []room.Change{{Type: room.KindJoin, User: "player-3", Seat: 3}}}
		for _, tell := range rooms.watches {
			tell(e)
		}
		for _, c := range clients {
			c.frame()
		}
	}
}

// tableCost is the whole path, with a Redis of its own: one member comes and goes, three stay and hear of it.
func tableCost(t *testing.T) (act func()) {
	s := startOn(t, redistest.Start(t).Client(), coordinator.Options{}, Options{Rate: -1, PingInterval: time.Hour})
	join, leave := masked(join42), masked(leave42)
	var staying []*benchClient
	hear := func() {
		for _, c := range staying {
			c.frame()
		}
	}
	for i := range 3 {
		c := s.benchClient(t, fmt.Sprint("player-", i))
		_, _ = c.raw.Write(join)
		c.frame()
		hear()
		staying = append(staying, c)
	}
	actor, inside := s.benchClient(t, "player-3"), false
	return func() {
		request := join
		if inside {
			request = leave
		}
		inside = !inside
		_, _ = actor.raw.Write(request)
		actor.frame()
		hear()
	}
}

// A silent connection whose user is in a room takes 9 KiB: half of it is the stack of its
// goroutine, which is small because it waits where little of it is in use, and no buffer is kept
// for what may arrive. With a stack of twice the size it is more than 12 KiB. The figure includes
// the client's end of the connection. (The race detector needs larger stacks.)
func TestMemory_Connection(t *testing.T) {
	const n, most = 400, 12 << 10
	server := start(t, room.Rules{}, Options{})
	connect := func(i int) net.Conn {
		c, err := net.Dial("tcp", server.addr)
		redistest.OK(t, err)
		t.Cleanup(func() { c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprintf(c, "GET /ws?user=u%d HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AQIDBAUGBwgJCgsMDQ4PEA==\r\n\r\n", i, server.addr)
		readUntil(t, c, "\r\n\r\n")
		_, _ = io.WriteString(c, text(fmt.Sprintf(`{"id":1,"action":"join","room":"%d"}`, i/10)))
		readUntil(t, c, `{"id":1,`)
		return c
	}
	for i := range 100 { // what is made once, and kept
		connect(i).Close()
	}
	before := memoryInUse()
	var conns []net.Conn
	for i := range n {
		conns = append(conns, connect(100+i))
	}
	if got := (memoryInUse() - before) / n; got > most {
		t.Errorf("a connection takes %d bytes, more than %d", got, most)
	} else {
		t.Logf("a connection takes %d bytes", got)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	redistest.Until(t, "nothing runs for clients that are gone", func() bool { return runtime.NumGoroutine() < n/4 })
}

func readUntil(t *testing.T, c net.Conn, end string) {
	t.Helper()
	var all [4096]byte
	for n := 0; ; {
		m, err := c.Read(all[n:])
		if n += m; bytes.Contains(all[:n], []byte(end)) {
			return
		}
		redistest.FatalIf(t, err != nil, "%v after %q", err, all[:n])
	}
}

// memoryInUse returns the bytes of the heap and of the goroutines' stacks.
func memoryInUse() int {
	for range 4 { // each may halve a stack
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc + m.StackInuse)
}
