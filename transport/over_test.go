package transport

import (
	"context"
	"net"
	"testing"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// A client sends a join, ends the connection, and comes back through another one before the server gets to the join:
// that does not take the seat from the newer session.
func TestJoin_BehindWhichTheClientHasClosed(t *testing.T) {
	for how, end := range map[string]func(c *rawClient){
		"close frame":       func(c *rawClient) { c.write(rawFrame(0x88, "\x03\xe8")) },
		"far close frame":   func(c *rawClient) { c.write(rawFrame(0x81, string(make([]byte, 3000))), rawFrame(0x88, "\x03\xe8")) },
		"end of connection": func(c *rawClient) { _ = c.raw.Close() },
		"reset":             func(c *rawClient) { _ = c.raw.(*net.TCPConn).SetLinger(0); _ = c.raw.Close() },
	} {
		t.Run(how, func(t *testing.T) {
			server, begun := start(t, room.Rules{}, Options{}), make(chan struct{}, 9)
			open := server.hook.gate(room.KindMessage, func() { begun <- struct{}{} })

			older := server.connectRawAs(t, "a")
			older.write(rawFrame(0x81, `{"id":1,"action":"say","room":"42","text":"hello"}`))
			redistest.Receive(t, begun, "the first request")
			older.write(rawFrame(0x81, `{"id":2,"action":"join","room":"42"}`)) // is read after that
			end(older)
			newer := server.connect(t, "a")
			newer.exchange(join42, `{"id":1,"room":"42","version":1,"seat":0,"count":1,"users":[{"user":"a","seat":0}]}`)
			open()
			redistest.Until(t, "the older connection has ended", func() bool { return server.Connections() == 1 })
			now, err := server.rooms.Read(context.Background(), "42")
			redistest.ErrorIf(t, err != nil || now.Version != 1, "the room is at version %d (%v)", now.Version, err)
			newer.ping()
		})
	}
}

// A join that the client sends and then closes is done where it takes no seat from another session.
func TestJoin_BeforeTheClientHasClosed(t *testing.T) {
	server := start(t, room.Rules{}, Options{})
	c := server.connectRawAs(t, "a")
	c.write(rawFrame(0x81, join42) + rawFrame(0x88, "\x03\xe8"))
	redistest.Equal(t, "got", c.readAll(), "1 close 1000")
}
