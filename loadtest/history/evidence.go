package history

import (
	"cmp"
	"maps"
	"slices"
)

// evidence is an epoch's log in the order in which a replay needs it.
type evidence struct {
	*epochLog
	versions []uint64        // of epochLog.interesting, and the final one
	pending  []storedAck     // by version; acksThrough cuts off what the replay has used
	ordered  []span          // keys of spans, in order
	shortest map[uint64]span // of the spans that begin at a version
}

func newEvidence(e *epochLog, final uint64) *evidence {
	ev := &evidence{
		epochLog: e, versions: e.interesting(), pending: slices.Clone(e.acks), shortest: make(map[uint64]span),
		ordered: slices.SortedFunc(maps.Keys(e.spans), func(a, b span) int {
			return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
		}),
	}
	slices.SortStableFunc(e.requests, func(a, b answered) int { return cmp.Compare(a.Version, b.Version) })
	slices.SortStableFunc(ev.pending, func(a, b storedAck) int { return cmp.Compare(a.version, b.version) })
	for _, s := range ev.ordered {
		if _, ok := ev.shortest[s.from]; !ok {
			ev.shortest[s.from] = s
		}
	}
	if at, found := slices.BinarySearch(ev.versions, final); !found && final > e.start {
		ev.versions = slices.Insert(ev.versions, at, final)
	}
	return ev
}

// acksThrough cuts off and returns the acknowledgements up to version v.
func (ev *evidence) acksThrough(v uint64) []storedAck {
	n := 0
	for n < len(ev.pending) && ev.pending[n].version <= v {
		n++
	}
	acks := ev.pending[:n]
	ev.pending = ev.pending[n:]
	return acks
}

// highest returns the highest version in the log, at least start.
func (ev *evidence) highest() uint64 {
	highest := ev.start
	for _, v := range ev.versions {
		if ev.look(v).has != 0 {
			highest = max(highest, v)
		}
	}
	if n := len(ev.pending); n > 0 {
		highest = max(highest, ev.pending[n-1].version)
	}
	for _, s := range ev.ordered {
		highest = max(highest, s.to)
	}
	return highest
}

// is reports whether the witness of a version has the flag.
func (ev *evidence) is(v uint64, flag uint8) bool { return ev.look(v).has&flag != 0 }

// requestsAt returns the answered requests of a version.
func (ev *evidence) requestsAt(v uint64) []answered { return ev.requestsIn(span{v - 1, v}) }

// requestsIn returns the answered requests of the versions.
func (ev *evidence) requestsIn(s span) []answered {
	first, _ := slices.BinarySearchFunc(ev.requests, s.from+1, compareVersion)
	last, _ := slices.BinarySearchFunc(ev.requests, s.to+1, compareVersion)
	return ev.requests[first:last]
}

func compareVersion(a answered, v uint64) int { return cmp.Compare(a.Version, v) }
