package transport

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"roomd/lockmgr/redisconn"
	"roomd/room"
	"roomd/transport/internal/session"
	"roomd/transport/internal/ws"
	"roomd/transport/protocol"
)

// Rooms has the methods of a *coordinator.Coordinator that a server calls.
type Rooms interface {
	session.Rooms
	Move(ctx context.Context, from, to, session string, users ...string) (left, joined room.Result, err error)
	MoveParty(ctx context.Context, from, to, session string, begin room.Settings, mover string, users ...string) (
		left, joined room.Result, err error)
	Ping(ctx context.Context) error
	Ready(ctx context.Context) error
	AnswerFor(fn func(room, session string) bool)

	// Now returns the time by the clock that all nodes share, in ms since 1970.
	Now() int64
}

// Server answers game clients. It is safe for concurrent use.
type Server struct {
	rooms            Rooms
	opts             Options
	origins          *origins
	upgrader         websocket.Upgrader
	conns            *connections
	health           *health
	sockets          *ws.Group
	disconnectTimers *disconnectTimers
	rateLimitedLogs  *rateLimitedLogs
	retired          atomic.Bool
	sessions         *session.Shared

	life context.Context // of connections and their actions
	kill context.CancelFunc
}

// New returns a server of rooms. If rooms is nil, or an option cannot be used, the error names it.
func New(rooms Rooms, opts Options) (*Server, error) {
	if rooms == nil {
		return nil, errors.New("transport: rooms is nil")
	}
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	allowed, err := parseOrigins(opts.AllowOrigins)
	if err != nil {
		return nil, err
	}
	life, kill := context.WithCancel(context.Background())
	s := &Server{
		life: life, kill: kill, rooms: rooms, opts: opts, origins: allowed,
		rateLimitedLogs: newRateLimitedLogs(opts.Log),
		conns:           newConnections(opts.MaxConnections, opts.MaxPerAddress),
	}
	clock := session.NewClock()
	s.sessions = &session.Shared{
		Life: life, Now: rooms.Now, Clock: clock, Rooms: session.NewSharedReads(life, rooms),
		Watching: redisconn.NewSharedTimeout(life, session.WatchTimeout), Users: session.NewUsers(clock),
		Debug: session.NewDebugLog(opts.Log, clock), Logs: s.rateLimitedLogs.Logs, MatchSettings: opts.MatchSettings,
		Refused: opts.Trace.Refused, Merged: opts.Trace.Merged, Limits: session.Limits{
			MaxRooms: opts.MaxRooms, MaxNewRooms: opts.MaxNewRooms, Rate: opts.Rate, Burst: opts.Burst,
			AuthTimeout: opts.AuthTimeout,
		},
	}
	s.sessions.MoveParty = s.moveParty
	s.sockets = ws.NewGroup(ws.Options{
		PingInterval: opts.PingInterval, WriteTimeout: opts.WriteTimeout, TooSlow: protocol.CloseTooSlow,
		Closed: opts.Trace.Closed, Clock: clock,
	})
	s.health = &health{server: s, conns: make(map[*conn]struct{})}
	s.disconnectTimers = newDisconnectTimers(s)
	rooms.AnswerFor(s.answersFor)
	s.upgrader = websocket.Upgrader{
		HandshakeTimeout: opts.HandshakeTimeout,
		WriteBufferPool:  &sync.Pool{}, // gorilla does only the handshake
		Subprotocols:     []string{protocol.Subprotocol},
		CheckOrigin:      func(*http.Request) bool { return true }, // accept has checked it
		Error: func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
			Refuse(w, status, protocol.NewError(protocol.CodeBadRequest, "%v", reason))
		},
	}
	return s, nil
}

// Connections returns how many WebSockets are open.
func (s *Server) Connections() int { return s.conns.count() }

// answersFor reports whether a session should be in a room: it claims the room, its timer runs, or the node drains.
func (s *Server) answersFor(room, session string) bool {
	c, draining := s.conns.find(session)
	return draining || c != nil && c.session.Claims(room) || s.disconnectTimers.has(room, session)
}

