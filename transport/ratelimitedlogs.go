package transport

import (
	"log/slog"
	"time"

	"roomd/room/ratelog"
	"roomd/transport/protocol"
)

// probeQuiet is longer than the pause between two probes of a load balancer.
const probeQuiet = time.Minute

// rateLimitedLogs are what an outage of Redis, or a client, can cause any number of times. Each is
// logged when it begins and when it is over.
type rateLimitedLogs struct {
	logs        *ratelog.Set
	refused     map[string]*ratelog.Log // by code
	origins     *ratelog.Log            // pages of other origins
	full        *ratelog.Log            // connections beyond the limit
	address     *ratelog.Log            // connections beyond the limit of their address
	rate        *ratelog.Log            // requests over the rate
	evicted     *ratelog.Log            // connections that had shown no token
	panics      *ratelog.Log
	notReady    *ratelog.Log
	lostSeats   *ratelog.Log
	notRemoved  *ratelog.Log // disconnected users who are still in a room after their grace
	notDetached *ratelog.Log // disconnected users whose seats a new session cannot take over
}

func newRateLimitedLogs(log *slog.Logger) *rateLimitedLogs {
	set := ratelog.NewSet(log, ratelog.Quiet)
	return &rateLimitedLogs{
		logs:        set,
		refused:     RefusalLogs(set),
		origins:     OriginLog(set),
		full:        set.Warn("connections are refused: the node is full"),
		address:     set.Warn("connections are refused: too many from one address; --trust-proxy has to name it if it is that of a proxy"),
		rate:        RateLog(set),
		evicted:     set.Warn("connections that have shown no token are closed to make room"),
		panics:      set.Error("panic"),
		notReady:    set.WarnOver(probeQuiet-ratelog.Quiet, "not ready: Redis does not do what this node asks"),
		lostSeats:   set.Info("a member has lost the seat"),
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
