// Package proxy is a network between clients and one Redis server that fails at a chosen request. It parses
// requests and replies of RESP2 and RESP3. So an [Exchange] decides for each request whether the server executes it,
// and whether the client gets the reply. Package redistest has this for tests. Without an Exchange the proxy
// carries the bytes of any protocol, and the whole network fails: it is late or silent, resets connections, or
// drops the next reply (carry.go).
//
// Each connection has one goroutine, or two once it subscribes, or four without an Exchange; they end with
// [Proxy.Close].
package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
)

// Action says how a connection goes on after one of its requests.
type Action int

const (
	// Pass sends the reply to the client.
	Pass Action = iota

	// Cut ends the client's connection after the replies to earlier requests, without a reply to this one. The
	// server gets nothing more of that connection.
	Cut

	// Silence keeps this reply and all later ones of that connection, which stays open.
	Silence
)

// Exchange decides about one request. args[0], the command, is in upper case. carryOut sends the request to the
// server, and returns the whole reply; if it is not called, the server never gets the request. A SUBSCRIBE has
// no reply here: from then on the proxy only carries its connection.
//
// Exchange is called in the goroutine of the connection. While it blocks, later requests of the same connection
// wait; other connections do not.
type Exchange func(args []string, carryOut func() (reply []byte, err error)) Action

// Proxy listens on a loopback port. It is safe for concurrent use. It carries the requests of a connection one
// after the other, each with its reply. It does not understand MONITOR, replication and CLIENT REPLY.
type Proxy struct {
	dial     func(ctx context.Context) (net.Conn, error)
	exchange Exchange
	message  func()
	listener net.Listener
	gate     gate           // closed while the proxy is paused
	ways     [2]gate        // closed while one way is paused
	lag      atomic.Int64   // delay of everything, in ns
	wg       sync.WaitGroup // the accept loop and every connection
	life     context.Context
	end      context.CancelFunc

	mu    sync.Mutex
	links map[*link]struct{} // guarded by mu
}

// Start returns a proxy in front of the server that dial connects to. If exchange is nil, the proxy carries bytes of
// any protocol. message, if not nil, is called before messages of a subscribed connection go on to the client.
func Start(dial func(ctx context.Context) (net.Conn, error), exchange Exchange, message func()) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if message == nil {
		message = func() {}
	}
	p := &Proxy{dial: dial, exchange: exchange, message: message, listener: l, links: make(map[*link]struct{})}
	p.life, p.end = context.WithCancel(context.Background())
	p.wg.Go(p.accept)
	return p, nil
}

// Addr returns the host:port where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Carries returns how many connections the proxy carries.
func (p *Proxy) Carries() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// Cut ends all connections, and drops all data under way on them. It accepts new ones.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Pause stops forwarding in both directions, like a network that loses everything:
// connections stay open, new ones are accepted, and nothing arrives.
func (p *Proxy) Pause() { p.gate.close() }

// Resume ends Pause and PauseWay. Data that were sent meanwhile arrive now, in order.
func (p *Proxy) Resume() {
	p.gate.open()
	for i := range p.ways {
		p.ways[i].open()
	}
}

// Close cuts all connections, and waits for the proxy's goroutines.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.end() // with mu held: no link is added after this
	p.mu.Unlock()
	p.Cut()
	p.wg.Wait()
}

// accept ends when the listener is closed.
func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

// serve connects client to the server, and returns when both connections have ended.
func (p *Proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := p.dial(p.life)
	if err != nil {
		return // the client sees the server hang up
	}
	l := &link{p: p, client: client, server: server, done: make(chan struct{})}
	defer l.cut()
	p.mu.Lock()
	if p.life.Err() == nil {
		p.links[l] = struct{}{}
	} else {
		l.cut()
	}
	p.mu.Unlock()
	if p.exchange == nil {
		l.carry()
	} else {
		l.run()
	}
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// link is one client's connection through a Proxy.
type link struct {
	p              *Proxy
	client, server net.Conn
	once           sync.Once
	done           chan struct{} // closed by cut
	swallow        atomic.Bool   // drop the server's next bytes
}

func (l *link) cut() {
	l.once.Do(func() {
		close(l.done)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

// run carries requests and replies until either side hangs up or the connection has to be cut.
func (l *link) run() {
	requests, replies := bufio.NewReader(l.client), bufio.NewReader(l.server)
	for silent := false; ; {
		args, raw, err := readRequest(requests)
		if err != nil {
			break
		}
		if len(args) == 0 {
			continue // Redis does not answer an empty request either
		}
		args[0] = strings.ToUpper(args[0])
		streams := strings.HasSuffix(args[0], "SUBSCRIBE")
		var reply []byte
		var failed error
		action := l.p.exchange(args, func() ([]byte, error) {
			if !l.p.gate.pass(l.done) {
				failed = net.ErrClosed
			} else if _, failed = l.server.Write(raw); failed == nil && !streams {
				reply, failed = readValue(replies, nil)
			}
			return reply, failed
		})
		if failed != nil {
			break
		}
		if action == Cut {
			l.hangUp(requests)
			return
		}
		if silent = silent || action == Silence; !silent && l.p.gate.pass(l.done) {
			// If the client is gone, the server still executes its requests.
			_, _ = l.client.Write(reply)
		}
		if streams {
			l.stream(requests, replies, silent)
			break
		}
	}
	l.p.gate.pass(l.done) // a paused network does not pass a hang-up either
}

// hangUp ends the client's connection so that the client still gets earlier replies. It first reads the
// client's remaining bytes, because unread ones would cause a reset.
func (l *link) hangUp(requests io.Reader) {
	_ = l.server.Close()
	if !l.p.gate.pass(l.done) {
		return
	}
	if tcp, ok := l.client.(*net.TCPConn); ok && tcp.CloseWrite() == nil {
		_, _ = io.Copy(io.Discard, requests)
	}
}

// stream carries a connection that has subscribed, on which messages come at any time.
func (l *link) stream(requests, replies io.Reader, silent bool) {
	l.p.wg.Go(func() {
		_ = l.forward(l.server, requests, func() {})
		if tcp, ok := l.server.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		} else {
			l.cut()
		}
	})
	var to io.Writer = l.client
	if silent {
		to = io.Discard
	}
	_ = l.forward(to, replies, l.p.message)
}

// forward copies data, and calls before() ahead of each piece. It returns an error, at the latest at the end of from.
func (l *link) forward(to io.Writer, from io.Reader, before func()) error {
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		before()
		if !l.p.gate.pass(l.done) {
			return net.ErrClosed
		}
		if _, werr := to.Write(buffer[:n]); err != nil || werr != nil {
			return io.ErrClosedPipe
		}
	}
}

// gate stops traffic while it is closed. The zero value is open. It is safe for concurrent use.
type gate struct {
	mu     sync.Mutex
	opened chan struct{} // guarded by mu: closed by open; nil while the gate is open
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened == nil {
		g.opened = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

// pass waits until the gate is open. It reports false if done is closed before that.
func (g *gate) pass(done <-chan struct{}) bool {
	g.mu.Lock()
	opened := g.opened
	g.mu.Unlock()
	if opened != nil {
		select {
		case <-opened:
		case <-done:
			return false
		}
	}
	return true
}
