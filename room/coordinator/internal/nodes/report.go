package nodes

import (
	"runtime/metrics"

	"roomd/room/coordinator/internal/checks"
)

// Report is a node's report on itself. Options.Report adds what the coordinator does not know.
type Report struct {
	Node     string                          `json:"node"`
	Address  string                          `json:"address"`
	Admin    string                          `json:"admin,omitzero" doc:"Its address for operators; absent without one."`
	Version  string                          `json:"version"`
	Started  int64                           `json:"started" doc:"In ms since 1970."`
	Draining bool                            `json:"draining" doc:"It is about to stop."`
	Settings map[string]string               `json:"settings"`
	Load     Load                            `json:"load"`
	Totals   Totals                          `json:"totals" doc:"Counted since the node's start."`
	P99      P99                             `json:"p99" doc:"99th percentiles of the last five seconds, at most an eighth too long; 0 if there was nothing."`
	Waiting  []WaitingRoom                   `json:"waiting" doc:"Rooms in which actions wait on this node, those that wait longest first."`
	Checks   map[checks.Check]checks.Checked `json:"checks"`
	Webhooks []Webhook                       `json:"webhooks,omitzero"`
}

// Load is a node's current load.
type Load struct {
	Connections    int    `json:"connections" doc:"Game clients that are connected."`
	MaxConnections int    `json:"max_connections" doc:"How many may be."`
	Rooms          int    `json:"rooms" doc:"Rooms with members or watchers among the connections."`
	Members        int    `json:"members" doc:"Seats of the connections' users."`
	Watchers       int    `json:"watchers" doc:"Watches of the connections."`
	Graces         int    `json:"graces" doc:"Lost connections whose users keep their seats."`
	Queue          int    `json:"queue" doc:"Actions that wait for their room's lock."`
	BusyRooms      int    `json:"busy_rooms" doc:"Rooms on which the node works."`
	Goroutines     int    `json:"goroutines"`
	MemoryBytes    uint64 `json:"memory_bytes" doc:"That the process has from the operating system."`
}

// WaitingRoom is a room with waiting actions on a node.
type WaitingRoom struct {
	Room    string `json:"room"`
	Actions int    `json:"actions"`
	MS      int64  `json:"ms" doc:"For how long the first of the actions has waited."`
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
