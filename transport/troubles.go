package transport

import (
	"log/slog"
	"time"

	"roomd/room/episode"
	"roomd/transport/protocol"
)

// probeQuiet is longer than the pause between two probes of a load balancer.
const probeQuiet = time.Minute

// troubles are what an outage of Redis, or a client, can make happen any number of
// times. Each is logged when it begins and when it is over.
type troubles struct {
	refused  map[string]*episode.Log // by code: requests that failed for no fault of the client
	panics   *episode.Log
	notReady *episode.Log
	seats    *episode.Log // members who have lost their seats
	stays    *episode.Log // disconnected users who stay in a room
	attached *episode.Log // disconnected users who are not known to have gone
}

func newTroubles(log *slog.Logger) *troubles {
	of := func(level slog.Level, message string) *episode.Log {
		return episode.New(log, level, message, episode.Quiet)
	}
	return &troubles{
		refused: map[string]*episode.Log{
			protocol.CodeUnavailable: of(slog.LevelWarn, "requests are refused: unavailable"),
			protocol.CodeUnknown:     of(slog.LevelWarn, "requests have an unknown outcome"),
			protocol.CodeInternal:    of(slog.LevelError, "requests fail: internal"),
		},
		panics:   of(slog.LevelError, "panic"),
		notReady: episode.New(log, slog.LevelWarn, "not ready: Redis does not answer", probeQuiet),
		seats:    of(slog.LevelInfo, "a member has lost the seat"),
		stays:    of(slog.LevelWarn, "a disconnected user stays in the room"),
		attached: of(slog.LevelWarn, "a disconnected user cannot come back before the seat is free"),
	}
}

// close ends what has not been over for long enough. Nothing may happen after it.
func (t *troubles) close() {
	for _, l := range t.refused {
		l.Close()
	}
	for _, l := range []*episode.Log{t.panics, t.notReady, t.seats, t.stays, t.attached} {
		l.Close()
	}
}
