package redistest

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Action says what a Proxy does with one request.
type Action int

const (
	// Pass forwards the request, and the reply when it comes.
	Pass Action = iota

	// DropRequest cuts the client's connection before the server has seen the
	// request. Replies to requests before it still arrive.
	DropRequest

	// DropReply lets the server execute the request, and cuts the client's connection when
	// the whole reply has reached the proxy.
	DropReply

	// HoldReply lets the server execute the request, and keeps the reply. The connection
	// stays open, but the client gets nothing on it any more.
	HoldReply
)

// Proxy is a network between clients and one Redis server that a test can make fail at a
// chosen request. It reads requests and replies of RESP2 and RESP3, so the Action alone
// decides whether the server executes a request.
//
// After DropRequest and DropReply nothing more of that connection reaches the server, so it
// does not execute the rest of a pipeline. Messages of pub/sub pass; the reply to a
// (P|S)SUBSCRIBE is its last confirmation. The Proxy does not understand MONITOR,
// replication and CLIENT REPLY.
//
// A Proxy is safe for concurrent use. It ends with its test and cuts all connections.
type Proxy struct {
	tb       testing.TB
	target   string
	listener *net.TCPListener
	wg       sync.WaitGroup // the accept loop and every link
	ctx      context.Context
	cancel   context.CancelFunc
	gate     gate // closed while the proxy is paused

	mu        sync.Mutex
	onRequest func([]string) Action // guarded by mu
	onReply   func([]string)        // guarded by mu
	links     map[*link]struct{}    // guarded by mu
}

// StartProxy puts a proxy on a free loopback port in front of the server at
// target (host:port). Until OnRequest is called everything passes.
func StartProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &Proxy{
		tb: tb, target: target, listener: l, ctx: ctx, cancel: cancel,
		links: make(map[*link]struct{}),
	}
	p.wg.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// Addr returns the host:port where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Client returns a new client through the proxy, closed with the test.
func (p *Proxy) Client() *redis.Client {
	return newClient(p.tb, &redis.Options{Addr: p.Addr()})
}

// OnRequest has f decide about every request from now on, also about those that open a
// connection (HELLO, CLIENT). args[0] is in upper case. If f is nil everything passes.
//
// f is called when the request has reached the proxy, in the goroutine of its connection, so
// calls may overlap. While f blocks, that request and those behind it on the same connection
// wait. f must return before the test ends.
func (p *Proxy) OnRequest(f func(args []string) Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onRequest = f
}

// OnReply has f called when the server has executed a request and the whole reply has reached
// the proxy, before that is passed, dropped or held. f has to do as that of OnRequest.
func (p *Proxy) OnReply(f func(args []string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onReply = f
}

// Once returns a function for OnRequest that chooses action for the first request of that
// command, in either letter case, and passes all others.
func Once(command string, action Action) func(args []string) Action {
	command = strings.ToUpper(command)
	var once sync.Once
	return func(args []string) Action {
		decided := Pass
		if args[0] == command {
			once.Do(func() { decided = action })
		}
		return decided
	}
}

// Cut ends all present connections, with all that is under way on them. It accepts new ones.
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

// Resume ends a Pause. What was sent meanwhile arrives now, in order.
func (p *Proxy) Resume() { p.gate.open() }

// hooks returns the functions of OnRequest and OnReply.
func (p *Proxy) hooks() (func([]string) Action, func([]string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.onRequest, p.onReply
}

// accept ends when the listener is closed.
func (p *Proxy) accept() {
	for {
		client, err := p.listener.AcceptTCP()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

// serve connects client to the server and returns when both connections ended.
func (p *Proxy) serve(client *net.TCPConn) {
	defer client.Close()
	var d net.Dialer
	server, err := d.DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		return // the client sees a server that hangs up
	}
	defer server.Close()
	l := &link{p: p, client: client, server: server.(*net.TCPConn), done: make(chan struct{})}
	if p.add(l) {
		l.run()
		p.remove(l)
	}
}

// add reports false when the proxy has been closed.
func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return false
	}
	p.links[l] = struct{}{}
	return true
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.cancel() // with mu held: no link is added after this
	p.mu.Unlock()
	p.Cut()
	p.wg.Wait()
}
