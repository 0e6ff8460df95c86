package redistest

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redistest/proxy"
)

// Action says what a Proxy does with one request.
type Action int

const (
	// Pass forwards the request, and the reply when it comes.
	Pass Action = iota

	// DropRequest cuts the client's connection before the server gets the request. Replies to earlier requests
	// still arrive.
	DropRequest

	// DropReply lets the server execute the request, and cuts the client's connection when the whole reply has
	// reached the proxy.
	DropReply

	// HoldReply lets the server execute the request, and keeps the reply. The connection stays open, but the
	// client gets nothing more on it.
	HoldReply
)

// Proxy is a network between clients and one Redis server. A test can make it fail at a chosen request. At the end of
// the test it cuts all connections. The embedded Proxy can also cut, reset and pause all connections.
type Proxy struct {
	*proxy.Proxy
	tb testing.TB

	mu        sync.Mutex
	onRequest func([]string) Action // guarded by mu
	onReply   func([]string)        // guarded by mu
}

// StartProxy starts a proxy on a free loopback port in front of the server at target (host:port). Until
// OnRequest is called, it passes everything.
func StartProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	p := &Proxy{tb: tb}
	dial := func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", target) }
	var err error
	if p.Proxy, err = proxy.Start(dial, p.exchange, nil); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p
}

// exchange applies the functions of OnRequest and OnReply to a request.
func (p *Proxy) exchange(args []string, carryOut func() ([]byte, error)) proxy.Action {
	decide, _ := p.hooks()
	action := Pass
	if decide != nil {
		action = decide(args)
	}
	if action == DropRequest {
		return proxy.Cut
	}
	reply, err := carryOut()
	if err != nil {
		return proxy.Cut
	}
	if _, executed := p.hooks(); executed != nil && reply != nil {
		executed(args)
	}
	return map[Action]proxy.Action{Pass: proxy.Pass, DropReply: proxy.Cut, HoldReply: proxy.Silence}[action]
}

// hooks returns the functions of OnRequest and OnReply.
func (p *Proxy) hooks() (func([]string) Action, func([]string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.onRequest, p.onReply
}

// Client returns a new client through the proxy, closed with the test.
func (p *Proxy) Client() *redis.Client {
	return newClient(p.tb, &redis.Options{Addr: p.Addr()})
}

// OnRequest lets f decide about every request from now on, also about requests that open a connection (HELLO,
// CLIENT). args[0] is in upper case. If f is nil, all requests pass.
//
// f is called when the request has reached the proxy, in the goroutine of its connection, so calls may overlap.
// While f blocks, that request and later ones of the same connection wait. f must return before the test ends.
//
// A (P|S)SUBSCRIBE is the last request of its connection that f gets; OnReply does not get it.
func (p *Proxy) OnRequest(f func(args []string) Action) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onRequest = f
}

// OnReply makes the proxy call f when the server has executed a request and the whole reply has reached the proxy,
// before the proxy passes, drops or holds the reply. f is called like OnRequest's; nil does nothing.
func (p *Proxy) OnReply(f func(args []string)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onReply = f
}

// Once returns a function for OnRequest that returns action for the first request with that command, and passes
// all others. command may be in lower case.
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

// Late is a request that a Proxy holds back, as if it were still in the network. The client may send it again
// meanwhile, and close the connection.
type Late struct {
	tb        testing.TB
	held      chan struct{} // closed when the request has reached the proxy
	goOn      func()
	delivered chan struct{} // closed when the server has executed it
}

// HoldBack holds back the first request that match selects. It replaces the functions of OnRequest and OnReply.
// [Late.Deliver] or the end of the test lets the request arrive.
func (p *Proxy) HoldBack(match func(args []string) bool) *Late {
	var mu sync.Mutex
	var first *string // guarded by mu: the first argument of the request held back
	goOn := make(chan struct{})
	l := &Late{p.tb, make(chan struct{}), sync.OnceFunc(func() { close(goOn) }), make(chan struct{})}
	p.tb.Cleanup(l.goOn)
	p.OnReply(func(args []string) {
		mu.Lock()
		defer mu.Unlock()
		if first == &args[0] {
			close(l.delivered)
		}
	})
	p.OnRequest(func(args []string) Action {
		mu.Lock()
		chosen := first == nil && match(args)
		if chosen {
			first = &args[0]
		}
		mu.Unlock()
		if chosen {
			close(l.held)
			<-goOn
		}
		return Pass
	})
	return l
}

// Await waits until the request has reached the proxy.
func (l *Late) Await() {
	l.tb.Helper()
	Receive(l.tb, l.held, "the request that is to be late")
}

// Deliver lets the request arrive, and waits until the server has executed it.
func (l *Late) Deliver() {
	l.tb.Helper()
	l.Await()
	l.goOn()
	Receive(l.tb, l.delivered, "the late request to be executed")
}
