package transport

import (
	"log/slog"
	"time"

	"roomd/room/ratelog"
	"roomd/transport/internal/session"
	"roomd/transport/protocol"
)

// Trace are callbacks of a [Server] for metrics; nil ones are skipped. They run on any goroutine and must not block.
type Trace struct {
	// Refused is called with a Limit constant when a limit refuses a connection or a request, or ends a connection,
	// and with LimitQueue when a snapshot is to replace changes.
	Refused func(limit string)

	// Connected is called when a WebSocket is open.
	Connected func()

	// Closed is called with the close code when the server closes a WebSocket, not when the client ends it.
	Closed func(code int)

	// Merged is called with the number of a room's events that went into the frame of an earlier event.
	Merged func(events int)
}

// The limits that [Trace.Refused] names.
const (
	LimitConnections     = "connections"         // of the server
	LimitAddress         = "address"             // connections from one address
	LimitUnauthenticated = "unauthenticated"     // connections without a token
	LimitHandshake       = "handshake"           // time for the handshake, or any HTTP request
	LimitAuth            = session.LimitAuth     // time without a token
	LimitRate            = session.LimitRate     // requests of a connection
	LimitUserRate        = session.LimitUserRate // requests of all connections of a user
	LimitFlood           = session.LimitFlood    // frames without a request, or requests over the rate
	LimitFrame           = session.LimitFrame    // length of a request
	LimitRooms           = session.LimitRooms    // of a connection
	LimitNewRooms        = session.LimitNewRooms // rooms that a user creates
	LimitMembers         = session.LimitMembers  // of a room
	LimitQueue           = session.LimitQueue    // bytes for a slow reader
	LimitAPI             = "api"                 // requests of the HTTP API that run at once
	LimitAPIRate         = "api_rate"            // requests a second to the HTTP API
)

// Limits returns all limits that [Trace.Refused] can name.
func Limits() []string {
	return []string{
		LimitConnections, LimitAddress, LimitUnauthenticated, LimitHandshake, LimitAuth, LimitRate, LimitUserRate,
		LimitFlood, LimitFrame, LimitRooms, LimitNewRooms, LimitMembers, LimitQueue, LimitAPI, LimitAPIRate,
	}
}

// filled returns a trace without nil callbacks. t may be nil.
func (t *Trace) filled() *Trace {
	var f Trace
	if t != nil {
		f = *t
	}
	if f.Refused == nil {
		f.Refused = func(string) {}
	}
	if f.Connected == nil {
		f.Connected = func() {}
	}
	if f.Closed == nil {
		f.Closed = func(int) {}
	}
	if f.Merged == nil {
		f.Merged = func(int) {}
	}
	return &f
}

// probeQuiet is longer than a load balancer's interval between probes.
const probeQuiet = time.Minute

// rateLimitedLogs are for events that an outage of Redis, or a client, can cause in any number: each logs the first
// of a series, and its end.
type rateLimitedLogs struct {
	session.Logs
	logs        *ratelog.Set
	origins     *ratelog.Log // pages of other origins
	full        *ratelog.Log // connections beyond the limit
	address     *ratelog.Log // connections beyond the limit of their address
	evicted     *ratelog.Log // connections without a token
	panics      *ratelog.Log
	notReady    *ratelog.Log
	notRemoved  *ratelog.Log // users still in a room after their grace
	notDetached *ratelog.Log // users whose seats a new session cannot take over
}

func newRateLimitedLogs(log *slog.Logger) *rateLimitedLogs {
	set := ratelog.NewSet(log, ratelog.Quiet)
	return &rateLimitedLogs{
		Logs: session.Logs{
			Refused: RefusalLogs(set), Rate: RateLog(set), Lost: set.Info("a member has lost the seat"),
		},
		logs:    set,
		origins: OriginLog(set),
		full:    set.Warn("connections are refused: the node is full"),
		address: set.Warn("connections are refused: too many from one address; " +
			"--trust-proxy has to name it if it is that of a proxy"),
		evicted:     set.Warn("connections that have shown no token are closed to make room"),
		panics:      set.Error("panic"),
		notReady:    set.WarnOver(probeQuiet-ratelog.Quiet, "not ready: Redis does not do what this node asks"),
		notRemoved:  set.Warn("a disconnected user stays in the room"),
		notDetached: set.Warn("a disconnected user cannot come back before the grace is over"),
	}
}

// RefusalLogs returns logs by error code, for requests that failed by their token, or through no fault of the caller.
func RefusalLogs(set *ratelog.Set) map[string]*ratelog.Log {
	return map[string]*ratelog.Log{
		protocol.CodeUnavailable:  set.Warn("requests are refused: unavailable"),
		protocol.CodeUnknown:      set.Warn("requests have an unknown outcome"),
		protocol.CodeInternal:     set.Error("requests fail: internal"),
		protocol.CodeUnauthorized: set.Info("tokens are refused"),
	}
}

// RateLog returns the log of requests over the rate.
func RateLog(set *ratelog.Set) *ratelog.Log { return set.Info("requests are refused: too many") }

// OriginLog returns the log of pages of other origins.
func OriginLog(set *ratelog.Set) *ratelog.Log { return set.Warn("pages of another origin are refused") }
