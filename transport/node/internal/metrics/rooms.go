package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"roomd/room"
	"roomd/room/coordinator"
	"roomd/transport"
	"roomd/transport/protocol"
)

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

func newRooms(r prometheus.Registerer) *coordinator.Trace {
	waited := histogram(r, "lock_wait_seconds", "How long a room's lock was wanted before a hold began.", times)
	held := histogram(r, "lock_hold_seconds", "How long holds lasted, with their commits.", times)
	batch := histogram(r, "batch_actions", "How many actions shared a hold.", prometheus.ExponentialBuckets(1, 2, 11))
	lost := counters(r, "locks_lost_total",
		"Holds whose lock was lost: the commit was refused as stale, or Redis did not answer it.", "reason")
	stale, unanswered := lost.WithLabelValues("stale_commit"), lost.WithLabelValues("no_answer")
	evicted := counters(r, "evicted_members_total", "Members of nodes that are gone which this node has removed: "+
		"of a node that died, or of one that was stopped and whose players did not come back.", "node_has")
	died, stopped := evicted.WithLabelValues("died"), evicted.WithLabelValues("stopped")
	return &coordinator.Trace{
		Done:     newActions(r),
		Acquired: func(took time.Duration) { waited.Observe(took.Seconds()) },
		Ended: func(took time.Duration, actions int, why error) {
			held.Observe(took.Seconds())
			batch.Observe(float64(actions))
			switch {
			case why == nil:
			case errors.Is(why, coordinator.ErrStaleCommit):
				stale.Inc()
			default:
				unanswered.Inc()
			}
		},
		Reapplied: counter(r, "commits_reapplied_total",
			"Commits that found the room at another version than this node's copy, and were made again.").Inc,
		Evicted: func(members int, wasStopped bool) {
			if wasStopped {
				stopped.Add(float64(members))
			} else {
				died.Add(float64(members))
			}
		},
		Resynced: counter(r, "resyncs_total",
			"Snapshots that stood for events of a room which this node had missed.").Inc,
		Renamed: counter(r, "leases_lost_total", "How often the node has lost its lease, and has taken a new name.").Inc,
	}
}

// newActions returns a function that counts an action with its error and duration.
func newActions(r prometheus.Registerer) func(room.Kind, error, time.Duration) {
	total := counters(r, "actions_total", "Actions that have ended, by what they do and how they ended.", "kind",
		"result")
	took := histograms(r, "action_duration_seconds", "How long actions took, with the wait for the room's lock.",
		"kind", times)
	type counts struct {
		took     prometheus.Observer
		byResult map[string]prometheus.Counter
	}
	countsOf := func(kind string) counts {
		c := counts{took.WithLabelValues(kind), make(map[string]prometheus.Counter)}
		for _, result := range results {
			c.byResult[result.result] = total.WithLabelValues(kind, result.result)
		}
		c.byResult[resultOK] = total.WithLabelValues(kind, resultOK)
		return c
	}
	byKind, rest := make(map[room.Kind]counts), countsOf(other)
	for _, kind := range room.ActionKinds {
		byKind[kind] = countsOf(string(kind))
	}
	return func(kind room.Kind, err error, took time.Duration) {
		c, known := byKind[kind]
		if !known {
			c = rest
		}
		c.took.Observe(took.Seconds())
		c.byResult[resultOf(err)].Inc()
	}
}

func newClients(r prometheus.Registerer) *transport.Trace {
	merged := counter(r, "merged_events_total",
		"Events that waited for a client, and went into one frame with the event before them.")
	return &transport.Trace{
		Refused: countBy(counters(r, "refused_total", "Connections and requests that a limit has refused, or ended; "+
			"queue: changes dropped for a snapshot.", "limit"), transport.Limits()),
		Connected: counter(r, "connections_total", "WebSockets that were opened.").Inc,
		Closed: countBy(counters(r, "connections_closed_total",
			"WebSockets that the server has closed, by the code of its close frame.", "code"), protocol.CloseCodes()),
		Merged: func(events int) { merged.Add(float64(events)) },
	}
}
