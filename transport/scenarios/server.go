package scenarios

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"roomd/transport/protocol"
)

// server lets clients connect, and sends frames, when the scenario says so.
type server struct {
	listeners []*httptest.Server
	arrivals  chan *arrival
	watchers  chan *arrival // requests for the lobby
	peers     sync.WaitGroup
	refused   atomic.Pointer[refusal] // the answer to the latest handshake; nil if that was accepted
}

// arrival is a handshake until it is decided on, or a request for the lobby until its answer is over.
type arrival struct {
	address int
	w       http.ResponseWriter
	request *http.Request
	decided chan struct{}
}

// refusal is the answer to a refused handshake, and to the plain HTTP request that asks why.
type refusal struct {
	status  int
	code    string
	message string
}

func startServer(ctx context.Context) *server {
	s := &server{arrivals: make(chan *arrival), watchers: make(chan *arrival)}
	for n := range 2 {
		s.listeners = append(s.listeners, httptest.NewServer(
			http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				s.serve(ctx, &arrival{n, w, r, make(chan struct{})})
			})))
	}
	return s
}

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
	s.peers.Wait()
}

// serve hands a handshake, or a request for the lobby, to the scenario, and waits until it is decided. It refuses
// others.
func (s *server) serve(ctx context.Context, a *arrival) {
	to := s.arrivals
	switch {
	case strings.HasSuffix(a.request.URL.Path, "/api/rooms"):
		to = s.watchers
	case !websocket.IsWebSocketUpgrade(a.request):
		refused := s.refused.Load()
		if refused == nil {
			refused = &refusal{http.StatusBadRequest, protocol.CodeBadRequest, "websocket: this is no handshake"}
		}
		refused.write(a.w)
		return
	}
	select {
	case to <- a:
		_, _ = receive(ctx, a.decided)
	case <-a.request.Context().Done(): // the client has given up
	case <-ctx.Done():
	}
}

func (r *refusal) write(w http.ResponseWriter) {
	retry := r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable
	w.WriteHeader(r.status)
	_, _ = fmt.Fprintf(w, `{"error":{"code":%[2]q,"message":%[3]q,"retry":%[4]v},`+
		`"status":%[1]d,"code":%[2]q,"detail":%[3]q,"retry":%[4]v}`, r.status, r.code, r.message, retry)
}

// refuse refuses a request; text has the status and the code.
func (s *server) refuse(a *arrival, text string) error {
	status, code, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(status)
	why := &refusal{n, code, "the scenario says so"}
	s.refused.Store(why)
	why.write(a.w)
	close(a.decided)
	return err
}

// accept accepts a handshake. The connection ends with ctx at the latest.
func (s *server) accept(ctx context.Context, a *arrival) (*peer, error) {
	defer close(a.decided)
	s.refused.Store(nil)
	upgrader := websocket.Upgrader{Subprotocols: []string{protocol.Subprotocol},
		CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := upgrader.Upgrade(a.w, a.request, nil)
	if err != nil {
		return nil, err
	}
	p := &peer{conn: conn, frames: make(chan []byte, 1000), pings: make(chan struct{}, 1), closed: make(chan struct{})}
	s.peers.Go(func() { p.read(ctx) })
	return p, nil
}

func (a *arrival) tell(event, data string) error {
	a.w.Header().Set("Content-Type", "text/event-stream")
	if _, err := fmt.Fprintf(a.w, ":\n\nevent: %s\ndata: %s\n\n", event, data); err != nil {
		return err
	}
	return http.NewResponseController(a.w).Flush()
}

// token returns the token of the handshake, which comes in one of two ways.
func (a *arrival) token() string {
	if token, ok := strings.CutPrefix(a.request.Header.Get("Authorization"), "Bearer "); ok {
		return token
	}
	_, token, _ := strings.Cut(a.request.Header.Get("Sec-WebSocket-Protocol"), "roomd.token.")
	return token
}

// peer is the server's end of a connection.
type peer struct {
	conn    *websocket.Conn
	frames  chan []byte   // requests, except pings
	pings   chan struct{} // has room for one: further ones are the same news
	closed  chan struct{} // closed when the client has closed, or the connection is broken
	code    int           // the client's close code, once closed is closed; 1006 if it sent none
	silent  atomic.Bool
	waiting []string // ids of requests without a reply; only the runner uses it

	mu sync.Mutex // held to write
}

// clock returns the server's time, a day ahead of the client's: a client must work all the same.
func clock() time.Time { return time.Now().Add(24 * time.Hour) }

func deadline() time.Time { return time.Now().Add(patience) }

// read reads the client's frames until the connection ends.
func (p *peer) read(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() { _ = p.conn.Close() })
	defer stop()
	defer p.conn.Close()
	p.conn.SetPingHandler(func(data string) error {
		p.pinged(func() error { return p.conn.WriteControl(websocket.PongMessage, []byte(data), deadline()) })
		return nil
	})
	for {
		_, data, err := p.conn.ReadMessage()
		if err != nil {
			p.code = websocket.CloseAbnormalClosure
			var sent *websocket.CloseError
			if errors.As(err, &sent) {
				p.code = sent.Code
			}
			close(p.closed)
			return
		}
		if frame, id, err := takeID(data); err == nil && same(`{"action":"ping"}`, frame) {
			p.pinged(func() error { return p.send(fmt.Sprintf(`{"id":%s,"time":%d}`, id, clock().UnixMilli())) })
			continue
		}
		select {
		case p.frames <- data:
		case <-ctx.Done():
		}
	}
}

// pinged records a ping, and answers it unless the peer is silent.
func (p *peer) pinged(answer func() error) {
	if !p.silent.Load() {
		_ = answer() // read notices a connection that has ended
	}
	select {
	case p.pings <- struct{}{}:
	default:
	}
}

// request returns the next request without its id, which it keeps for the reply.
func (p *peer) request(ctx context.Context) (string, error) {
	data, err := receive(ctx, p.frames)
	if err != nil {
		return "", fmt.Errorf("no frame comes: %w", err)
	}
	frame, id, err := takeID(data)
	p.waiting = append(p.waiting, id)
	return frame, err
}

func (p *peer) send(frame string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conn.WriteMessage(websocket.TextMessage, []byte(frame))
}

// reply sends a reply to the oldest request without one.
func (p *peer) reply(frame string) error {
	if len(p.waiting) == 0 {
		return errors.New("there is no request to reply to")
	}
	id := p.waiting[0]
	p.waiting = p.waiting[1:]
	return p.send(`{"id":` + id + `,` + frame[1:])
}
