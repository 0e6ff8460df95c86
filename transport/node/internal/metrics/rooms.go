package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"roomd/room"
	"roomd/room/coordinator"
)

// otherKind counts actions of kinds missing in room.ActionKinds.
const otherKind = "other"

// results map errors of actions to labels: the codes of the protocol where there is one.
var results = []struct {
	err    error
	result string
}{
	{room.ErrUnknown, "unknown"}, // before the errors that it may wrap
	{room.ErrNotMember, "not_member"},
	{room.ErrFull, "room_full"},
	{room.ErrSeatTaken, "seat_taken"},
	{room.ErrDuplicate, "duplicate_user"},
	{room.ErrForbidden, "forbidden"},
	{room.ErrInvalid, "bad_request"},
	{room.ErrRoomClosed, "closed"},
	{room.ErrBanned, "banned"},
	{room.ErrConflict, "conflict"},
	{room.ErrBusy, "busy"},
	{room.ErrForeign, resultInternal}, // before ErrUnavailable
	{room.ErrUnavailable, "unavailable"},
	{room.ErrClosed, "cancelled"},
	{context.Canceled, "cancelled"},
	{context.DeadlineExceeded, "cancelled"},
}

const (
	resultOK       = "ok"
	resultInternal = "internal" // an error missing in results, or one that only an operator can mend
)

func resultOf(err error) string {
	if err == nil {
		return resultOK
	}
	for _, r := range results {
		if errors.Is(err, r.err) {
			return r.result
		}
	}
	return resultInternal
}

type actions struct {
	byKind map[room.Kind]*actionKind // never changes
	other  *actionKind
}

type actionKind struct {
	took     prometheus.Observer
	ok       prometheus.Counter
	byResult map[string]prometheus.Counter // never changes
}

func newActions(r prometheus.Registerer) *actions {
	total := counters(r, "actions_total", "Actions that have ended, by what they do and how they ended.", "kind",
		"result")
	took := histograms(r, "action_duration_seconds", "How long actions took, with the wait for the room's lock.",
		"kind", times)
	kind := func(name string) *actionKind {
		k := &actionKind{took: took.WithLabelValues(name), ok: total.WithLabelValues(name, resultOK),
			byResult: make(map[string]prometheus.Counter)}
		k.byResult[resultInternal] = total.WithLabelValues(name, resultInternal)
		for _, one := range results {
			k.byResult[one.result] = total.WithLabelValues(name, one.result)
		}
		return k
	}
	a := &actions{byKind: make(map[room.Kind]*actionKind), other: kind(otherKind)}
	for _, name := range room.ActionKinds {
		a.byKind[name] = kind(string(name))
	}
	return a
}

func (a *actions) done(name room.Kind, err error, took time.Duration) {
	kind := a.byKind[name]
	if kind == nil {
		kind = a.other
	}
	kind.took.Observe(took.Seconds())
	if err == nil {
		kind.ok.Inc()
		return
	}
	kind.byResult[resultOf(err)].Inc()
}

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
