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
)

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
		if err != nil {
			t.Fatalf("%v after %q", err, all[:n])
		}
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
