package metrics

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"roomd/room/coordinator"
)

type locks struct {
	waited, held, actions prometheus.Histogram
	stale, unknown        prometheus.Counter
}

func newLocks(r prometheus.Registerer) *locks {
	lost := counters(r, "locks_lost_total", "Holds whose lock was lost: the commit was refused as stale, or Redis did not answer it.", "reason")
	return &locks{
		waited: histogram(r, "lock_wait_seconds", "How long a room's lock was wanted before a hold began.", times),
		held:   histogram(r, "lock_hold_seconds", "How long holds lasted, with their commits.", times),
		actions: histogram(r, "batch_actions", "How many actions shared a hold.",
			prometheus.ExponentialBuckets(1, 2, 11)),
		stale:   lost.WithLabelValues("stale_commit"),
		unknown: lost.WithLabelValues("no_answer"),
	}
}

func (l *locks) ended(held time.Duration, actions int, lost error) {
	l.held.Observe(held.Seconds())
	l.actions.Observe(float64(actions))
	switch {
	case lost == nil:
	case errors.Is(lost, coordinator.ErrStaleCommit):
		l.stale.Inc()
	default:
		l.unknown.Inc()
	}
}

// trouble counts rare events.
type trouble struct {
	reapplied, resynced, renamed prometheus.Counter
	died, stopped                prometheus.Counter // removed members of dead and of stopped nodes
}

func newTrouble(r prometheus.Registerer) *trouble {
	evicted := counters(r, "evicted_members_total",
		"Members of nodes that are gone which this node has removed: of a node that died, or of one that was stopped and whose players did not come back.", "node_has")
	return &trouble{
		reapplied: counter(r, "commits_reapplied_total",
			"Commits that found the room at another version than this node's copy, and were made again."),
		died:     evicted.WithLabelValues("died"),
		stopped:  evicted.WithLabelValues("stopped"),
		resynced: counter(r, "resyncs_total", "Snapshots that stood for events of a room which this node had missed."),
		renamed:  counter(r, "leases_lost_total", "How often the node has lost its lease, and has taken a new name."),
	}
}

func (t *trouble) evicted(members int, stopped bool) {
	if stopped {
		t.stopped.Add(float64(members))
	} else {
		t.died.Add(float64(members))
	}
}

// Rooms returns a trace for the coordinator.
func (m *Metrics) Rooms() *coordinator.Trace {
	return &coordinator.Trace{
		Done:      m.actions.done,
		Acquired:  func(waited time.Duration) { m.locks.waited.Observe(waited.Seconds()) },
		Ended:     m.locks.ended,
		Reapplied: m.trouble.reapplied.Inc,
		Evicted:   m.trouble.evicted,
		Resynced:  m.trouble.resynced.Inc,
		Renamed:   m.trouble.renamed.Inc,
	}
}
