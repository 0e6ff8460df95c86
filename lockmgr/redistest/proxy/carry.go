package proxy

import (
	"io"
	"net"
	"time"
)

// Way is a direction of a connection.
type Way int

// The two directions.
const (
	ToServer Way = iota
	ToClient
)

// parcels is how many pieces of a connection may be under way in each direction.
const parcels = 256

// parcel is a piece of the data in one direction. Empty data mean the end.
type parcel struct {
	due  time.Time
	data []byte
}

// The faults below are for a Proxy without an Exchange, which carries bytes of any protocol.

// Lag delays everything by d in each direction, from now on.
func (p *Proxy) Lag(d time.Duration) { p.lag.Store(int64(d)) }

// PauseWay is like Pause for one direction. Resume ends it.
func (p *Proxy) PauseWay(way Way) { p.ways[way].close() }

// Reset ends all connections with a TCP reset at both ends.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		for _, conn := range []net.Conn{l.client, l.server} {
			if tcp, ok := conn.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
		}
		l.cut()
	}
}

// Swallow drops the server's next bytes on each connection, and ends that connection: the server has executed
// the request, and the client does not know.
func (p *Proxy) Swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.swallow.Store(true)
	}
}

// carry forwards bytes in both directions, until both sides have hung up or the connection is cut.
func (l *link) carry() {
	ended := make(chan struct{})
	l.p.wg.Go(func() {
		defer close(ended)
		l.pipe(l.server, l.client, ToServer)
	})
	l.pipe(l.client, l.server, ToClient)
	<-ended
}

func (l *link) pipe(to, from net.Conn, way Way) {
	under := make(chan parcel, parcels)
	l.p.wg.Go(func() { l.collect(under, from) })
	late := time.NewTimer(0)
	defer late.Stop()
	var exact alarm
	defer exact.close()
	for next := range under {
		late.Reset(time.Until(next.due))
		exact.set(next.due)
		select {
		case <-late.C:
		case <-l.done:
			return
		}
		if !l.p.gate.pass(l.done) || !l.p.ways[way].pass(l.done) {
			return
		}
		if way == ToClient && l.swallow.Load() {
			l.cut()
			return
		}
		if len(next.data) == 0 {
			if tcp, ok := to.(*net.TCPConn); !ok || tcp.CloseWrite() != nil {
				l.cut()
			}
			return
		}
		if _, err := to.Write(next.data); err != nil {
			l.cut()
			return
		}
	}
}

// collect reads one direction, and computes when pipe is to send each piece.
func (l *link) collect(under chan<- parcel, from io.Reader) {
	defer close(under)
	for {
		data := make([]byte, 4096)
		n, err := from.Read(data)
		due := time.Now().Add(time.Duration(l.p.lag.Load()))
		for _, piece := range [][]byte{data[:n], nil} {
			if piece == nil && err == nil || piece != nil && n == 0 {
				continue
			}
			select {
			case under <- parcel{due, piece}:
			case <-l.done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}
