// Package nodes tells operators about the nodes on one Redis.
//
// A [Beacon] counts its node's work (tally.go), reports it to Redis about once a second, and reads there whether
// somebody asked the node to stop. [Living] reads the reports of all nodes, and [Drain] asks a node to stop.
//
// [Beacon.Loop] runs in a goroutine of its caller. Counting allocates nothing, because it runs with every action.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn/pause"
	"roomd/room"
	"roomd/room/coordinator/internal/cluster"
	"roomd/room/coordinator/internal/store"
)

const (
	// beaconPause is the pause between reports; if a report takes long to make, the pause grows up to maxBeaconPause.
	beaconPause    = time.Second
	maxBeaconPause = 3 * time.Second

	// reportTTL is the TTL of a report. Its remainder tells the report's age.
	reportTTL = 10 * time.Second

	// maxReport is longer than any report, in bytes. A longer text is not one of ours.
	maxReport = 1 << 18

	// drainTTL is how long a node has to notice that it is asked to stop.
	drainTTL = 30 * time.Second
)

// ErrNoNode: no living node has that name.
var ErrNoNode = errors.New("no such node")

// Beacon reports this node to Redis, and reads there whether somebody asked the node to stop. An outage of Redis,
// which others log, only costs reports.
type Beacon struct {
	tally    *Tally
	store    *store.Store
	node     *cluster.Node
	describe func(*Report)
	started  time.Time

	asked     chan struct{} // closed when somebody asks the node to stop
	closeOnce sync.Once
}

// NewBeacon returns a Beacon that reports node's work as counted in tally. describe completes each report.
func NewBeacon(st *store.Store, node *cluster.Node, tally *Tally, describe func(*Report)) *Beacon {
	return &Beacon{tally: tally, store: st, node: node, describe: describe, started: time.Now(),
		asked: make(chan struct{})}
}

// Loop reports until open ends. Making reports takes a hundredth of the time at most, if each takes less than 30 ms.
func (b *Beacon) Loop(open context.Context) {
	for open.Err() == nil {
		start := time.Now()
		report := &Report{
			Node: b.node.Name(), Address: b.node.Address(), Started: b.started.UnixMilli(), Totals: b.tally.Totals(),
			P99:  b.tally.Turn(),
			Load: Load{Goroutines: runtime.NumGoroutine(), MemoryBytes: memory()},
		}
		b.describe(report)
		text, err := json.Marshal(report)
		took := time.Since(start)
		if err == nil {
			b.exchange(open, report.Node, text)
		}
		_ = pause.For(open, min(max(beaconPause, 100*took), maxBeaconPause))
	}
}

// exchange writes a report and reads whether the node is asked to stop, in one round trip.
func (b *Beacon) exchange(ctx context.Context, node string, report []byte) {
	ctx, cancel := context.WithTimeout(ctx, maxBeaconPause)
	defer cancel()
	var drain *redis.StringCmd
	_, _ = b.store.Client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, b.store.NodeInfo(node), report, reportTTL)
		drain = p.Get(ctx, b.store.Drain(node))
		return nil
	})
	if drain.Val() != "" {
		b.closeOnce.Do(func() { close(b.asked) })
	}
}

// DrainRequested returns a channel that is closed when somebody has asked this node to stop.
func (b *Beacon) DrainRequested() <-chan struct{} { return b.asked }

// Drain asks a node to stop. It fails with ErrNoNode or [room.ErrUnavailable].
func Drain(ctx context.Context, st *store.Store, from *cluster.Node, node string) error {
	living, err := from.Living(ctx)
	if err != nil {
		return err
	}
	if _, lives := living[node]; !lives {
		return fmt.Errorf("%w: %s", ErrNoNode, node)
	}
	if err := st.Client.Set(ctx, st.Drain(node), "please", drainTTL).Err(); err != nil {
		return fmt.Errorf("%w: %w", room.ErrUnavailable, err)
	}
	return nil
}

// Info describes a node: name, address and settings from its lease, the rest from its own report.
type Info struct {
	Name, Address string
	Settings      cluster.Settings

	Report *Report       // nil if it could not be read
	Age    time.Duration // of the report
}

// Living returns the living nodes, sorted by name, and waits for their reports no longer than timeout. It leaves out a
// report that it cannot read, or that names another node: no node can pose as another by its report. It fails with
// [room.ErrUnavailable].
func Living(ctx context.Context, st *store.Store, from *cluster.Node, timeout time.Duration) (nodes []Info, err error) {
	living, err := from.Living(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	names := slices.Sorted(maps.Keys(living))
	texts, left := make([]*redis.StringCmd, len(names)), make([]*redis.DurationCmd, len(names))
	_, _ = st.Client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, name := range names {
			key := st.NodeInfo(name)
			texts[i], left[i] = p.GetRange(ctx, key, 0, maxReport), p.PTTL(ctx, key)
		}
		return nil
	})
	for i, name := range names {
		info, report := Info{Name: name, Address: living[name].Address, Settings: living[name].Settings}, new(Report)
		text, err := texts[i].Bytes()
		if err == nil && left[i].Err() == nil && len(text) <= maxReport && json.Unmarshal(text, report) == nil &&
			report.Node == name {
			info.Report, info.Age = report, max(0, reportTTL-left[i].Val())
		}
		nodes = append(nodes, info)
	}
	return nodes, nil
}
