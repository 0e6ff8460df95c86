package history

import (
	"sync"
	"unique"
)

// Options say what is right in a run. The zero value is for rooms without a
// limit on a store that forgets nothing.
type Options struct {
	// Capacity is how many members a room may have. Zero means no limit.
	Capacity int
	// DataLoss declares that the store may forget rooms during the run, so that a
	// room may get a new epoch. Such a room is then not replayed, only compared
	// with what was seen of it. Without it a new epoch is a version gap.
	DataLoss bool
}

// Ledger collects what all connections of a run were told. Its methods are safe
// for concurrent use, and cheap: a room's part of it has a lock of its own.
type Ledger struct {
	capacity int
	dataLoss bool
	verdicts Violations
	budget   int // of tries per room to explain lists by unknown outcomes

	mu        sync.Mutex
	rooms     map[string]*roomLog // guarded by mu
	observers []string            // by observer; guarded by mu
}

// observer is a connection, as an index into Ledger.observers.
type observer uint32

// roomLog is what was told of one room.
type roomLog struct {
	name string

	mu      sync.Mutex
	epochs  []*epochLog // in the order they were first seen; guarded by mu, as is all below
	unknown []unknown
}

// unknown is a request that may have been committed, at a version above after.
type unknown struct {
	user   string
	action string
	after  uint64
}

// ack is an acknowledged join or leave.
type ack struct {
	version uint64
	user    string
	seat    int
	join    bool
}

// storedAck is an ack in less memory: a run has as many as it has actions.
type storedAck struct {
	version uint64
	user    unique.Handle[string]
	seat    int32
	join    bool
}

// NewLedger returns an empty ledger.
func NewLedger(o Options) *Ledger {
	return &Ledger{capacity: o.Capacity, dataLoss: o.DataLoss, budget: searchBudget, rooms: make(map[string]*roomLog)}
}

// Violations are those that were found so far, by views and checks. They go on
// being counted.
func (l *Ledger) Violations() *Violations { return &l.verdicts }

// Start declares that the room is not fresh but stands at state. Call it before
// any view of the room is fed. The zero state is that of a fresh room.
func (l *Ledger) Start(room string, state RoomState) {
	if state.Epoch == "" {
		return
	}
	r := l.room(room)
	r.mu.Lock()
	defer r.mu.Unlock()
	e := newEpochLog(state.Epoch)
	e.start, e.users = state.Version, append([]Member(nil), state.Users...)
	r.epochs = []*epochLog{e}
}

// View returns the picture that a connection of user has of the room. The name
// tells the connection from others in descriptions, such as "player-7 on node-2".
func (l *Ledger) View(room, user, name string) *View {
	v := &View{ledger: l, room: l.room(room), user: user, name: name, roster: newRoster()}
	l.mu.Lock()
	defer l.mu.Unlock()
	v.observer = observer(len(l.observers))
	l.observers = append(l.observers, name)
	return v
}

// Unknown takes a request, Join or Leave, that may or may not be committed in
// the room at a version above after: that of the last reply which the user got
// about the room before sending it. [View.Unknown] knows it; 0 is always safe.
func (l *Ledger) Unknown(room, user, action string, after uint64) {
	l.unknown(l.room(room), user, action, after)
}

func (l *Ledger) unknown(r *roomLog, user, action string, after uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unknown = append(r.unknown, unknown{user, action, after})
}

func (l *Ledger) room(name string) *roomLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.rooms[name]
	if r == nil {
		r = &roomLog{name: name}
		l.rooms[name] = r
	}
	return r
}

func (l *Ledger) observerName(o observer) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.observers[o]
}

func (l *Ledger) acknowledge(r *roomLog, epoch string, a ack) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := l.epochLocked(r, epoch, a.version)
	e.top = max(e.top, a.seat)
	e.acks = append(e.acks, storedAck{a.version, unique.Make(a.user), int32(a.seat), a.join})
}

