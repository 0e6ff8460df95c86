package check

import "time"

type roomEpoch struct{ room, epoch string }

// moments has for each commit of an epoch, by version, the interval in which it happened, according to the
// clients.
type moments struct {
	of  map[roomEpoch][]moment
	end time.Duration
}

func newMoments(h *History) *moments {
	m := &moments{make(map[roomEpoch][]moment), h.End}
	for _, op := range h.Ops {
		if op.Version == 0 || op.Outcome == Unknown {
			continue
		}
		in := roomEpoch{op.Room, op.Epoch}
		m.told(in, op.Version, op.Return)
		if !h.split(op) { // otherwise it may be an old version
			next := m.at(in, op.Version+1)
			next.from = max(next.from, op.Call)
		}
	}
	for i := range h.Events {
		if e := &h.Events[i]; e.Version > 0 {
			m.told(roomEpoch{e.Room, e.Epoch}, e.Version, e.At)
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
func (m *moments) at(in roomEpoch, version uint64) *moment {
	for uint64(len(m.of[in])) <= version {
		m.of[in] = append(m.of[in], moment{to: m.end})
	}
	return &m.of[in][version]
}

func (m *moments) told(in roomEpoch, version uint64, when time.Duration) {
	at := m.at(in, version)
	at.to = min(at.to, when)
}

// when returns the interval of a commit.
func (m *moments) when(room string, version at) moment {
	list := m.of[roomEpoch{room, version.epoch}]
	if len(list) == 0 {
		return moment{to: m.end}
	}
	return list[min(version.version, uint64(len(list)-1))]
}
