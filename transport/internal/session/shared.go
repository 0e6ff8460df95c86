package session

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"roomd/lockmgr/redisconn"
	"roomd/room"
	"roomd/room/coordinator"
	"roomd/room/ratelog"
	"roomd/transport/internal/frames"
)

// Rooms is what sessions need of a *coordinator.Coordinator.
type Rooms interface {
	Do(ctx context.Context, id string, a room.Action) (room.Result, error)
	Read(ctx context.Context, id string) (room.Snapshot, error)
	Kept(ctx context.Context, id string, most int) (room.Kept, error)
	Match(ctx context.Context, w coordinator.Wanted,
		join func(ctx context.Context, id string, begin *room.Settings) (room.Result, error)) error
	Watch(ctx context.Context, id string, fn func(*room.Event)) (stop func(), err error)
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

// Shared is the state that a server's sessions share. Every field must be set.
type Shared struct {
	Life    context.Context      // of requests, and of their background work
	Now     frames.Clock         // the clock that all nodes share
	Clock   func() time.Duration // a monotonic clock
	Users   *Users
	Debug   *DebugLog
	Refused func(limit string) // called when a limit refuses something
	Merged  func(events int)   // called with the number of events merged into the frame of another
	Logs    Logs

	MatchSettings MatchSettings
	Rooms         *SharedReads
	Watching      *redisconn.SharedTimeout // with WatchTimeout

	limits atomic.Pointer[limits] // set by SetLimits
}

// Logs are for events that clients can cause any number of times.
type Logs struct {
	Refused map[string]*ratelog.Log // by code: requests that failed through no fault of the client
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

// limits are Limits, prepared for use.
type limits struct {
	Limits
	requests rateLimit // of a connection, and of a user
	newRooms rateLimit // of a user
}

// WatchTimeout bounds the wait for a room's subscription before a join or a watch.
const WatchTimeout = 5 * time.Second

func (s *Shared) do(id string, action room.Action) (room.Result, error) {
	return s.Rooms.Do(s.Life, id, action)
}

// SetLimits applies limits to the next requests and connections.
func (s *Shared) SetLimits(l Limits) {
	used := &limits{Limits: l}
	if l.Rate >= 0 {
		used.requests = newRateLimit(l.Rate, l.Burst)
	}
	if l.MaxNewRooms >= 0 {
		used.newRooms = rateLimit{time.Minute / time.Duration(l.MaxNewRooms), time.Minute}
	}
	s.limits.Store(used)
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

// Write writes a line, unless there were too many.
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
