package transport

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redisconn"
	"roomd/room"
	"roomd/transport/protocol"
)

// Rooms is what a server needs of a *room.Coordinator.
type Rooms interface {
	Do(ctx context.Context, id string, a room.Action) (room.Result, error)
	Read(ctx context.Context, id string) (room.Snapshot, error)
	Watch(ctx context.Context, id string, fn func(*room.Event)) (stop func(), err error)
	Ping(ctx context.Context) error
	AnswerFor(fn func(room, session string) bool)
}

// readyTimeout bounds the question of /readyz to Redis.
const readyTimeout = 2 * time.Second

// Server answers game clients. It is safe for concurrent use.
type Server struct {
	rooms    Rooms
	opts     Options
	upgrader websocket.Upgrader

	life context.Context // of connections and their actions
	kill context.CancelFunc
	wg   sync.WaitGroup // connections

	troubles   *troubles
	watching   *redisconn.SharedTimeout // bounds the wait for a room's subscription
	departures *departures

	mu       sync.Mutex
	conns    map[string]*conn // guarded by mu: by session
	draining bool             // guarded by mu
}

// New returns a server of rooms. It returns an error that names the field if an
// option cannot be used.
func New(rooms Rooms, opts Options) (*Server, error) {
	if rooms == nil {
		return nil, errors.New("transport: rooms is nil")
	}
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	s := &Server{rooms: newSharedReads(rooms), opts: opts, troubles: newTroubles(opts.Log), conns: make(map[string]*conn)}
	s.life, s.kill = context.WithCancel(context.Background())
	s.watching = redisconn.NewSharedTimeout(s.life, watchTimeout)
	s.departures = newDepartures(s)
	rooms.AnswerFor(s.answersFor)
	s.upgrader = websocket.Upgrader{
		HandshakeTimeout: opts.HandshakeTimeout,
		ReadBufferSize:   1024,
		WriteBufferPool:  &sync.Pool{}, // nothing for each connection: it writes no messages
		Subprotocols:     []string{protocol.Subprotocol},
		CheckOrigin:      s.checkOrigin,
		Error: func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
			code := protocol.CodeBadRequest
			if status == http.StatusForbidden {
				code = protocol.CodeUnauthorized
			}
			refuse(w, status, protocol.NewError(code, "%v", reason))
		},
	}
	return s, nil
}

// Handler returns the HTTP side: GET /ws, /healthz and /readyz.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/ws", only(s.accept, http.MethodGet))
	mux.HandleFunc("/healthz", only(func(w http.ResponseWriter, _ *http.Request) { writeText(w, "ok") }, http.MethodGet, http.MethodHead))
	mux.HandleFunc("/readyz", only(s.ready, http.MethodGet, http.MethodHead))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, protocol.NewError(protocol.CodeBadRequest, "game clients connect to /ws; there is nothing at %s", r.URL.Path))
	})
	return mux
}

// ready says whether new clients should be sent to this node.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	if s.isDraining() {
		refuse(w, http.StatusServiceUnavailable, errDraining)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	if err := s.rooms.Ping(ctx); err != nil {
		s.troubles.notReady.Happened(err)
		refuse(w, http.StatusServiceUnavailable, protocol.NewError(protocol.CodeUnavailable, "Redis does not answer"))
		return
	}
	writeText(w, "ok")
}

// Connections returns how many WebSockets are open.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Shutdown refuses new connections, and closes the open ones with 1012, one after
// the other over Options.DrainSpread; each finishes the request that it is running
// and reads the reply. Until then they are served as ever. When ctx ends first, the
// connections that are left are cut off and the cause of ctx is returned.
//
// The users keep their seats, also those whose connections ended before and whose
// grace is not over: nobody is left here to end it. The other nodes do that, once
// this one's coordinator is closed.
//
// To drain with net/http, call Shutdown of both; the order does not matter.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining = true
	conns := slices.Collect(maps.Values(s.conns))
	s.mu.Unlock()
	s.departures.stop()

	stop := context.AfterFunc(ctx, func() {
		s.kill()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, c := range s.conns {
			c.abort()
		}
	})
	s.drain(ctx, conns)
	s.wg.Wait()
	s.departures.wg.Wait()
	s.kill()
	s.troubles.close()
	if !stop() {
		return context.Cause(ctx)
	}
	return nil
}

// answersFor reports whether a session is still to be in a room: its connection is, or has
// ended and has its grace, or the node drains, and so keeps all seats.
func (s *Server) answersFor(room, session string) bool {
	s.mu.Lock()
	c, draining := s.conns[session], s.draining
	s.mu.Unlock()
	return draining || c != nil && c.claims(room) || s.departures.claim(room, session)
}

// drain has the connections closed, at even distances. It uses up no more than half
// of the time that ctx gives, so that the last one can end its request, too.
func (s *Server) drain(ctx context.Context, conns []*conn) {
	spread := max(s.opts.DrainSpread, 0)
	if deadline, ok := ctx.Deadline(); ok {
		spread = min(spread, max(time.Until(deadline)/2, 0))
	}
	start := time.Now()
	for i, c := range conns {
		turn := time.NewTimer(time.Until(start.Add(spread * time.Duration(i) / time.Duration(len(conns)))))
		select {
		case <-turn.C:
		case <-c.gone:
		case <-ctx.Done():
		}
		turn.Stop()
		c.end(protocol.CloseRestart, "the node restarts")
	}
}

func (s *Server) isDraining() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.draining
}

// admit reserves a place for a connection, or says why there is none.
func (s *Server) admit(c *conn) *protocol.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining:
		return errDraining
	case len(s.conns) >= s.opts.MaxConnections:
		return protocol.NewError(protocol.CodeUnavailable, "this node has %d connections, its limit", len(s.conns))
	}
	s.conns[c.session] = c
	s.wg.Add(1)
	return nil
}

func (s *Server) dismiss(c *conn) {
	s.mu.Lock()
	delete(s.conns, c.session)
	s.mu.Unlock()
	close(c.gone)
	s.wg.Done()
}
