package node

import (
	"container/list"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"

	"roomd/room/episode"
)

// gate is a listener that keeps a bounded number of connections open. Beyond that, each
// new one costs the oldest that is not a WebSocket yet its place: a game client becomes
// one within a round trip, so connections that are only held open keep nobody out.
type gate struct {
	*net.TCPListener
	max     int
	evicted *episode.Log

	mu    sync.Mutex
	open  int       // guarded by mu
	young list.List // guarded by mu: of *visitor: those that are no WebSockets, oldest first
}

// visitor is a connection that the gate counts.
type visitor struct {
	*net.TCPConn
	gate *gate

	// Guarded by gate.mu.
	place *list.Element // among the young; nil for a WebSocket
	left  bool          // not counted any more
}

// Accept returns the next connection. When the process may not open another file, it
// makes room in the same way.
func (g *gate) Accept() (net.Conn, error) {
	for {
		conn, err := g.AcceptTCP()
		switch {
		case err == nil:
			if v := g.admit(conn); v != nil {
				return v, nil
			}
		case !errors.Is(err, syscall.EMFILE) || !g.evict(err):
			return nil, err
		}
	}
}

// admit counts a connection. It returns nil, and closes it, if there is no room.
func (g *gate) admit(conn *net.TCPConn) *visitor {
	for {
		g.mu.Lock()
		if g.open < g.max {
			v := &visitor{TCPConn: conn, gate: g}
			v.place = g.young.PushBack(v)
			g.open++
			g.mu.Unlock()
			return v
		}
		g.mu.Unlock()
		if !g.evict(fmt.Errorf("%d connections are open, the limit", g.max)) {
			_ = conn.Close()
			return nil
		}
	}
}

// evict closes the oldest connection that is not a WebSocket, and reports whether there
// was one.
func (g *gate) evict(why error) bool {
	g.evicted.Happened(why)
	g.mu.Lock()
	oldest := g.young.Front()
	g.mu.Unlock()
	if oldest == nil {
		return false
	}
	_ = oldest.Value.(*visitor).Close()
	return true
}

// changed is told by net/http what becomes of a connection.
func (g *gate) changed(conn net.Conn, state http.ConnState) {
	if state != http.StateHijacked {
		return
	}
	v := conn.(*visitor)
	g.mu.Lock()
	defer g.mu.Unlock()
	v.growUpLocked()
}

func (v *visitor) growUpLocked() {
	if v.place != nil {
		v.gate.young.Remove(v.place)
		v.place = nil
	}
}

// Close closes the connection and gives its place back.
func (v *visitor) Close() error {
	err := v.TCPConn.Close()
	v.gate.mu.Lock()
	defer v.gate.mu.Unlock()
	v.growUpLocked()
	if !v.left {
		v.left = true
		v.gate.open--
	}
	return err
}
