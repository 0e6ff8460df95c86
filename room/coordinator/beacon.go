package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/redis/go-redis/v9"

	"roomd/lockmgr/redisconn"
	"roomd/room"
	"roomd/room/coordinator/tally"
)

const (
	// beaconPause is the pause between two reports, and maxBeaconPause where a report takes long
	// to make.
	beaconPause    = time.Second
	maxBeaconPause = 3 * time.Second

	// reportKept is how long Redis keeps a report. What is left of that says how old it is.
	reportKept = 10 * time.Second

	// maxReport is more than any report has in bytes. What is longer is none of ours.
	maxReport = 1 << 18

	// drainKept is how long a node may take to see that it is to stop.
	drainKept = 30 * time.Second
)

// ErrNoNode: no node of that name is believed to live.
var ErrNoNode = errors.New("no such node")

// beacon writes to Redis what this node is and does, and sees there whether somebody asks it to stop.
// An outage of Redis, which others log, costs reports and nothing else.
type beacon struct {
	*Coordinator
	started time.Time
	tally   *tally.Tally

	asked     chan struct{} // closed when somebody asks the node to stop
	closeOnce sync.Once
}

func newBeacon(c *Coordinator, counted *tally.Tally) *beacon {
	return &beacon{Coordinator: c, started: time.Now(), tally: counted, asked: make(chan struct{})}
}

// loop reports as long as the coordinator is open. It takes at most a hundredth of the time, except
// for what Redis takes.
func (b *beacon) loop() {
	for open := b.lifetime.open; open.Err() == nil; {
		start := time.Now()
		report, err := json.Marshal(b.report())
		took := time.Since(start)
		if err == nil {
			b.exchange(open, report)
		}
		_ = redisconn.Pause(open, min(max(beaconPause, 100*took), maxBeaconPause))
	}
}

// exchange writes a report, and reads whether the node is to stop, in one round trip.
func (b *beacon) exchange(ctx context.Context, report []byte) {
	ctx, cancel := context.WithTimeout(ctx, maxBeaconPause)
	defer cancel()
	node := b.Node()
	var drain *redis.StringCmd
	_, _ = b.store.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, nodeInfoKey(node), report, reportKept)
		drain = p.Get(ctx, nodeDrainKey(node))
		return nil
	})
	if drain.Val() != "" {
		b.closeOnce.Do(func() { close(b.asked) })
	}
}

// DrainRequested returns a channel that is closed when somebody asks this node to stop, on any node,
// by [Coordinator.Drain]. Without Options.Report it never is.
func (c *Coordinator) DrainRequested() <-chan struct{} { return c.beacon.asked }

// Drain asks a node, which may be another one, to stop. It sees that within about two seconds. A node
// that takes its place has another name, and is not asked. It fails with [ErrNoNode] or
// [room.ErrUnavailable].
func (c *Coordinator) Drain(ctx context.Context, node string) error {
	nodes, err := c.livingNodes(ctx)
	if err != nil {
		return err
	}
	if _, lives := nodes[node]; !lives {
		return fmt.Errorf("%w: %s", ErrNoNode, node)
	}
	if err := c.store.client.Set(ctx, nodeDrainKey(node), "please", drainKept).Err(); err != nil {
		return fmt.Errorf("%w: %w", room.ErrUnavailable, err)
	}
	return nil
}

// addReports reads what nodes say of themselves. What cannot be read, or is said of another node, is
// left out: nobody can take the place of a node in the list by what it says.
func (c *Coordinator) addReports(ctx context.Context, nodes []NodeInfo) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.NodeTTL)
	defer cancel()
	texts, left := make([]*redis.StringCmd, len(nodes)), make([]*redis.DurationCmd, len(nodes))
	_, _ = c.store.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range nodes {
			key := nodeInfoKey(nodes[i].Name)
			texts[i], left[i] = p.GetRange(ctx, key, 0, maxReport), p.PTTL(ctx, key)
		}
		return nil
	})
	for i := range nodes {
		report := new(NodeReport)
		text, err := texts[i].Bytes()
		if err != nil || left[i].Err() != nil || len(text) > maxReport || json.Unmarshal(text, report) != nil || report.Node != nodes[i].Name {
			continue
		}
		nodes[i].Report, nodes[i].Age = report, max(0, reportKept-left[i].Val())
	}
}
