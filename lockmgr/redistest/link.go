package redistest

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
)

// link is one client's connection through a Proxy, with two goroutines: one
// carries requests to the server, the other replies to the client.
type link struct {
	p      *Proxy
	client *net.TCPConn
	server *net.TCPConn
	held   bool // belongs to replies: the client gets nothing any more

	mu         sync.Mutex
	pending    []exchange // guarded by mu; requests without their reply yet, in order
	subscribed bool       // guarded by mu; messages may come between replies

	once sync.Once
	done chan struct{} // closed by cut
}

// exchange is a request whose reply is still to come.
type exchange struct {
	args    []string
	action  Action
	replies int    // how many values are missing
	kind    string // of each of them if it is a confirmation of pub/sub, else ""
}

func (l *link) run() {
	var wg sync.WaitGroup
	wg.Go(l.requests)
	l.replies()
	l.flows() // a hang-up does not get through a paused network either
	l.cut()
	wg.Wait()
}

// cut ends both connections at once.
func (l *link) cut() {
	l.once.Do(func() {
		close(l.done)
		_ = l.client.Close()
		_ = l.server.Close()
	})
}

// requests ends when the client hangs up, and tells the server so: what was
// forwarded before is executed nonetheless.
func (l *link) requests() {
	r := bufio.NewReader(l.client)
	for {
		args, raw, err := readRequest(r)
		if err != nil {
			break
		}
		if !l.forward(args, raw) {
			// The connection is as good as cut. Reading on gives the client an
			// end of input where unread bytes would give it a reset.
			_, _ = io.Copy(io.Discard, r)
			break
		}
	}
	_ = l.server.CloseWrite()
}

// forward carries out the first half of what is decided about a request. It
// reports whether the client may go on.
func (l *link) forward(args []string, raw []byte) bool {
	if len(args) == 0 {
		return true // Redis does not answer it either
	}
	args[0] = strings.ToUpper(args[0])
	action := Pass
	if decide, _ := l.p.hooks(); decide != nil {
		action = decide(args)
	}
	alone := l.expect(args, action)
	if !l.flows() {
		return false
	}
	if action == DropRequest {
		if alone {
			l.cut()
		}
		return false
	}
	_, _ = l.server.Write(raw) // should it fail, replies sees it too
	return action != DropReply
}

// expect queues what comes back for a request, and reports whether nothing else
// is under way.
func (l *link) expect(args []string, action Action) bool {
	ex := exchange{args: args, action: action, replies: 1}
	switch args[0] {
	case "SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE":
		ex.kind = strings.ToLower(args[0])
		ex.replies = max(1, len(args)-1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.subscribed = l.subscribed || ex.kind != ""
	l.pending = append(l.pending, ex)
	return len(l.pending) == 1
}

// replies ends when the server hangs up or the connection is to be cut.
func (l *link) replies() {
	r := bufio.NewReader(l.server)
	for {
		raw, err := readValue(r, nil)
		if err != nil {
			return
		}
		ex, complete := l.match(raw)
		if complete {
			if _, executed := l.p.hooks(); executed != nil {
				executed(ex.args)
			}
			if ex.action == DropReply {
				return
			}
		}
		l.held = l.held || ex.action == HoldReply
		if !l.held && ex.action != DropReply && l.flows() {
			// A client that is gone does not stop what it has asked for.
			_, _ = l.client.Write(raw)
		}
		if complete && l.settle() {
			return
		}
	}
}

// match returns the request that a value of the server answers, and whether that
// completes the reply. Messages that answer none give a zero exchange.
func (l *link) match(raw []byte) (exchange, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		return exchange{}, false
	}
	ex := &l.pending[0]
	if raw[0] == '-' {
		return *ex, true // an error stands for all confirmations
	}
	kind := ""
	if l.subscribed || raw[0] == '>' {
		kind = messageKind(raw)
	}
	if ex.kind != "" && kind != ex.kind || ex.kind == "" && isMessage(raw, kind) {
		return exchange{}, false
	}
	ex.replies--
	return *ex, ex.replies <= 0
}

// isMessage tells messages from replies on a connection that subscribed: RESP3
// marks them, RESP2 only names them.
func isMessage(raw []byte, kind string) bool {
	if raw[0] == '>' {
		return true
	}
	return strings.HasSuffix(kind, "message") || strings.HasSuffix(kind, "subscribe")
}

// settle forgets the oldest request, and reports whether the next one is where
// the connection is to be cut.
func (l *link) settle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = l.pending[1:]
	return len(l.pending) > 0 && l.pending[0].action == DropRequest
}

// flows waits while the proxy is paused and reports false if the connection was
// cut instead.
func (l *link) flows() bool {
	l.p.mu.Lock()
	open := l.p.open
	l.p.mu.Unlock()
	select {
	case <-open:
		return true
	case <-l.done:
		return false
	}
}
