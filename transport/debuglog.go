package transport

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"roomd/room"
)

// maxDebugLines is how many lines a second clients can cause at level debug.
const maxDebugLines = 200

// debugLog writes what clients do, at level debug. Clients decide how much they do, so it writes
// at most maxDebugLines a second, and says how many it left out.
type debugLog struct {
	log     *slog.Logger
	clock   func() time.Duration
	lines   gcra
	leftOut atomic.Int64
}

var debugLimit = newRateLimit(maxDebugLines, maxDebugLines)

func newDebugLog(log *slog.Logger, clock func() time.Duration) *debugLog {
	return &debugLog{log: log, clock: clock}
}

// enabled reports whether anything is written at all.
func (d *debugLog) enabled() bool { return d.log.Enabled(context.Background(), slog.LevelDebug) }

func (d *debugLog) write(message string, attrs ...slog.Attr) {
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
	r.session.server.debug.write("request", slog.String("room", id), slog.String("user", r.session.user),
		slog.String("action", r.in.Action), slog.String("result", r.session.outcome), slog.Duration("took", time.Since(start)))
}
