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
	LimitAuth     = "auth_time" // time until the token
	LimitRate     = "rate"      // requests of a connection
	LimitUserRate = "user_rate" // requests of all connections of a user
	LimitFlood    = "flood"     // frames that ask for nothing, or requests over the rate
	LimitFrame    = "frame"     // length of a request
	LimitRooms    = "rooms"     // of a connection
	LimitNewRooms = "new_rooms" // that a user begins
	LimitMembers  = "members"   // of a room
	LimitQueue    = "queue"     // of a client that reads slowly
)

// Shared is what the sessions of a server have in common. Each field is set.
type Shared struct {
	Life    context.Context      // of requests, and of what runs behind them
	Now     frames.Clock         // the time that all nodes share
	Clock   func() time.Duration // never steps
	Users   *Users
	Debug   *DebugLog
	Refused func(limit string) // called when a limit refuses something
	Merged  func(events int)   // called when so many events go into a frame with the one before them
	Logs    Logs

	MatchSettings MatchSettings
	Rooms         *SharedReads
	Watching      *redisconn.SharedTimeout // of WatchTimeout

	limits atomic.Pointer[limits] // those of SetLimits
}

// Logs get what clients can cause any number of times.
type Logs struct {
	Refused map[string]*ratelog.Log // requests that failed for no fault of the client, by code
	Rate    *ratelog.Log            // requests over the rate
	Lost    *ratelog.Log            // seats
}

// Limits of what a client may do.
type Limits struct {
	MaxRooms    int           // of a connection
	MaxNewRooms int           // that a user begins in a minute; negative: no limit
	Rate, Burst int           // requests a second, and at once, of a connection and of a user; negative: no limit
	AuthTimeout time.Duration // from the start of a connection to its token
}

// limits are Limits as they are used.
type limits struct {
	Limits
	requests rateLimit // of a connection, and of a user
	newRooms rateLimit // that a user begins
}

// WatchTimeout bounds the wait for a room's subscription before a join or a watch.
const WatchTimeout = 5 * time.Second

// do runs an action in a room, on behalf of a client.
func (s *Shared) do(id string, action room.Action) (room.Result, error) {
	return s.Rooms.Do(s.Life, id, action)
}

// SetLimits puts limits in force, from the next request, and the next connection, on.
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

// MaxDebugLines is how many lines a second clients can cause at level debug.
const MaxDebugLines = 200

// DebugLog writes what clients do, at level debug. Clients decide how much they do, so it writes
// at most MaxDebugLines a second, and says how many it left out.
type DebugLog struct {
	log     *slog.Logger
	clock   func() time.Duration
	lines   gcra
	leftOut atomic.Int64
}

var debugLimit = newRateLimit(MaxDebugLines, MaxDebugLines)

// NewDebugLog returns a log by a clock that never steps.
func NewDebugLog(log *slog.Logger, clock func() time.Duration) *DebugLog {
	return &DebugLog{log: log, clock: clock}
}

// enabled reports whether anything is written at all.
func (d *DebugLog) enabled() bool { return d.log.Enabled(context.Background(), slog.LevelDebug) }

// Write writes a line, unless clients have caused too many.
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

// runLogged runs a request about a room, and logs it with its result and duration.
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
