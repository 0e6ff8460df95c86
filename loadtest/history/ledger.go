package history

import (
	"slices"
	"sync"
)

// Options say what is right in a run. The zero value is for rooms without a
// limit on a store that forgets nothing.
type Options struct {
	// Capacity is how many members a room may have of which no settings were told. Zero
	// means no limit.
	Capacity int
	// DataLoss declares that the store may forget rooms during the run, so that a
	// room may get a new epoch. Such a room is not replayed, only compared with what
	// clients saw of it. Without DataLoss a new epoch is a version gap.
	DataLoss bool
	// Now returns the time in ms since 1970, by the clock that ends bans. Without it no
	// ban ends by itself.
	Now func() int64
}

// Ledger collects what all connections of a run were told. Its methods are safe
// for concurrent use. They are cheap, because each room has a lock of its own.
type Ledger struct {
	options    Options
	violations Violations
	budget     int           // tries per room to explain lists by unknown outcomes
	dealt      map[Hand]bool // in any room, as far as anybody asked for it; set by Check

	mu        sync.Mutex
	rooms     map[string]*roomLog // guarded by mu
	observers []string            // by observer; guarded by mu
}

// observer is a connection, as an index into Ledger.observers.
type observer uint32

// NewLedger returns an empty ledger.
func NewLedger(o Options) *Ledger {
	return &Ledger{options: o, budget: searchBudget, rooms: make(map[string]*roomLog)}
}

// Violations returns what views and checks have found so far. It goes on counting.
func (l *Ledger) Violations() *Violations { return &l.violations }

// Start declares that the room is not fresh but stands at state. Call it before
// any view of the room gets a message. The zero state is that of a fresh room.
func (l *Ledger) Start(room string, state RoomState) {
	if state.Epoch == "" {
		return
	}
	r := l.room(room)
	r.mu.Lock()
	defer r.mu.Unlock()
	e := newEpochLog(state.Epoch)
	e.start, e.users = state.Version, slices.Clone(state.Users)
	e.data, e.rules, e.host = state.Data, state.Settings, state.Host
	r.epochs = []*epochLog{e}
}

// View returns the picture that a connection of user has of the room. The name
// distinguishes the connection in descriptions, such as "player-7 on node-2".
func (l *Ledger) View(room, user, name string) *View {
	v := &View{room: l.room(room), user: user, name: name, roster: newRoster()}
	l.mu.Lock()
	defer l.mu.Unlock()
	v.observer = observer(len(l.observers))
	l.observers = append(l.observers, name)
	return v
}

func (l *Ledger) room(name string) *roomLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rooms[name]
	if r == nil {
		r = &roomLog{ledger: l, name: name}
		l.rooms[name] = r
	}
	return r
}

// observerName returns the name of a connection.
func (l *Ledger) observerName(o observer) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.observers[o]
}

// now returns the time, 0 without a clock.
func (l *Ledger) now() int64 {
	if l.options.Now == nil {
		return 0
	}
	return l.options.Now()
}
