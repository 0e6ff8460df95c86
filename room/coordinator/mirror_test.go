package coordinator

import (
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"roomd/lockmgr/redistest"
	"roomd/room"
)

// mirror is the list of a room that a watcher has built from events.
type mirror struct {
	t    *testing.T
	news chan struct{}

	mu      sync.Mutex
	epoch   string         // guarded by mu
	version uint64         // guarded by mu
	users   map[string]int // guarded by mu: seats
}

// mirrorOf watches an empty room.
func mirrorOf(t *testing.T, c *Coordinator, id string) *mirror {
	t.Helper()
	m := &mirror{t: t, news: make(chan struct{}, 1), users: make(map[string]int)}
	stop, err := c.Watch(t.Context(), id, m.apply)
	redistest.OK(t, err)
	t.Cleanup(stop)
	return m
}

func (m *mirror) apply(e *room.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Snapshot != nil {
		m.users = seatsOf(*e.Snapshot)
	} else if e.From != m.version || m.version > 0 && e.Epoch != m.epoch {
		m.t.Errorf("version %d of %s was told after version %d of %s", e.Version, e.Epoch, m.version, m.epoch)
	}
	for _, c := range e.Changes {
		if c.Type == room.KindJoin {
			m.users[c.User] = c.Seat
		} else {
			delete(m.users, c.User)
		}
	}
	m.epoch, m.version = e.Epoch, e.Version
	select {
	case m.news <- struct{}{}:
	default:
	}
}

func seatsOf(s room.Snapshot) map[string]int {
	seats := make(map[string]int)
	for _, u := range s.Users() {
		seats[u.User] = u.Seat
	}
	return seats
}

// expect waits until the watcher knows the room as it is.
func (m *mirror) expect(s room.Snapshot) {
	m.t.Helper()
	for end := time.After(patience); ; {
		m.mu.Lock()
		same := m.epoch == s.Epoch && m.version == s.Version && maps.Equal(m.users, seatsOf(s))
		knows := fmt.Sprintf("%v at version %d of %s", m.users, m.version, m.epoch)
		m.mu.Unlock()
		if same {
			return
		}
		select {
		case <-m.news:
		case <-end:
			m.t.Fatalf("the watcher knows %s, and the room is %s at version %d of %s", knows, describeUsers(s.Users()), s.Version, s.Epoch)
		}
	}
}