// observe takes the list that o had at the version, and keeps its fingerprint.
func (l *Ledger) observe(r *roomLog, epoch string, version uint64, list *roster, o observer) {
	if epoch == "" && version == 0 && list.print.count == 0 {
		return // a room that nobody has joined yet
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	l.observeLocked(r, l.epochLocked(r, epoch, version), version, list, o)
}

func (l *Ledger) observeLocked(r *roomLog, e *epochLog, version uint64, list *roster, o observer) {
	w, print := e.at(version), list.print
	e.top = max(e.top, list.top)
	switch {
	case w.has&hasPrint == 0 && w.has&hasCount != 0 && int(w.count) != print.count:
		l.disagreeLocked(r, e, version, w, "%s was told a count of %d, %s sees %d users",
			l.observerName(w.by), w.count, l.observerName(o), print.count)
	case w.has&hasPrint == 0:
		w.has |= hasPrint | hasCount
		w.sum, w.count, w.by = print.sum, int32(print.count), o
	case w.sum != print.sum || int(w.count) != print.count:
		l.disagreeLocked(r, e, version, w, "%s sees %d users, %s sees %d, and the lists differ",
			l.observerName(w.by), w.count, l.observerName(o), print.count)
	}
}

// count takes the count of a reply without a list.
func (l *Ledger) count(r *roomLog, epoch string, version uint64, count int, o observer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := l.epochLocked(r, epoch, version)
	switch w := e.at(version); {
	case w.has&hasCount == 0:
		w.has |= hasCount
		w.count, w.by = int32(count), o
	case int(w.count) != count:
		l.disagreeLocked(r, e, version, w, "%s has a count of %d, %s was told %d",
			l.observerName(w.by), w.count, l.observerName(o), count)
	}
}

// committed takes an event, and the list that o has after it if that is trusted.
func (l *Ledger) committed(r *roomLog, ev Event, list *roster, trusted bool, o observer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := l.epochLocked(r, ev.Epoch, ev.Version)
	if ev.Version-ev.From > 1 {
		if !e.addSpan(ev) {
			l.disagreeLocked(r, e, ev.Version, e.at(ev.Version),
				"the changes since version %d that %s was told are not those that others were told", ev.From, l.observerName(o))
		}
	} else if w := e.at(ev.Version); w.has&hasCommit == 0 {
		e.store(ev.Version, ev.Changes, o)
	} else if !e.stored(ev.Version).equal(ev.Changes) {
		l.disagreeLocked(r, e, ev.Version, w, "%s was told other changes than %s", l.observerName(o), l.observerName(w.told))
	}
	if trusted {
		l.observeLocked(r, e, ev.Version, list, o)
	}
}

func (l *Ledger) disagreeLocked(r *roomLog, e *epochLog, version uint64, w *witness, format string, args ...any) {
	w.has |= disputed
	l.found(place{Diverged, r.name, e.name, version, ""}, version, format, args...)
}

// epochLocked returns the log of the epoch, which is the room's only one unless
// the store has lost data.
func (l *Ledger) epochLocked(r *roomLog, name string, version uint64) *epochLog {
	for _, e := range r.epochs {
		if e.name == name {
			return e
		}
	}
	if len(r.epochs) > 0 && !l.dataLoss {
		l.found(place{VersionGap, r.name, name, 0, ""}, version, "the room went from epoch %q to %q", r.epochs[0].name, name)
	}
	e := newEpochLog(name)
	r.epochs = append(r.epochs, e)
	return e
}

func (l *Ledger) found(p place, version uint64, format string, args ...any) {
	l.verdicts.report(p, version, format, args...)
}

func (l *Ledger) fault(room, epoch string, version uint64, f fault) {
	p := place{f.kind, room, epoch, version, f.subject}
	if f.lasting {
		p.version = 0
	}
	l.found(p, version, "%s", f.text)
}
