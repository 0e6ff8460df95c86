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
	held   bool // used by replies only: the client gets nothing any more

	mu         sync.Mutex
	pending    []exchange // guarded by mu: requests without a complete reply, in order
	subscribed bool       // guarded by mu: messages may come between replies

	once sync.Once
	done chan struct{} // closed by cut
}

// exchange is a request without a complete reply.
type exchange struct {
	args    []string
	action  Action
	replies int    // values that are missing
	kind    string // of each of them if they are confirmations of pub/sub, else ""
}

func (l *link) run() {
	var wg sync.WaitGroup
	wg.Go(l.requests)
	l.replies()
	l.p.gate.pass(l.done) // a paused network does not pass a hang-up either
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

// requests forwards requests until the client hangs up, and then hangs up on the server, which
// still executes what was forwarded before.
func (l *link) requests() {
	r := bufio.NewReader(l.client)
	for {
		args, raw, err := readRequest(r)
		if err != nil {
			break
		}
		if !l.forward(args, raw) {
			// The connection is about to be cut. If bytes were left unread the client would
			// see a reset, and not an end of input.
			_, _ = io.Copy(io.Discard, r)
			break
		}
	}
	_ = l.server.CloseWrite()
}

// forward decides about a request, and sends it to the server unless it is to be dropped. It
// reports whether more requests may follow.
func (l *link) forward(args []string, raw []byte) bool {
	if len(args) == 0 {
		return true // Redis does not answer an empty request either
	}
	args[0] = strings.ToUpper(args[0])
	action := Pass
	if decide, _ := l.p.hooks(); decide != nil {
		action = decide(args)
	}
	alone := l.expect(args, action)
	if !l.p.gate.pass(l.done) {
		return false
	}
	if action == DropRequest {
		if alone {
			l.cut()
		}
		return false
	}
	_, _ = l.server.Write(raw) // if it fails, replies ends, too
	return action != DropReply
}

// expect adds a request to pending, and reports whether it is the only one there.
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

// replies forwards replies until the server hangs up or the connection is to be cut.
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
		if !l.held && ex.action != DropReply && l.p.gate.pass(l.done) {
			// If the client is gone, the server still executes its requests.
			_, _ = l.client.Write(raw)
		}
		if complete && l.finish() {
			return
		}
	}
}

// match returns the request that a value from the server answers, and whether its reply is
// complete now. For a message, which answers none, it returns a zero exchange.
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

// isMessage reports whether a value on a connection that has subscribed is a message and no
// reply: RESP3 marks messages, RESP2 only names them.
func isMessage(raw []byte, kind string) bool {
	if raw[0] == '>' {
		return true
	}
	return strings.HasSuffix(kind, "message") || strings.HasSuffix(kind, "subscribe")
}

// finish removes the oldest request, and reports whether the connection is to be cut at the
// next one.
func (l *link) finish() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pending = l.pending[1:]
	return len(l.pending) > 0 && l.pending[0].action == DropRequest
}
