package coordinator

import (
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"roomd/room/coordinator/tally"
)

// NodeReport is what a node says of itself, about once a second. Options.Report gives it what the
// coordinator does not know.
type NodeReport struct {
	Node     string            `json:"node"`
	Address  string            `json:"address"`
	Admin    string            `json:"admin,omitzero"` // the address for operators; empty without one
	Version  string            `json:"version"`
	Started  int64             `json:"started"` // in ms since 1970, by the node's clock
	Draining bool              `json:"draining"`
	Settings map[string]string `json:"settings"`
	Load     NodeLoad          `json:"load"`
	Totals   tally.Totals      `json:"totals"`
	P99      tally.P99         `json:"p99"`
	Waiting  []WaitingRoom     `json:"waiting"` // the rooms whose actions wait longest, longest first
	Checks   map[Check]Checked `json:"checks"`
}

// NodeLoad is what a node has to do at a moment.
type NodeLoad struct {
	Connections    int    `json:"connections"`
	MaxConnections int    `json:"max_connections"`
	Rooms          int    `json:"rooms"`
	Members        int    `json:"members"`
	Watchers       int    `json:"watchers"`
	Graces         int    `json:"graces"`
	Queue          int    `json:"queue"` // actions that wait for their room's lock
	BusyRooms      int    `json:"busy_rooms"`
	Goroutines     int    `json:"goroutines"`
	MemoryBytes    uint64 `json:"memory_bytes"` // that the process has from the operating system
}

// WaitingRoom is a room in which actions wait on a node.
type WaitingRoom struct {
	Room    string `json:"room"`
	Actions int    `json:"actions"`
	MS      int64  `json:"ms"` // for how long the first of them has waited
}

// maxWaiting is how many waiting rooms a report has.
const maxWaiting = 20

// report returns what the node says of itself now.
func (b *beacon) report() *NodeReport {
	c := b.Coordinator
	who, _ := c.membership.lease.holder()
	stats := c.Stats()
	r := &NodeReport{
		Node: who.node, Address: c.membership.lease.address, Started: b.started.UnixMilli(),
		Load:   NodeLoad{Queue: stats.Waiting, BusyRooms: stats.Busy, Goroutines: runtime.NumGoroutine(), MemoryBytes: memory()},
		Totals: b.tally.Totals(), P99: b.tally.Turn(),
		Waiting: c.workers.waiting(time.Now()), Checks: c.Checks(),
	}
	b.opts.Report(r)
	return r
}

// memory returns how much memory the process has from the operating system, without what it has
// given back.
func memory() uint64 {
	read := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(read)
	return read[0].Value.Uint64() - read[1].Value.Uint64()
}

// waiting returns the rooms whose actions have waited longest.
func (ws *workers) waiting(now time.Time) []WaitingRoom {
	busy, _ := ws.list()
	rooms := make([]WaitingRoom, 0, maxWaiting)
	for _, w := range busy {
		if actions, deadline := w.queue.first(); actions > 0 {
			rooms = append(rooms, WaitingRoom{w.id, actions, max(0, now.Sub(deadline.Add(-ws.opts.LockWait)).Milliseconds())})
		}
	}
	slices.SortFunc(rooms, func(a, b WaitingRoom) int { return int(b.MS - a.MS) })
	return rooms[:min(len(rooms), maxWaiting)]
}

// first returns how many actions wait, and when the first of them will have waited for too long.
func (q *queue) first() (actions int, deadline time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) > 0 {
		deadline = q.waiting[0].deadline
	}
	return len(q.waiting), deadline
}
