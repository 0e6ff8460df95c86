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

	// DropReply lets the server execute the request and cuts the client's
	// connection once the whole reply has come back to the proxy.
	DropReply

	// HoldReply lets the server execute the request and keeps the reply. The
	// connection stays open, and the client never gets anything on it again.
	HoldReply
)

// Proxy is a network between clients and one Redis server that a test can make
// fail at a chosen request. It knows requests and replies of RESP2 and RESP3, so
// a request is either executed or not, as the Action says, and never left to
// chance.
//
// After DropRequest and DropReply nothing more of that connection reaches the
// server, so the rest of a pipeline is not executed. Messages of pub/sub pass
// through; the reply to (P|S)SUBSCRIBE is its last confirmation. MONITOR,
// replication and CLIENT REPLY are not understood.
//
// A Proxy may be used from several goroutines. It ends with its test and cuts
// what is still connected.
type Proxy struct {
	tb       testing.TB
	target   string
	listener *net.TCPListener
	wg       sync.WaitGroup // the accept loop and every link
	ctx      context.Context
	cancel   context.CancelFunc

	mu        sync.Mutex
	onRequest func([]string) Action // guarded by mu
	onReply   func([]string)        // guarded by mu
	links     map[*link]struct{}    // guarded by mu
	open      chan struct{}         // guarded by mu; closed while traffic may flow
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
		links: make(map[*link]struct{}), open: make(chan struct{}),
	}
	close(p.open)
	p.wg.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// Addr returns the host:port where the proxy listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL returns the proxy's address as a redis:// URL.
func (p *Proxy) URL() string { return "redis://" + p.Addr() }

// Client returns a new client through the proxy, closed with the test.
func (p *Proxy) Client() *redis.Client {
	return newClient(p.tb, &redis.Options{Addr: p.Addr()})
}

// OnRequest lets f decide about every request from now on, also those with which
// a client opens its connection (HELLO, CLIENT). args[0] comes in upper case. A
// nil f passes everything.
//
// f runs when the request has reached the proxy, on the goroutine of its
// connection, so calls may overlap. It may block, which delays the request and
// all after it on that connection, but has to return before the test ends.
func (p *Proxy) OnRequest(f func(args []string) Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onRequest = f
}

// OnReply calls f when the server has executed a request and its whole reply has
// reached the proxy, before anything is done with that reply: also when it is
// going to be dropped or held. The rules for f are those of OnRequest.
func (p *Proxy) OnReply(f func(args []string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onReply = f
}

// Once returns a function for OnRequest that acts on the first request of that
// command, in either letter case, and lets all others pass.
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

// Cut ends all present connections, with whatever is under way on them. New ones
// are accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Pause stops forwarding in both directions, like a network that loses
// everything: connections stay, new ones are accepted, nothing arrives. What a
// client has already received, or the server, stays received.
func (p *Proxy) Pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flowsLocked() {
		p.open = make(chan struct{})
	}
}

// Resume ends a Pause. What was sent meanwhile now arrives, in order.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.flowsLocked() {
		close(p.open)
	}
}

func (p *Proxy) flowsLocked() bool {
	select {
	case <-p.open:
		return true
	default:
		return false
	}
}

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
