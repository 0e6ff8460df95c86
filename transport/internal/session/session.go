// Package session runs the requests of one connection's user, and keeps the session's state in each room. Requests
// enter through Session.Handle, events through presence.receive; both leave through the outbox, which Session.Take
// empties. It knows no server and no sockets.
package session

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"roomd/lockmgr/redisconn"
	"roomd/room"
	"roomd/room/ratelog"
	"roomd/transport/internal/frames"
	"roomd/transport/internal/outbox"
	"roomd/transport/internal/ws"
	"roomd/transport/protocol"
)

// Session is a user on one connection: it runs the requests, and knows the rooms that the user is in or watches.
type Session struct {
	ID      string
	User    string // "" until the client has shown a token; then constant
	access  *Access
	shared  *Shared
	out     *outbox.Outbox
	conn    Conn
	outcome string // of the running request, for the log; used only by its goroutine

	throttle throttle

	mu        *sync.Mutex          // the outbox's; locked after the connection's
	presences map[string]*presence // guarded by mu: by room
	serving   string               // guarded by mu: the room of the running request, or ""
	toFollow  []string             // guarded by mu: where the user was moved from serving during the request
	left      []string             // guarded by mu: the last rooms that the client left; see presence.take
	closed    bool                 // guarded by mu: no request and no recovery starts any more

	ctx        context.Context // of recoveries and refills, from Begin to Close
	cancel     context.CancelFunc
	background sync.WaitGroup // recoveries and refills; grows only under mu, and not once closed
}

// Conn is the connection of a session.
type Conn interface {
	// End closes the connection with this close frame, once the running request has ended and the queue is written.
	// Only the first call counts, and returns true. It does not block.
	End(code int, text string) (first bool)

	// IsOver reports whether the client's close has arrived behind the running request.
	IsOver() bool

	// Named is called when the client has shown its first token.
	Named()
}

// New returns the session of a user, "" if unauthenticated. It queues frames in out; the writer fetches them by Take.
func New(shared *Shared, user string, access *Access, out *outbox.Outbox, conn Conn) *Session {
	if access != nil {
		access.conn, access.late = conn, func() { shared.Refused(LimitAuth) }
	}
	return &Session{
		ID: uuid.NewString(), User: user, access: access, shared: shared, out: out, mu: &out.Mu, conn: conn,
		presences: make(map[string]*presence), throttle: throttle{shared: shared, access: access},
	}
}

// Begin starts the session's limits once the connection is open. Pair it with Close.
func (s *Session) Begin() {
	s.ctx, s.cancel = context.WithCancel(s.shared.Life)
	if s.User != "" {
		s.throttle.user = s.shared.Users.acquire(s.User)
	}
	if s.access != nil {
		s.access.start(s.shared.Limits.AuthTimeout)
	}
}

// Handle runs the request in a frame, and queues its reply. It ends the connection if the user is still unknown then.
func (s *Session) Handle(frame []byte) {
	decoded, bad := protocol.DecodeRequest(frame)
	r := requestPool.Get().(*request)
	defer func() {
		*r = request{}
		requestPool.Put(r)
	}()
	*r = request{session: s, in: decoded}
	cost := 1
	if action := protocol.ActionNamed(decoded.Action); action != nil {
		cost = action.Cost
	}
	refusal, cutOff := s.throttle.request(cost)
	switch {
	case refusal != nil:
		r.refuseRate(bad, refusal, cutOff)
	case bad != nil:
		s.out.Push(frames.Reply(bad.Reply()))
	case decoded.Action == protocol.ActionAuth:
		authenticate(r)
	case decoded.Action == protocol.ActionPing:
		ping(r)
	case s.shared.Debug.enabled():
		r.runLogged()
	default:
		r.run()
	}
	if s.User == "" { // the first frame was no auth with a valid token
		s.conn.End(protocol.CloseUnauthorized,
			fmt.Sprintf("the first request must be %s, with a valid token", protocol.ActionAuth))
	}
}

