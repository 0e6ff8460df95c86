package transport

import (
	"log/slog"
	"time"

	"roomd/room/episode"
	"roomd/transport/protocol"
)

// probeQuiet is longer than the pause between two probes of a load balancer.
const probeQuiet = time.Minute

// troubles are what an outage of Redis, or a client, can cause any number of times. Each is
// logged when it begins and when it is over.
type troubles struct {
	refused     map[string]*episode.Log // by code: requests that failed for no fault of the client, or for a token
	origins     *episode.Log            // pages of other origins
	full        *episode.Log            // connections beyond the limit
	address     *episode.Log            // connections beyond the limit of their address
	rate        *episode.Log            // requests over the rate
	evicted     *episode.Log            // connections that had shown no token
	panics      *episode.Log
	notReady    *episode.Log
	lostSeats   *episode.Log
	notRemoved  *episode.Log // disconnected users who are still in a room after their grace
	notDetached *episode.Log // disconnected users whose seats a new session cannot take over
}

func newTroubles(log *slog.Logger) *troubles {
	of := func(level slog.Level, message string) *episode.Log {
		return episode.New(log, level, message, episode.Quiet)
	}
	return &troubles{
		refused: map[string]*episode.Log{
			protocol.CodeUnavailable:  of(slog.LevelWarn, "requests are refused: unavailable"),
			protocol.CodeUnknown:      of(slog.LevelWarn, "requests have an unknown outcome"),
			protocol.CodeInternal:     of(slog.LevelError, "requests fail: internal"),
			protocol.CodeUnauthorized: of(slog.LevelInfo, "tokens are refused"),
		},
		origins:     of(slog.LevelWarn, "pages of another origin are refused"),
		full:        of(slog.LevelWarn, "connections are refused: the node is full"),
		address:     of(slog.LevelWarn, "connections are refused: too many from one address; --trust-proxy has to name it if it is that of a proxy"),
		rate:        of(slog.LevelInfo, "requests are refused: too many"),
		evicted:     of(slog.LevelWarn, "connections that have shown no token are closed to make room"),
		panics:      of(slog.LevelError, "panic"),
		notReady:    episode.New(log, slog.LevelWarn, "not ready: Redis does not answer", probeQuiet),
		lostSeats:   of(slog.LevelInfo, "a member has lost the seat"),
		notRemoved:  of(slog.LevelWarn, "a disconnected user stays in the room"),
		notDetached: of(slog.LevelWarn, "a disconnected user cannot come back before the grace is over"),
	}
}

// close ends the episodes that run. Nothing may happen after it.
func (t *troubles) close() {
	for _, l := range t.refused {
		l.Close()
	}
	for _, l := range []*episode.Log{t.origins, t.full, t.address, t.rate, t.evicted, t.panics, t.notReady, t.lostSeats, t.notRemoved, t.notDetached} {
		l.Close()
	}
}
