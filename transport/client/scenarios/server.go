package scenarios

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

// server lets a client connect when the scenario says so, and to say what it says.
type server struct {
	listeners []*httptest.Server
	arrivals  chan *arrival
	handlers  sync.WaitGroup

	mu      sync.Mutex
	refused *refusal // guarded by mu: what the latest handshake got, nil if it was let in
}

// arrival is a handshake that waits for a decision.
type arrival struct {
	address int
	request *http.Request
	decide  chan *refusal // nil lets it in
	peer    chan *peer
}

// refusal is the answer to a handshake, and to the question by plain HTTP why it failed.
type refusal struct {
	status int
	code   string
}

func startServer(ctx context.Context, addresses int) *server {
	s := &server{arrivals: make(chan *arrival)}
	for n := range addresses {
		s.listeners = append(s.listeners, httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.handlers.Add(1)
			defer s.handlers.Done()
			s.serve(ctx, n, w, r)
		})))
	}
	return s
}

// urls returns where clients connect.
func (s *server) urls() (all []string) {
	for _, l := range s.listeners {
		all = append(all, "ws"+strings.TrimPrefix(l.URL, "http")+"/ws")
	}
	return all
}

// close ends the server. The context that it was started with must have ended.
func (s *server) close() {
	for _, l := range s.listeners {
		l.CloseClientConnections()
		l.Close()
	}
	s.handlers.Wait()
}

func (s *server) serve(ctx context.Context, address int, w http.ResponseWriter, r *http.Request) {
	if !websocket.IsWebSocketUpgrade(r) {
		s.mu.Lock()
		refused := s.refused
		s.mu.Unlock()
		if refused == nil {
			(&refusal{http.StatusBadRequest, protocol.CodeBadRequest}).write(w, "websocket: this is no handshake")
			return
		}
		refused.write(w, "the scenario says so")
		return
	}
	a := &arrival{address, r, make(chan *refusal), make(chan *peer)}
	select {
	case s.arrivals <- a:
	case <-r.Context().Done(): // the client has given up
		return
	case <-ctx.Done():
		return
	}
	var refused *refusal
	select {
	case refused = <-a.decide:
	case <-ctx.Done():
		return
	}
	s.mu.Lock()
	s.refused = refused
	s.mu.Unlock()
	if refused != nil {
		refused.write(w, "the scenario says so")
		return
	}
	upgrader := websocket.Upgrader{Subprotocols: []string{protocol.Subprotocol}, CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	p := newPeer(conn)
	select {
	case a.peer <- p:
	case <-ctx.Done():
	}
	p.read(ctx)
}

func (r *refusal) write(w http.ResponseWriter, message string) {
	retry := r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable
	w.WriteHeader(r.status)
	_, _ = fmt.Fprintf(w, `{"error":{"code":%q,"message":%q,"retry":%v}}`, r.code, message, retry)
}
