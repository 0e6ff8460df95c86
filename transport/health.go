package transport

import (
	"context"
	"sync"
	"time"

	"roomd/transport/internal/frames"
	"roomd/transport/protocol"
)

const (
	healthInterval = time.Second
	healthTimeout  = 2 * time.Second

	// degradedAfter is how many pings in a row have to fail: a single one may fail while a connection is replaced.
	degradedAfter = 2
)

// health pings Redis while there are connections, and tells all clients when Redis stops answering or answers again.
type health struct {
	server  *Server
	running sync.WaitGroup // the pings, which end after the last connection

	mu       sync.Mutex
	conns    map[*conn]struct{} // guarded by mu
	degraded bool               // guarded by mu
	stop     context.CancelFunc // guarded by mu: ends the pings; nil while there are none
}

// add registers a new client, and tells it if Redis does not answer.
func (h *health) add(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.conns[c] = struct{}{}; len(h.conns) == 1 {
		ctx, stop := context.WithCancel(h.server.life)
		h.stop = stop
		h.running.Go(func() { h.run(ctx) })
	}
	if h.degraded {
		c.out.Ping(nodeFrame(true))
	}
}

func (h *health) remove(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if delete(h.conns, c); len(h.conns) == 0 {
		h.stop()
	}
}

func (h *health) run(ctx context.Context) {
	tick := time.NewTicker(healthInterval)
	defer tick.Stop()
	for failed := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if failed++; h.look(ctx) {
			failed = 0
		}
		if degraded := failed >= degradedAfter; ctx.Err() == nil && (failed == 0 || degraded) {
			h.become(degraded)
		}
	}
}

func (h *health) look(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	return h.server.rooms.Ping(ctx) == nil
}

// become tells all clients if degraded has changed.
func (h *health) become(degraded bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.degraded == degraded {
		return
	}
	h.degraded = degraded
	for c := range h.conns {
		c.out.Ping(nodeFrame(degraded))
	}
}

func nodeFrame(degraded bool) []byte {
	return frames.Event(&protocol.Event{Event: protocol.EventNode, Degraded: degraded})
}
