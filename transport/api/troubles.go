package api

import (
	"log/slog"

	"roomd/room/episode"
	"roomd/transport/protocol"
)

// troubles are what an outage of Redis, or a caller, can cause any number of times. They read as
// those of the WebSockets do.
type troubles struct {
	byCode  map[string]*episode.Log
	origins *episode.Log
}

func newTroubles(log *slog.Logger) *troubles {
	of := func(level slog.Level, message string) *episode.Log {
		return episode.New(log, level, message, episode.Quiet)
	}
	return &troubles{
		byCode: map[string]*episode.Log{
			protocol.CodeUnavailable:  of(slog.LevelWarn, "requests are refused: unavailable"),
			protocol.CodeUnknown:      of(slog.LevelWarn, "requests have an unknown outcome"),
			protocol.CodeInternal:     of(slog.LevelError, "requests fail: internal"),
			protocol.CodeUnauthorized: of(slog.LevelInfo, "tokens are refused"),
			protocol.CodeRateLimited:  of(slog.LevelInfo, "requests are refused: too many"),
		},
		origins: of(slog.LevelWarn, "pages of another origin are refused"),
	}
}

// happened records why a request was refused.
func (t *troubles) happened(q *request, e *protocol.Error, err error) {
	if trouble := t.byCode[e.Code]; trouble != nil {
		trouble.Happened(err, "method", q.Method, "room", q.room)
	}
}

func (t *troubles) close() {
	for _, l := range t.byCode {
		l.Close()
	}
	t.origins.Close()
}
