package transport

import (
	"log/slog"
	"time"

	"roomd/room/ratelog"
	"roomd/transport/internal/session"
	"roomd/transport/protocol"
)

// Trace holds functions that a [Server] calls when something happens that an operator counts.
// A nil function is not called. They must not block, and are called from many goroutines.
type Trace struct {
	// Refused is called when a limit refuses a connection or a request, or ends a connection, and with LimitQueue
	// when changes are dropped, for which a snapshot will stand. The limit is one of the Limit constants.
	Refused func(limit string)

	// Connected is called when a WebSocket is open.
	Connected func()

	// Closed is called when the server closes a WebSocket, with the code of its close frame.
	// Clients that close, or vanish, do not count.
	Closed func(code int)

	// Merged is called when so many events of a room wait for a client that they go into a
	// frame with the event before them.
	Merged func(events int)
}

// The limits that [Trace.Refused] names.
const (
	LimitConnections     = "connections"         // of the server
	LimitAddress         = "address"             // connections of an address
	LimitUnauthenticated = "unauthenticated"     // that have shown no token: one of the address with most is closed
	LimitHandshake       = "handshake"           // time for the handshake, or any HTTP request
	LimitAuth            = session.LimitAuth     // time until the token
	LimitRate            = session.LimitRate     // requests of a connection
	LimitUserRate        = session.LimitUserRate // requests of all connections of a user
	LimitFlood           = session.LimitFlood    // frames that ask for nothing, or requests over the rate
	LimitFrame           = session.LimitFrame    // length of a request
	LimitRooms           = session.LimitRooms    // of a connection
	LimitNewRooms        = session.LimitNewRooms // that a user begins
	LimitMembers         = session.LimitMembers  // of a room
	LimitQueue           = session.LimitQueue    // of a client that reads slowly
	LimitAPI             = "api"                 // requests of the HTTP API that run at once
	LimitAPIRate         = "api_rate"            // requests of the HTTP API a second
)

// Limits returns all limits that [Trace.Refused] can name.
func Limits() []string {
	return []string{
		LimitConnections, LimitAddress, LimitUnauthenticated, LimitHandshake, LimitAuth, LimitRate, LimitUserRate,
		LimitFlood, LimitFrame, LimitRooms, LimitNewRooms, LimitMembers, LimitQueue, LimitAPI, LimitAPIRate,
	}
}

func (t *Trace) refused(limit string) {
	if t != nil && t.Refused != nil {
		t.Refused(limit)
	}
}

func (t *Trace) connected() {
	if t != nil && t.Connected != nil {
		t.Connected()
	}
}

func (t *Trace) closed(code int) {
	if t != nil && t.Closed != nil {
		t.Closed(code)
	}
}

func (t *Trace) merged(events int) {
	if t != nil && t.Merged != nil && events > 0 {
		t.Merged(events)
	}
}

// probeQuiet is longer than the pause between two probes of a load balancer.
const probeQuiet = time.Minute

// rateLimitedLogs are what an outage of Redis, or a client, can cause any number of times. Each is
// logged when it begins and when it is over.
type rateLimitedLogs struct {
	session.Logs
	logs        *ratelog.Set
	origins     *ratelog.Log // pages of other origins
	full        *ratelog.Log // connections beyond the limit
	address     *ratelog.Log // connections beyond the limit of their address
	evicted     *ratelog.Log // connections that had shown no token
	panics      *ratelog.Log
	notReady    *ratelog.Log
	notRemoved  *ratelog.Log // disconnected users who are still in a room after their grace
	notDetached *ratelog.Log // disconnected users whose seats a new session cannot take over
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

// RefusalLogs returns the logs of requests, by WebSocket or HTTP, that failed for no fault of the caller, or for
// a token: by the codes of their errors.
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