// Retire makes /readyz fail, so that load balancers send no more clients. The server still serves all that come.
func (s *Server) Retire() { s.retired.Store(true) }

// Shutdown refuses new connections, and closes the open ones with 1012, one after the other over Options.DrainSpread.
// Until its turn a connection is served as usual; it finishes a running request, and gets the reply before the close
// frame: a request without a reply was never run. When ctx ends first, Shutdown cuts off the rest and returns the
// cause of ctx. Shutdown of net/http may be called before or after it.
//
// All users keep their seats, also those whose grace runs: other nodes end it when this node's coordinator has closed.
func (s *Server) Shutdown(ctx context.Context) error {
	conns := s.conns.drain()
	s.disconnectTimers.stop()
	stop := context.AfterFunc(ctx, func() {
		s.kill()
		s.conns.abort()
	})
	s.closeSpread(ctx, conns)
	s.conns.wait()
	s.sockets.Wait()
	s.health.running.Wait()
	s.disconnectTimers.wait()
	s.kill()
	s.rateLimitedLogs.logs.Close()
	if !stop() {
		return context.Cause(ctx)
	}
	return nil
}

// closeSpread closes connections evenly, within half of the time left in ctx, so that the last can finish its request.
func (s *Server) closeSpread(ctx context.Context, conns []*conn) {
	spread := max(s.opts.DrainSpread, 0)
	if deadline, ok := ctx.Deadline(); ok {
		spread = min(spread, max(time.Until(deadline)/2, 0))
	}
	start := time.Now()
	for i, c := range conns {
		due := time.NewTimer(time.Until(start.Add(spread * time.Duration(i) / time.Duration(len(conns)))))
		select {
		case <-due.C:
		case <-c.removed:
		case <-ctx.Done():
		}
		due.Stop()
		c.End(protocol.CloseRestart, "the node restarts")
	}
}

// Read reads a room as it is. Several callers, clients too, share one read, so ctx does not interrupt it: a caller
// whose ctx has ended gets the cause of ctx afterwards. It fails as the Read of Rooms does, and with
// [room.ErrClosed] after Shutdown.
func (s *Server) Read(ctx context.Context, id string) (room.Snapshot, error) {
	return s.sessions.Rooms.Read(ctx, id)
}

// Stats are the counts that a [Server] has at a moment.
type Stats struct {
	Connections     int // open WebSockets
	Unauthenticated int // of Connections: without a token so far
	Rooms           int // rooms with members or watchers among the connections
	Members         int // seats of the connections' users; a user in two rooms counts twice
	Watchers        int // watches of connections; a member who watches counts in both
	Graces          int // disconnect timers: of ended sessions, and of users with reserved seats
	Queued          int // bytes waiting to be written, without snapshots
	MostQueued      int // the largest part of Queued that is for one connection
}

// Stats returns the present counts. It takes some milliseconds for 50,000 connections, and blocks none.
func (s *Server) Stats() Stats {
	conns, unauthenticated := s.conns.list()
	stats := Stats{Connections: len(conns), Unauthenticated: unauthenticated, Graces: s.disconnectTimers.count()}
	rooms := make(map[string]struct{})
	for _, c := range conns {
		members, watchers := c.session.Count(rooms)
		stats.Members, stats.Watchers = stats.Members+members, stats.Watchers+watchers
		kept := c.out.Kept()
		stats.Queued, stats.MostQueued = stats.Queued+kept, max(stats.MostQueued, kept)
	}
	stats.Rooms = len(rooms)
	return stats
}

// Draining reports whether Retire or Shutdown was called.
func (s *Server) Draining() bool { return s.retired.Load() || s.conns.isDraining() }

// Ready returns nil if new clients should come to this server: it does not drain, and Rooms.Ready succeeds.
func (s *Server) Ready(ctx context.Context) error {
	if s.Draining() {
		return errDraining
	}
	return s.rooms.Ready(ctx)
}
