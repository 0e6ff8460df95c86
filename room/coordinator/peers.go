package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"roomd/room"
)

// NodeSettings are what all nodes on one Redis should have in common. Each node writes its own
// into its lease.
type NodeSettings struct {
	LockTTL, NodeTTL, Grace time.Duration
	Seats                   int // of a room
	Duplicate               room.Duplicate
	Journal                 int // how many commits a room keeps

	hasAll bool // false for a lease of an older version: only NodeTTL and Grace are known
}

// shared returns the settings that a coordinator with these options shares with others.
func (o Options) shared() NodeSettings {
	return NodeSettings{LockTTL: o.LockTTL, NodeTTL: o.NodeTTL, Grace: o.Grace, Seats: o.Rules.Seats(), Duplicate: o.Rules.Duplicate, Journal: o.Journal, hasAll: true}
}

// inLease returns what a lease says of s behind the node's address. NodeTTL and Grace stand
// before it.
func (s NodeSettings) inLease() string {
	text := fmt.Sprintf("lock=%d,seats=%d,duplicate=%d", s.LockTTL.Milliseconds(), s.Seats, s.Duplicate)
	if s.Journal > 0 {
		text += fmt.Sprintf(",journal=%d", s.Journal)
	}
	return text
}

// parseSettings reads what inLease has written. What may follow it is ignored.
func parseSettings(text string) NodeSettings {
	var lock int64
	s := NodeSettings{hasAll: true}
	if _, err := fmt.Sscanf(text, "lock=%d,seats=%d,duplicate=%d", &lock, &s.Seats, &s.Duplicate); err != nil {
		return NodeSettings{}
	}
	if _, journal, ok := strings.Cut(text, ",journal="); ok {
		_, _ = fmt.Sscan(journal, &s.Journal) // 0 if it cannot be read: the log says that it differs
	}
	s.LockTTL = time.Duration(lock) * time.Millisecond
	return s
}

// Differences says in which settings other differs from s, by the names that flags have.
func (s NodeSettings) Differences(other NodeSettings) string {
	var found []string
	compare := func(name string, here, there any) {
		if here != there {
			found = append(found, fmt.Sprintf("%s %v instead of %v", name, there, here))
		}
	}
	compare("node-ttl", s.NodeTTL, other.NodeTTL)
	compare("grace", s.Grace, other.Grace)
	if s.hasAll && other.hasAll {
		compare("lock-ttl", s.LockTTL, other.LockTTL)
		compare("capacity", s.Seats, other.Seats)
		compare("journal", s.Journal, other.Journal)
		compare("duplicate", duplicateNames[s.Duplicate], duplicateNames[other.Duplicate])
	}
	return strings.Join(found, ", ")
}

// Strings returns the settings by the names that flags have, with _ for -.
func (s NodeSettings) Strings() map[string]string {
	all := map[string]string{"node_ttl": s.NodeTTL.String(), "grace": s.Grace.String()}
	if s.hasAll {
		all["lock_ttl"], all["capacity"] = s.LockTTL.String(), strconv.Itoa(s.Seats)
		all["journal"], all["duplicate"] = strconv.Itoa(s.Journal), duplicateNames[s.Duplicate]
	}
	return all
}

var duplicateNames = map[room.Duplicate]string{room.Replace: "replace", room.Reject: "reject"}

// peers compares the settings of other nodes with those of this one.
type peers struct {
	log  *slog.Logger
	mine NodeSettings

	mu   sync.Mutex
	told map[string]bool // guarded by mu: differences that were logged
}

// met is called with a lease that was not seen before. It logs each difference once, however
// many nodes have it: when all nodes are restarted with another setting, one line says so.
func (p *peers) met(node string, l leaseContent) {
	differences := p.mine.Differences(l.settings)
	if differences == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told[differences] {
		return
	}
	if p.told == nil {
		p.told = make(map[string]bool)
	}
	p.told[differences] = true
	p.log.Warn("another node has other settings", "node", node, "address", l.address, "it_has", differences)
}

// NodeInfo is a node as its lease describes it, and as it describes itself.
type NodeInfo struct {
	Name, Address string
	Settings      NodeSettings

	Report *NodeReport   // nil if there is none
	Age    time.Duration // of the report
}

// Settings returns what this coordinator shares with the others.
func (c *Coordinator) Settings() NodeSettings { return c.opts.shared() }

// Nodes returns the nodes that are believed to live, by name. It fails with [room.ErrUnavailable].
func (c *Coordinator) Nodes(ctx context.Context) (nodes []NodeInfo, err error) {
	living, err := c.livingNodes(ctx)
	if err != nil {
		return nil, err
	}
	for name, l := range living {
		nodes = append(nodes, NodeInfo{Name: name, Address: l.address, Settings: l.settings})
	}
	slices.SortFunc(nodes, func(a, b NodeInfo) int { return strings.Compare(a.Name, b.Name) })
	c.addReports(ctx, nodes)
	return nodes, nil
}

// livingNodes returns the leases of the nodes that are believed to live.
func (c *Coordinator) livingNodes(ctx context.Context) (map[string]leaseContent, error) {
	living := make(map[string]leaseContent)
	for _, list := range nodeLists(c.store.cluster) {
		leases, err := c.membership.eviction.leasesOf(ctx, list)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", room.ErrUnavailable, err)
		}
		for name, lease := range leases {
			if l, ok := parseLease(lease); ok {
				living[name] = l
			}
		}
	}
	return living, nil
}
