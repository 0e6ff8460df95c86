package ws

import (
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// heartbeatSteps divides a ping interval: a connection is checked at most one step too late.
const heartbeatSteps = 8

// waited is a threshold: a write that took longer has waited until the client read.
const waited = 100 * time.Millisecond

// heartbeats check all open connections from one goroutine, which runs while there are some. A connection is checked
// when it may have been silent for an interval: busy ones cost next to nothing, and none has its own timer.
type heartbeats struct {
	step    time.Duration
	clock   func() time.Duration // the clock of liveness.heard
	running sync.WaitGroup

	mu    sync.Mutex
	open  int                         // guarded by mu: connections
	slots [heartbeatSteps + 1][]*Conn // guarded by mu: a ring of the connections to check in each step
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

// remove counts the end of a connection, which leaves its slot at its next check. The last one ends the goroutine.
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

// laterLocked schedules the next check of a connection after a time, or up to a step later.
func (h *heartbeats) laterLocked(c *Conn, after time.Duration) {
	steps := min(max(int((after+h.step-1)/h.step), 1), heartbeatSteps)
	at := (h.now + steps) % len(h.slots)
	h.slots[at] = append(h.slots[at], c)
}

// beat pings a client that is silent for an interval, and ends a connection that is silent for two although the
// client could have answered: it has three quarters of an interval from when we last saw its kernel take something that
// was sent before the ping. beat
// returns the time to the next check, 0 for none. It does nothing while a request runs, or during a write, where
// WriteTimeout decides.
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
		return step
	case c.hasTaken():
		c.alive.asked = now
		return step
	case now < end:
		return step
	}
	c.wake()
	return 0
}

func (c *Conn) ask(now time.Duration) {
	sent := c.writer.sent.Load()
	c.alive.asked, c.alive.queue, c.alive.taken = now, sent, sent-c.unsent()
	c.out.Ping(Control(websocket.PingMessage, nil))
}

// hasTaken reports whether the client's kernel has taken, since the last check, bytes that were sent before the ping.
func (c *Conn) hasTaken() bool {
	before := c.alive.taken
	if before < c.alive.queue {
		c.alive.taken = min(c.writer.sent.Load()-c.unsent(), c.alive.queue)
	}
	return c.alive.taken > before
}

// unsent returns how many bytes in our kernel the client's kernel has not acknowledged.
func (c *Conn) unsent() int64 { return unsentBytes(rawOf(socketOf(c.raw))) }

// wake makes the reader notice that the connection has ended.
func (c *Conn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closing {
		_ = c.raw.SetReadDeadline(time.Now())
	}
}