// Noop counts a frame without a request. It returns a *ws.CloseError if there were too many.
func (s *Session) Noop() error { return s.throttle.noopFrame() }

// Broken counts the breach if it is one of a limit. If a message was longer than max bytes, it queues an error reply.
func (s *Session) Broken(broken *ws.CloseError, max int) {
	switch broken.Code {
	case protocol.CloseTooBig:
		s.shared.Refused(LimitFrame)
		s.out.Push(frames.Reply(&protocol.Reply{Error: protocol.NewError(protocol.CodeTooLarge,
			"a request has at most %d bytes", max)}))
	case protocol.CloseTooMany, protocol.ClosePolicy:
		s.shared.Refused(LimitFlood)
	}
}

// Take appends about size bytes of queued frames to batch, and starts reading rooms whose snapshots are due.
func (s *Session) Take(batch [][]byte, size int) [][]byte {
	for size > 0 {
		frame, events := s.out.Next()
		if frame == nil && events == nil {
			break
		}
		first := len(batch)
		if frame != nil {
			batch = append(batch, frame)
		} else {
			batch = frames.Append(batch, s.viewer(events[0].Room), s.shared.Now, events)
			if n := len(events) - (len(batch) - first); n > 0 {
				s.shared.Merged(n)
			}
		}
		for _, f := range batch[first:] {
			size -= len(f)
		}
	}
	return batch
}

// admit returns an error if a further room would be one too many for the connection. Admins have no limit.
func (s *Session) admit(id string) error {
	admin := s.access.isAdmin()
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.shared.Limits.MaxRooms
	if s.closed || s.presences[id] != nil || len(s.presences) < limit || admin {
		return nil
	}
	s.shared.Refused(LimitRooms)
	return &room.InvalidError{Field: "room",
		Problem: fmt.Sprintf("is one too many: a connection can be in, or watch, %d rooms", limit)}
}

// Claims reports whether the session is or may soon be in a room. A closed session claims every room, because its
// disconnect timers may not run yet.
func (s *Session) Claims(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.presences[id]
	return s.closed || p != nil && (p.membership.Status.MayBeMember() || p.busy > 0 || p.recovery != nil)
}

// Count adds the session's rooms to rooms, and returns how many it is a member of, and how many it watches.
func (s *Session) Count(rooms map[string]struct{}) (members, watchers int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, p := range s.presences {
		if p.membership.Status.IsMember() {
			members++
		}
		if p.watch.on {
			watchers++
		}
		if p.needsEvents() {
			rooms[id] = struct{}{}
		}
	}
	return members, watchers
}

// Close ends the session's limits, recoveries, refills and subscriptions, after its last request. It returns the rooms
// where the session may still be the user's active one.
func (s *Session) Close() (rooms []string) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.background.Wait()
	var unsubscribe []func()
	s.mu.Lock()
	for id, p := range s.presences {
		if p.unsubscribe != nil {
			unsubscribe = append(unsubscribe, p.unsubscribe)
		}
		if p.membership.Status.MayBeMember() {
			rooms = append(rooms, id)
		}
	}
	s.mu.Unlock()
	for _, fn := range unsubscribe {
		fn()
	}
	if s.access != nil {
		s.access.stop()
	}
	if s.throttle.user != nil {
		s.shared.Users.release(s.User, s.throttle.user)
	}
	return rooms
}

// The limits that Shared.Refused names.
const (
	LimitAuth     = "auth_time" // time without a token
	LimitRate     = "rate"      // requests of a connection
	LimitUserRate = "user_rate" // requests of all connections of a user
	LimitFlood    = "flood"     // frames without a request, or requests over the rate
	LimitFrame    = "frame"     // length of a request
	LimitRooms    = "rooms"     // of a connection
	LimitNewRooms = "new_rooms" // rooms that a user creates
	LimitMembers  = "members"   // of a room
	LimitQueue    = "queue"     // bytes for a slow reader
)

