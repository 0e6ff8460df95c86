package ws

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

// heartbeatSteps is in how many steps a ping interval is divided. So much later than it should be, in
// intervals, a connection may be looked at.
const heartbeatSteps = 8

// waited is how long a write takes when it had to wait for the client, and so the client has read.
const waited = 100 * time.Millisecond

// heartbeats look after all open connections from one goroutine, which runs as long as there are
// some: each connection is looked at when it may have been silent for an interval, so one that
// talks costs next to nothing, and none has a timer of its own.
type heartbeats struct {
	step    time.Duration
	clock   func() time.Duration // that of liveness.heard
	running sync.WaitGroup

	mu    sync.Mutex
	open  int                         // guarded by mu: connections
	slots [heartbeatSteps + 1][]*Conn // guarded by mu: a ring: who is looked at in which step
	now   int                         // guarded by mu: the present slot
	stop  chan struct{}               // guarded by mu: ends the goroutine; nil while none runs
}

func (h *heartbeats) add(c *Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open++; h.open == 1 {
		h.stop = make(chan struct{})
		stop := h.stop
		h.running.Go(func() { h.run(stop) })
	}
	h.laterLocked(c, h.step*heartbeatSteps)
}

// remove ends the goroutine with the last connection. One that has ended leaves its slot when it would be looked at.
func (h *heartbeats) remove() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open--; h.open == 0 {
		close(h.stop)
		h.stop = nil
		clear(h.slots[:])
	}
}

func (h *heartbeats) run(stop chan struct{}) {
	tick := time.NewTicker(h.step)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
			h.beat(stop)
		}
	}
}

// beat looks at the connections of one step.
func (h *heartbeats) beat(stop chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop != stop {
		return
	}
	h.now = (h.now + 1) % len(h.slots)
	due := h.slots[h.now]
	h.slots[h.now] = nil
	now := h.clock()
	for _, c := range due {
		if next := c.beat(now, h.step); next > 0 {
			h.laterLocked(c, next)
		}
	}
}

// laterLocked has a connection looked at after that time, or up to a step later.
func (h *heartbeats) laterLocked(c *Conn, after time.Duration) {
	steps := min(max(int((after+h.step-1)/h.step), 1), heartbeatSteps)
	at := (h.now + steps) % len(h.slots)
	h.slots[at] = append(h.slots[at], c)
}

// liveness is when a connection's client was heard, and what it was asked since.
type liveness struct {
	heard atomic.Int64 // by Options.Clock
	busy  atomic.Bool  // the client waits for the server, which reads nothing meanwhile

	// Used only by beat.
	asked time.Duration // when the last ping was queued, by Options.Clock
	queue int64         // how many bytes the kernel had been given before that ping
	taken int64         // how many of the bytes that it was given the client's kernel had acknowledged then
}

// hear records a sign of life.
func (c *Conn) hear() { c.alive.heard.Store(int64(c.group.Clock())) }

// beat asks a client that is silent for an interval for a sign of life, and ends a connection that is
// silent for two and has had the time to answer. It returns when to look again; 0 is never. While
// something is being written, the write time-out decides.
func (c *Conn) beat(now, step time.Duration) (next time.Duration) {
	interval := c.group.PingInterval
	heard := time.Duration(c.alive.heard.Load())
	end := max(heard+2*interval, c.alive.asked+interval-2*step)
	switch _, _, closing := c.closeReason(); {
	case closing:
		return 0
	case c.alive.busy.Load():
		return interval
	case now < heard+interval:
		return heard + interval - now
	case c.out.IsWriting():
		return step
	case c.alive.asked <= heard:
		c.ask(now)
		return max(heard+2*interval-now, interval-2*step)
	case now < end:
		return end - now
	case c.isReading():
		c.ask(now)
		return interval
	}
	c.wake()
	return 0
}

// ask asks the client for a sign of life.
func (c *Conn) ask(now time.Duration) {
	sent := c.writer.sent.Load()
	c.alive.asked, c.alive.queue, c.alive.taken = now, sent, sent-c.unsent()
	c.out.Ping(Control(websocket.PingMessage, nil))
}

// isReading reports whether the client, since it was asked, has read some of what the kernel keeps for
// it, and the ping is still behind the rest: who reads slowly cannot have answered yet.
func (c *Conn) isReading() bool {
	taken := c.writer.sent.Load() - c.unsent()
	return taken > c.alive.taken && taken < c.alive.queue
}

// unsent returns how many bytes the kernel has been given, and the client's has not acknowledged.
func (c *Conn) unsent() int64 { return unsentBytes(rawOf(socketOf(c.raw))) }

// wake makes the reader find that the connection has ended.
func (c *Conn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing {
		_ = c.raw.SetReadDeadline(time.Now())
	}
}
