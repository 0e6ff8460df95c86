package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"roomd/room"
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
