package nodes

import (
	"runtime/metrics"

	"roomd/room/coordinator/internal/checks"
)

// Report is a node's report on itself. Options.Report adds what the coordinator does not know.
type Report struct {
	Node     string                          `json:"node"`
	Address  string                          `json:"address"`
	Admin    string                          `json:"admin,omitzero"` // the address for operators; empty without one
	Version  string                          `json:"version"`
	Started  int64                           `json:"started"` // in ms since 1970, by the node's clock
	Draining bool                            `json:"draining"`
	Settings map[string]string               `json:"settings"`
	Load     Load                            `json:"load"`
	Totals   Totals                          `json:"totals"`
	P99      P99                             `json:"p99"`
	Waiting  []WaitingRoom                   `json:"waiting"` // longest first
	Checks   map[checks.Check]checks.Checked `json:"checks"`
	Webhooks []Webhook                       `json:"webhooks,omitzero"`
}

// Load is a node's current load.
type Load struct {
	Connections    int    `json:"connections"`
	MaxConnections int    `json:"max_connections"`
	Rooms          int    `json:"rooms"`
	Members        int    `json:"members"`
	Watchers       int    `json:"watchers"`
	Graces         int    `json:"graces"`
	Queue          int    `json:"queue"` // actions that wait for their room's lock
	BusyRooms      int    `json:"busy_rooms"`
	Goroutines     int    `json:"goroutines"`
	MemoryBytes    uint64 `json:"memory_bytes"` // obtained from the operating system
}

// WaitingRoom is a room with waiting actions on a node.
type WaitingRoom struct {
	Room    string `json:"room"`
	Actions int    `json:"actions"`
	MS      int64  `json:"ms"` // for how long the first of them has waited
}

// Webhook is a receiver of commits.
type Webhook struct {
	Receiver string `json:"receiver"`
	// age of the oldest commit that this node is sending and the receiver has not acknowledged; 0 for none
	LagMS int64 `json:"lag_ms"`
}

func memory() uint64 {
	read := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(read)
	return read[0].Value.Uint64() - read[1].Value.Uint64()
}
