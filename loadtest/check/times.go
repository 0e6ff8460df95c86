package check

import "time"

type roomEpoch struct{ room, epoch string }

// commitTimes has for each commit of an epoch, by version, the interval in which it happened, according to the
// clients.
type commitTimes struct {
	of  map[roomEpoch][]interval
	end time.Duration
}

func newCommitTimes(h *History) *commitTimes {
	m := &commitTimes{make(map[roomEpoch][]interval), h.End}
	for _, op := range h.Ops {
		if op.Version == 0 || op.Outcome == Unknown {
			continue
		}
		in := roomEpoch{op.Room, op.Epoch}
		m.before(in, op.Version, op.Return)
		if !h.split(op) { // otherwise it may be an old version
			next := m.at(in, op.Version+1)
			next.from = max(next.from, op.Call)
		}
	}
	for i := range h.Events {
		if e := &h.Events[i]; e.Version > 0 {
			m.before(roomEpoch{e.Room, e.Epoch}, e.Version, e.At)
		}
	}
	for _, list := range m.of {
		for v := 1; v < len(list); v++ {
			list[v].from = max(list[v].from, list[v-1].from)
		}
		for v := len(list) - 2; v >= 0; v-- {
			list[v].to = min(list[v].to, list[v+1].to)
		}
	}
	return m
}

// at returns the record of a version.
func (m *commitTimes) at(in roomEpoch, version uint64) *interval {
	for uint64(len(m.of[in])) <= version {
		m.of[in] = append(m.of[in], interval{to: m.end})
	}
	return &m.of[in][version]
}

func (m *commitTimes) before(in roomEpoch, version uint64, when time.Duration) {
	at := m.at(in, version)
	at.to = min(at.to, when)
}

func (m *commitTimes) when(room string, version Point) interval {
	list := m.of[roomEpoch{room, version.Epoch}]
	if len(list) == 0 {
		return interval{to: m.end}
	}
	return list[min(version.Version, uint64(len(list)-1))]
}