// Shared is the state that a server's sessions share. Every field except MatchSettings must be set.
type Shared struct {
	Life    context.Context      // of requests, and of their background work
	Now     frames.Clock         // the clock that all nodes share
	Clock   func() time.Duration // a monotonic clock
	Limits  Limits
	Users   *Users
	Debug   *DebugLog
	Refused func(limit string) // called when a limit refuses something
	Merged  func(events int)   // called with the number of events that went into another event's frame
	Logs    Logs

	MatchSettings MatchSettings
	Rooms         *SharedReads
	// MoveParty moves the mover and users who agreed, as Coordinator.MoveParty does, and keeps their seats until their
	// sessions come.
	MoveParty func(ctx context.Context, from, to string, begin room.Settings, mover string, users []string) (
		room.Result, error)
	Watching *redisconn.SharedTimeout // with WatchTimeout
}

// Logs are for events that clients can cause any number of times.
type Logs struct {
	Refused map[string]*ratelog.Log // by code: requests that failed by their token, or through no fault of the client
	Rate    *ratelog.Log            // requests over the rate
	Lost    *ratelog.Log            // lost seats
}

// Limits bound the requests of clients.
type Limits struct {
	MaxRooms    int           // of a connection
	MaxNewRooms int           // that a user creates in a minute; negative: no limit
	Rate, Burst int           // requests a second, and at once, of a connection and of a user; negative: no limit
	AuthTimeout time.Duration // from the start of a connection to its auth request
}

func (l Limits) newRooms() rateLimit {
	if l.MaxNewRooms < 0 {
		return rateLimit{}
	}
	return rateLimit{time.Minute / time.Duration(l.MaxNewRooms), time.Minute}
}

// WatchTimeout bounds the wait for a room's subscription before a join or a watch.
const WatchTimeout = 5 * time.Second

func (s *Shared) do(id string, action room.Action) (room.Result, error) {
	return s.Rooms.Do(s.Life, id, action)
}

// MaxDebugLines is how many lines a second DebugLog writes at most.
const MaxDebugLines = 200

// DebugLog logs clients' actions at level debug. Clients decide how many there are, so it writes at most
// MaxDebugLines a second, and reports how many it left out.
type DebugLog struct {
	log     *slog.Logger
	clock   func() time.Duration
	lines   gcra
	leftOut atomic.Int64
}

var debugLimit = newRateLimit(MaxDebugLines, MaxDebugLines)

// NewDebugLog returns a debug log with a monotonic clock.
func NewDebugLog(log *slog.Logger, clock func() time.Duration) *DebugLog {
	return &DebugLog{log: log, clock: clock}
}

func (d *DebugLog) enabled() bool { return d.log.Enabled(context.Background(), slog.LevelDebug) }

// Write writes a line, if the level is enabled and there were not too many.
func (d *DebugLog) Write(message string, attrs ...slog.Attr) {
	if !d.enabled() {
		return
	}
	if d.lines.take(debugLimit, d.clock()) > 0 {
		d.leftOut.Add(1)
		return
	}
	if n := d.leftOut.Swap(0); n > 0 {
		attrs = append(attrs, slog.Int64("left_out", n))
	}
	d.log.LogAttrs(context.Background(), slog.LevelDebug, message, attrs...)
}

func (r *request) runLogged() {
	start := time.Now()
	r.session.outcome = "ok"
	r.run()
	id := r.in.Room
	if room.CheckID(id) != nil {
		id = "(invalid)" // it can be as long as a frame
	}
	r.session.shared.Debug.Write("request", slog.String("room", id), slog.String("user", r.session.User),
		slog.String("action", r.in.Action), slog.String("result", r.session.outcome),
		slog.Duration("took", time.Since(start)))
}

// isMember reports whether the client takes the session for a member of a room.
func (s *Session) isMember(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.presences[id]
	return p != nil && p.membership.Status.IsMember()
}
